"""Frames that Spark keeps in memory: a commit never fails because one can't be read again."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException

from tests.spark.sql.conftest import CATALOG


@pytest.fixture
def name(spark, db):
    name = f"kept.t{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE TABLE {CATALOG}.{name} AS SELECT 1L AS id")
    yield name
    spark.catalog.clearCache()


WRITES = {
    "insert": lambda spark, table, _: spark.sql(f"INSERT INTO {table} VALUES (2)"),
    "writeTo": lambda spark, table, _: spark.sql("SELECT 2L AS id").writeTo(table).append(),
    "by path": lambda spark, _, path: (
        spark.sql("SELECT 2L AS id").write.format("delta").mode("append").save(path)
    ),
    "delete": lambda spark, table, _: spark.sql(f"DELETE FROM {table} WHERE id = 1"),
}


def _ids(spark, table: str) -> list[int]:
    return sorted(row.id for row in spark.table(table).collect())


@pytest.mark.parametrize("write", WRITES)
def test_what_a_block_kept_goes_with_it(spark, db, lake, name, write):
    table = f"{CATALOG}.{name}"
    with db.transaction():
        inside = spark.table(table).cache()
        assert inside.count() == 1
    WRITES[write](spark, table, lake.table(name).location)
    assert lake.table(name).version == 1
    assert _ids(spark, table) == ([] if write == "delete" else [1, 2])
    with pytest.raises(IllegalArgumentException, match="the transaction has ended"):
        inside.collect()


def test_what_was_rolled_back_is_in_no_memory(spark, db, lake, name):
    table = f"{CATALOG}.{name}"
    spark.sql(f"CALL {CATALOG}.system.begin()")
    spark.sql(f"INSERT INTO {table} VALUES (7)")
    spark.sql(f"CACHE TABLE {table}")
    counted = spark.sql(f"SELECT (SELECT count(*) FROM {table}) AS n").cache()
    assert counted.first().n == 2
    spark.sql(f"CALL {CATALOG}.system.rollback()")
    assert _ids(spark, table) == [1]
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert _ids(spark, table) == [1, 2]
    with pytest.raises(IllegalArgumentException, match="the transaction has ended"):
        counted.collect()


def test_a_frame_that_can_not_be_read_again_fails_no_commit(spark, db, lake, name):
    """Kept together with a table that somebody else dropped, or whose schema changed."""
    table, other = f"{CATALOG}.{name}", f"{name}_b"
    spark.sql(f"CREATE TABLE {CATALOG}.{other} AS SELECT 1L AS id")
    kept = spark.sql(f"SELECT id FROM {table} JOIN {CATALOG}.{other} USING (id)").cache()
    good = spark.table(table).where("id > 1").cache()
    assert (kept.count(), good.count()) == (1, 0)
    lake.drop_table(other)
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert (lake.table(name).version, good.count()) == (1, 1)
    assert good.storageLevel.useMemory
    lake.table(name).overwrite(pa.table({"name": ["x"]}), schema_mode="overwrite")
    spark.sql(f"INSERT INTO {table} VALUES ('y')")
    assert lake.table(name).version == 3
    assert spark.table(table).count() == 2
