"""The data source route: appends, overwrites, SQL tables, and what it refuses."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from tests.spark.judge import rows


def save(frame, name, mode="append", **options):
    frame.write.format("deltasql").mode(mode).options(**options).save(name)


def test_append_overwrite_and_create(spark, db, name):
    save(spark.range(3), name)
    save(spark.range(3, 5), name)
    assert rows(db.read(name)) == rows(spark.range(5))
    save(spark.range(1), name, mode="overwrite")
    assert rows(db.read(name)) == rows(spark.range(1))
    assert [entry.version for entry in db.lake.table(name).history()] == [2, 1, 0]


def test_partitions_and_casts(spark, db, name):
    db.create_table(name, "id BIGINT, p STRING, d DECIMAL(10,2)", ["p"])
    save(spark.sql("SELECT 1 id, 'a/b' p, cast(1.5 AS decimal(5,1)) d"), name)
    assert rows(db.read(name)) == ["(1, 'a/b', Decimal('1.50'))"]


def test_once_for_an_application(spark, db, name):
    for _ in range(2):
        save(spark.range(3), name, txnAppId="etl", txnVersion=1)
    save(spark.range(3), name, txnAppId="etl", txnVersion=2)
    assert db.read(name).count() == 6


@pytest.mark.parametrize(
    "option", ["mergeSchema", "overwriteSchema", "replaceWhere", "partitionOverwriteMode"]
)
def test_what_it_cannot_do_names_the_native_route(spark, db, name, option):
    save(spark.range(3), name)
    with pytest.raises(PySparkException, match=r"native route.*attach"):
        save(spark.range(3), name, mode="overwrite", **{option: "true"})
    with pytest.raises(PySparkException, match=r"native route.*attach"):
        spark.read.format("deltasql").option(option, "true").load(name).collect()


def test_generated_columns_name_spark_itself(spark, db, name):
    db.create_table(name, "a INT, g INT GENERATED ALWAYS AS (a + 1)")
    with pytest.raises(PySparkException, match="write the table with Spark"):
        save(spark.sql("SELECT 1 a"), name)
    assert db.lake.table(name).version == 0


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


def test_sql_tables_and_views(spark, db, name):
    save(spark.range(3), name)
    spark.sql(f"CREATE TEMPORARY VIEW v_{name[2:]} USING deltasql OPTIONS (table '{name}')")
    assert spark.sql(f"SELECT sum(id) AS s FROM v_{name[2:]}").collect()[0].s == 3
