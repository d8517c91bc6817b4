"""A table of another catalog with the same name: what is said of ours is never done to that one."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame


class Twins:
    """A table of the lake with two rows, and one of the session's own catalog with one."""

    def __init__(self, spark, lake) -> None:
        self.spark = spark
        name = f"twins.t{uuid.uuid4().hex[:8]}"
        self.ours, self.theirs = f"lake.{name}", f"spark_catalog.{name}"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.twins")
        spark.sql(f"CREATE TABLE {self.theirs} USING delta AS SELECT 1L AS id")
        spark.sql(f"CREATE TABLE {self.ours} AS SELECT id FROM range(2, 4, 1, 1)")
        self.place = Path(lake.table(name).location.removeprefix("file://"))
        self.other_place = Path(self._location(self.theirs).removeprefix("file:"))

    def _location(self, table: str) -> str:
        return self.spark.sql(f"DESCRIBE DETAIL {table}").first().location

    def by_name(self):
        tables = self.spark._jvm.io.delta.tables.DeltaTable
        return tables.forName(self.spark._jsparkSession, self.ours)


@pytest.fixture
def twins(spark, db, lake):
    found = Twins(spark, lake)
    yield found
    spark.catalog.clearCache()
    spark.sql(f"DROP TABLE {found.theirs}")


def test_details_are_of_the_table_that_was_named(spark, twins):
    told = DataFrame(twins.by_name().detail(), spark).first()
    assert Path(told.location.removeprefix("file:")) == twins.place


def test_a_manifest_is_of_the_table_that_was_named(twins):
    twins.by_name().generate("symlink_format_manifest")
    assert (twins.place / "_symlink_format_manifest").is_dir()
    assert not (twins.other_place / "_symlink_format_manifest").exists()


def test_nothing_of_the_other_is_vacuumed(spark, twins):
    spark.sql(f"DELETE FROM {twins.theirs}")
    kept = set(twins.other_place.glob("*.parquet"))
    key = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(key, "false")
    try:
        with pytest.raises(IllegalArgumentException, match="VACUUM does not delete"):
            twins.by_name().vacuum(0.0)
    finally:
        spark.conf.unset(key)
    assert kept
    assert set(twins.other_place.glob("*.parquet")) == kept


def test_no_location_is_changed(spark, twins, tmp_path):
    spark.sql("SELECT 9L AS id").write.format("delta").save(str(tmp_path / "else"))
    with pytest.raises(IllegalArgumentException, match=r"location of twins\..* can't be changed"):
        spark.sql(f"ALTER TABLE {twins.ours} SET LOCATION '{tmp_path / 'else'}'")
    assert [row.id for row in spark.table(twins.theirs).collect()] == [1]
    assert spark.table(twins.ours).count() == 2


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE {}", "ALTER TABLE {} ADD COLUMNS (v INT)"])
def test_what_is_kept_in_memory_is_dropped_of_the_right_one(spark, twins, statement):
    for table in (twins.ours, twins.theirs):
        spark.sql(f"CACHE TABLE {table}")
    spark.sql(statement.format(twins.ours))
    is_empty = statement.startswith("TRUNCATE")
    assert spark.table(twins.ours).count() == (0 if is_empty else 2)
    assert spark.table(twins.ours).columns == (["id"] if is_empty else ["id", "v"])
    assert spark.catalog.isCached(twins.theirs)
    assert spark.table(twins.theirs).count() == 1
