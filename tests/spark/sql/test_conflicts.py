"""Commits from SQL by the lake's rules: appends never conflict, the rest in Delta's own words."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

from tests.spark.sql.conftest import CATALOG


@pytest.fixture
def name(db) -> str:
    made = f"conflicts.t{uuid.uuid4().hex[:8]}"
    db.spark.sql(f"CREATE TABLE {CATALOG}.{made} (id BIGINT, v BIGINT)")
    db.spark.sql(f"INSERT INTO {CATALOG}.{made} VALUES (1, 0), (2, 0)")
    return made


def _transaction(spark, lake, name):
    """Delta's transaction on the table as it is now, as a statement would begin it."""
    path = lake.table(name).location.removeprefix("file://")
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    return log.startTransaction()


def _operation(spark):
    operations = spark._jvm.org.apache.spark.sql.delta.DeltaOperations
    return getattr(getattr(operations, "ManualUpdate$"), "MODULE$")


def _no_actions(spark):
    return spark._jvm.scala.jdk.javaapi.CollectionConverters.asScala(
        spark._jvm.java.util.ArrayList()
    ).toSeq()


def test_appends_at_once_all_count(spark, db, lake, name):
    def append(number: int) -> None:
        spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES ({number}, 1)")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(10, 18)))
    assert spark.table(f"{CATALOG}.{name}").where("v = 1").count() == 8
    assert lake.table(name).version == 9
    assert all(entry.is_blind_append for entry in lake.table(name).history(limit=8))


def test_updates_of_one_row_lose_nothing(spark, db, lake, name):
    def add(_: int) -> None:
        for _ in range(20):
            try:
                spark.sql(f"UPDATE {CATALOG}.{name} SET v = v + 1 WHERE id = 1")
            except Py4JJavaError as error:
                if "DELTA_CONCURRENT" not in str(error):
                    raise
            else:
                return

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, range(4)))
    assert spark.table(f"{CATALOG}.{name}").where("id = 1").collect()[0].v == 4


def test_what_was_read_and_changed_meanwhile_is_deltas_conflict(spark, db, lake, name):
    transaction = _transaction(spark, lake, name)
    transaction.readWholeTable()
    lake.table(name).overwrite(pa.table({"id": [5], "v": [5]}))
    with pytest.raises(Exception, match=r"DELTA_CONCURRENT_(APPEND|DELETE_READ)") as caught:
        transaction.commit(_no_actions(spark), _operation(spark))
    kind = caught.value.java_exception.getClass().getName()
    assert kind.startswith("io.delta.exceptions.Concurrent")


def test_metadata_that_changed_meanwhile(spark, db, lake, name):
    transaction = _transaction(spark, lake, name)
    spark.sql(f"ALTER TABLE {CATALOG}.{name} ADD COLUMNS (w INT)")
    with pytest.raises(Exception, match="DELTA_METADATA_CHANGED"):
        transaction.commit(_no_actions(spark), _operation(spark))
