"""Names as lakes have them: without a namespace, and in nested ones."""

from __future__ import annotations

import pytest

import deltasql
import deltasql.spark

NAMES = ["plain", "one.t", "one.two.three.t"]


@pytest.mark.parametrize("name", NAMES)
def test_statements_take_names_of_any_depth(spark, db, lake, name):
    full = f"lake.{name}"
    spark.sql(f"CREATE TABLE {full} (id INT, v STRING)")
    spark.sql(f"INSERT INTO {full} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE {full} SET v = 'c' WHERE id = 2")
    spark.sql(f"DELETE FROM {full} WHERE id = 1")
    spark.sql(f"ALTER TABLE {full} SET TBLPROPERTIES ('k' = 'v')")
    assert [tuple(row) for row in spark.sql(f"SELECT * FROM {full}").collect()] == [(2, "c")]
    assert spark.table(full).count() == lake.table(name).scan().to_arrow().num_rows == 1
    if name.count(".") < 2:  # of deeper names Delta's own commands know nothing
        assert spark.sql(f"DESCRIBE DETAIL {full}").first().numFiles == 1
    spark.sql(f"CREATE OR REPLACE TABLE {full} AS SELECT 7 AS id")
    assert spark.table(full).first().id == 7
    spark.sql(f"ALTER TABLE {full} RENAME TO {name}_new")
    spark.sql(f"DROP TABLE {full}_new")
    assert not spark.catalog.tableExists(full)


def test_a_table_from_select_without_a_namespace(spark, db, lake):
    spark.sql("CREATE TABLE lake.selected AS SELECT 1 AS x")
    assert spark.sql("SELECT x FROM lake.selected").first().x == 1
    lake.table("selected").append(spark.table("lake.selected").toArrow())
    assert spark.table("lake.selected").count() == 2


def test_a_namespace_that_was_created_lasts(spark, db, lake):
    spark.sql("CREATE NAMESPACE lake.made COMMENT 'empty' WITH PROPERTIES ('k' = '1')")
    spark.sql("CREATE NAMESPACE lake.made.inner")
    # Another process has nothing but the database.
    with deltasql.connect(lake.url, location=lake.location) as other:
        deltasql.spark.attach(spark, other, catalog="again")
        assert ("made",) in [tuple(row) for row in spark.sql("SHOW NAMESPACES IN again").collect()]
        told = {
            row[0]: row[1] for row in spark.sql("DESCRIBE NAMESPACE EXTENDED again.made").collect()
        }
        assert told["Comment"] == "empty"
        assert "k,1" in told["Properties"]
        spark.sql("ALTER NAMESPACE again.made SET PROPERTIES ('k' = '2')")
    told = {row[0]: row[1] for row in spark.sql("DESCRIBE NAMESPACE EXTENDED lake.made").collect()}
    assert "k,2" in told["Properties"]
    spark.sql("DROP NAMESPACE lake.made CASCADE")
    assert not [row for row in spark.sql("SHOW NAMESPACES IN lake").collect() if "made" in row[0]]
    assert lake.store.namespaces() == {}
