"""DESCRIBE DETAIL is told from SQL, whether the table has a mirror or not."""

from __future__ import annotations

import pytest

import deltasql
import deltasql.spark


@pytest.fixture
def quiet(spark, tmp_path):
    """A lake without mirrors, as a catalog."""
    url, location = f"sqlite:///{tmp_path / 'quiet.db'}", (tmp_path / "quiet").as_uri()
    with deltasql.connect(url, location=location, settings={"mirror.mode": "off"}) as found:
        deltasql.spark.attach(spark, found, catalog="quiet")
        yield found


def test_a_lake_without_mirrors(spark, quiet):
    spark.sql("CREATE TABLE quiet.a.t AS SELECT 1 AS id")
    spark.sql("INSERT INTO quiet.a.t VALUES (2)")
    _must_tell(spark, "quiet.a.t", quiet.table("a.t"), files=2)


def test_a_table_without_a_mirror_and_with_one(spark, db, lake):
    spark.sql("CREATE TABLE lake.details.off (id INT) TBLPROPERTIES ('mirror.mode' = 'off')")
    _must_tell(spark, "lake.details.off", lake.table("details.off"), files=0)
    spark.sql("DROP TABLE lake.details.off")
    spark.sql("CREATE TABLE lake.details.kept AS SELECT 1 AS id")
    _must_tell(spark, "lake.details.kept", lake.table("details.kept"), files=1)


def test_inside_a_transaction(spark, db, lake):
    spark.sql("CREATE TABLE lake.details.open AS SELECT 1 AS id")
    table = lake.table("details.open")
    with db.transaction():
        spark.sql("INSERT INTO lake.details.open VALUES (2)")
        told = spark.sql("DESCRIBE DETAIL lake.details.open").first()
        assert told.numFiles == 2
        assert told.lastModified is not None
    _must_tell(spark, "lake.details.open", table, files=2)


def _must_tell(spark, name, table, *, files):
    told = spark.sql(f"DESCRIBE DETAIL {name}").first()
    assert (told.format, told.numFiles) == ("delta", files)
    assert told.location.removeprefix("file:").lstrip("/") in table.location
    assert told.lastModified.timestamp() == table.history(limit=1)[0].timestamp.timestamp()
    assert spark.sql(f"DESCRIBE DETAIL delta.`{told.location}`").first().lastModified == (
        told.lastModified
    )
