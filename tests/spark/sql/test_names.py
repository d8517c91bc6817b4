"""Names as lakes have them: without a namespace, and in nested ones."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, PySparkException

import deltasql
import deltasql.spark

SCHEMA = pa.schema([("id", pa.int64())])
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


@pytest.mark.parametrize(
    ("name", "target", "found"),
    [
        ("ren.t1", "lake.ren_top1", "ren_top1"),
        ("ren.t2", "lake.ren.u2", "ren.u2"),
        ("ren.t3", "u3", "ren.u3"),
        ("ren.t4", "other.u4", "other.u4"),
        ("ren_top5", "lake.ren_top6", "ren_top6"),
        ("ren.t7", "lake.lake.u7", "lake.u7"),
    ],
)
def test_a_table_is_renamed_to_what_is_said(spark, db, lake, name, target, found):
    spark.sql(f"CREATE TABLE lake.{name} (id INT)")
    spark.sql(f"ALTER TABLE lake.{name} RENAME TO {target}")
    names = {table.name for table in lake.tables()}
    assert found in names
    assert name not in names
    spark.sql(f"DROP TABLE lake.{found}")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("spark_catalog.default.y", "another catalog"),
        ("spark_catalog.y", "another catalog"),
        ("lake.ren.`x.z`", "contains a dot"),
        ("lake.`ren.x`.z", "contains a dot"),
        ("`x.z`", "contains a dot"),
        ("lake.ren.taken", "ren.taken because it already exists"),
    ],
)
def test_a_table_keeps_its_name_if_it_cannot_have_the_other(spark, db, lake, target, words):
    for name in ("kept", "taken"):
        spark.sql(f"CREATE TABLE IF NOT EXISTS lake.ren.{name} (id INT)")
    before = sorted(table.name for table in lake.tables())
    with pytest.raises(PySparkException, match=words):
        spark.sql(f"ALTER TABLE lake.ren.kept RENAME TO {target}")
    assert sorted(table.name for table in lake.tables()) == before


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


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DROP NAMESPACE lake.`n.m` CASCADE", "SCHEMA_NOT_FOUND"),
        ("ALTER NAMESPACE lake.`n.m` SET PROPERTIES ('k' = '1')", "SCHEMA_NOT_FOUND"),
        ("SHOW TABLES IN lake.`n.m`", "SCHEMA_NOT_FOUND"),
        ("SHOW NAMESPACES IN lake.`n.m`", "SCHEMA_NOT_FOUND"),
        ("DESCRIBE NAMESPACE lake.`n.m`", "SCHEMA_NOT_FOUND"),
        ("CREATE NAMESPACE lake.`n.o`", "contains a dot"),
        ("DROP NAMESPACE lake CASCADE", "a lake can't be dropped"),
        ("CREATE NAMESPACE lake.placed LOCATION '/x'", "can't have a location"),
        ("ALTER NAMESPACE lake.n SET LOCATION '/x'", "can't have a location"),
    ],
)
def test_what_namespaces_cannot_do_is_refused(spark, db, lake, statement, words):
    spark.sql("CREATE TABLE IF NOT EXISTS lake.n.m.t AS SELECT 1 AS id")
    before = lake.store.namespaces()
    with pytest.raises(PySparkException, match=words):
        spark.sql(statement).collect()
    assert lake.table("n.m.t").version == 0
    assert lake.store.namespaces() == before
    spark.sql("DROP NAMESPACE IF EXISTS lake.`n.m` CASCADE")
    assert lake.table("n.m.t").version == 0


def test_a_session_compares_names_without_case(spark, db, lake):
    """As with any other catalog of Spark's, so that a pipeline may write Sales.Orders."""
    spark.sql("CREATE TABLE lake.Case1.Orders (id INT)")
    spark.sql("INSERT INTO lake.case1.ORDERS VALUES (1)")
    spark.sql("CREATE TABLE IF NOT EXISTS lake.CASE1.orders (other INT)")
    spark.sql("CREATE OR REPLACE TABLE lake.case1.orders AS SELECT 2 AS id")
    spark.sql("CREATE TABLE lake.case1.Lines AS SELECT 3 AS id")
    spark.createDataFrame([(3,)], "id INT").write.mode("append").saveAsTable("lake.CASE1.ORDERS")
    assert {table.name for table in lake.tables() if table.name.lower().startswith("case1.")} == {
        "Case1.Orders", "Case1.Lines",
    }  # fmt: skip
    assert sorted(row.id for row in spark.table("lake.case1.orders").collect()) == [2, 3]
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("CREATE TABLE lake.case1.orders (id INT)")
    with pytest.raises(PySparkException, match="SCHEMA_ALREADY_EXISTS"):
        spark.sql("CREATE NAMESPACE lake.CASE1")
    assert spark.sql("SHOW TABLES IN lake.CASE1").count() == 2
    spark.sql("ALTER TABLE lake.case1.lines RENAME TO lake.case1.lines")
    assert lake.table("case1.lines").version == 0
    with pytest.raises(PySparkException, match="already exists"):
        spark.sql("ALTER TABLE lake.case1.lines RENAME TO lake.case1.ORDERS")
    spark.sql("DROP TABLE lake.CASE1.LINES")
    spark.sql("DROP NAMESPACE lake.case1 CASCADE")
    assert not spark.catalog.tableExists("lake.Case1.Orders")


def test_case_counts_where_it_must(spark, db, lake):
    for name in ("case2.t", "case2.T"):
        lake.create_table(name, SCHEMA)
    spark.sql("INSERT INTO lake.case2.T VALUES (1)")
    assert (lake.table("case2.t").version, lake.table("case2.T").version) == (0, 1)
    lake.create_table("case3.T", SCHEMA)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert not spark.catalog.tableExists("lake.case3.t")
        assert not spark.catalog.databaseExists("lake.CASE3")
        spark.sql("CREATE TABLE lake.case3.t (id INT)")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    # Neither is the one that is meant.
    lake.create_table("case4.one", SCHEMA)
    lake.create_table("case4.ONE", SCHEMA)
    assert not spark.catalog.tableExists("lake.case4.One")
    assert lake.table("case3.t").version == 0


def test_what_delta_would_not_find_again_is_not_created(spark, db, lake):
    """Its builder takes no names of three parts, and looks others up in Spark's own catalog."""
    word = f"t{uuid.uuid4().hex[:8]}"
    lake.create_table(f"built.{word}_there", SCHEMA)
    tables = spark._jvm.io.delta.tables.DeltaTable
    spark.sql("USE lake")
    try:
        for make in (tables.create, tables.createIfNotExists, tables.createOrReplace):
            builder = make(spark._jsparkSession).tableName(f"built.{word}")
            with pytest.raises(IllegalArgumentException, match="CREATE TABLE in SQL"):
                builder.addColumn("id", "INT").execute()
        builder = tables.replace(spark._jsparkSession).tableName(f"built.{word}_there")
        with pytest.raises(IllegalArgumentException, match="CREATE TABLE in SQL"):
            builder.addColumn("other", "INT").execute()
    finally:
        spark.sql("USE spark_catalog.default")
    assert lake.store.table(f"built.{word}") is None
    assert lake.table(f"built.{word}_there").version == 0
