"""Names as lakes have them: without a namespace, and in nested ones."""

from __future__ import annotations

import pytest

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
