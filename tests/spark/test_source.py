"""The data source route: appends, overwrites, SQL tables, and what it refuses."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import deltasql.spark
from tests.spark.cross_check import rows


def save(frame, name, mode="append", **options):
    frame.write.format("deltasql").mode(mode).options(**options).save(name)


def test_partitions_and_casts(spark, db, name):
    db.create_table(name, "id BIGINT, p STRING, d DECIMAL(10,2)", ["p"])
    save(spark.sql("SELECT 1 id, 'a/b' p, cast(1.5 AS decimal(5,1)) d"), name)
    assert rows(db.read(name)) == ["(1, 'a/b', Decimal('1.50'))"]


def test_options_that_reading_has_not_name_the_native_route(spark, db, name):
    save(spark.range(3), name)
    for option in ("mergeSchema", "replaceWhere", "readChangeFeed", "ignoreDeletes"):
        with pytest.raises(PySparkException, match=r"native route.*attach"):
            spark.read.format("deltasql").option(option, "true").load(name).collect()


def test_strangers_are_refused(spark, db, name):
    save(spark.range(3), name)
    with pytest.raises(PySparkException, match="no column z"):
        save(spark.sql("SELECT 1L id, 2 z"), name)
    assert db.lake.table(name).version == 0


def test_secrets_are_no_options(spark, db, name):
    with pytest.raises(PySparkException, match="would show in plans"):
        save(spark.range(3), name, password="x")


def test_an_unknown_lake_says_which_there_are(spark, db, name):
    with pytest.raises(PySparkException, match="there is no lake 'other'"):
        spark.read.format("deltasql").option("lake", "other").load(name)


def test_views_read_and_insert(spark, db, name):
    """Of SQL under any catalog; CREATE TABLE is in `test_connect.py`, under Spark's own."""
    save(spark.range(3), name)
    view = f"v_{name[2:]}"
    spark.sql(f"CREATE TEMPORARY VIEW {view} USING deltasql OPTIONS (table '{name}')")
    assert spark.sql(f"SELECT sum(id) AS s FROM {view}").collect()[0].s == 3
    spark.sql(f"INSERT INTO {view} VALUES (9)")
    assert rows(db.read(name)) == ["(0,)", "(1,)", "(2,)", "(9,)"]


CATALOG = "spark.sql.catalog.spark_catalog"


def test_tables_of_the_source_under_deltas_catalog(spark, db, name):
    """Spark loads no table of a Python data source there, so that none is made."""
    save(spark.range(3), name)
    made = f"CREATE TABLE made USING deltasql OPTIONS (table '{name}')"
    with pytest.raises(PySparkException, match=r"(?s)DeltaCatalog.*TEMPORARY VIEW"):
        spark.sql(made)
    assert not spark.catalog.tableExists("made")
    # One that another session made: the message is Spark's, and is in docs/spark.md.
    before = spark.conf.get(CATALOG)
    spark.conf.set(CATALOG, "builtin")
    try:
        deltasql.spark.register(spark)
        spark.sql(made)
        assert spark.sql("SELECT count(*) AS n FROM made").collect()[0].n == 3
    finally:
        spark.conf.set(CATALOG, before)
        deltasql.spark.register(spark)
    with pytest.raises(PySparkException, match="deltasql is not a valid Spark SQL Data Source"):
        spark.sql("SELECT * FROM made").collect()
    spark.sql("DROP TABLE made")
