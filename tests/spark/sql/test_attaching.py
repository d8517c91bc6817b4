"""Lakes that come and go: a session writes through the one that is attached now, or not at all."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

import deltasql
import deltasql.spark

CATALOG = "swapped"
NAME = "a.t"
TABLE = f"{CATALOG}.{NAME}"


@pytest.fixture
def open_as(tmp_path):
    """Opens the same lake under the name of a committer."""
    lakes = []

    def connect(committer: str) -> deltasql.Lake:
        url, location = f"sqlite:///{tmp_path / 'lake.db'}", (tmp_path / "data").as_uri()
        lakes.append(deltasql.connect(url, location=location, committer=committer))
        return lakes[-1]

    yield connect
    for lake in lakes:
        lake.close()


@pytest.fixture
def alice(spark, open_as):
    """A lake that is attached, and a table that was opened in it."""
    database = deltasql.spark.attach(spark, open_as("alice"), catalog=CATALOG)
    spark.sql(f"CREATE TABLE {TABLE} AS SELECT 1L AS id")
    assert spark.table(TABLE).count() == 1
    yield database
    database.detach()


def _newest(lake: deltasql.Lake) -> tuple[int, str | None]:
    entry = lake.table(NAME).history(limit=1)[0]
    return entry.version, entry.committer


def _append(spark, path: str) -> None:
    spark.sql("SELECT 5L AS id").write.format("delta").mode("append").save(path)


@pytest.mark.parametrize("end", ["detach", "close", "nothing"])
def test_the_next_lake_gets_what_is_written(spark, open_as, alice, end):
    path = alice.lake.table(NAME).location
    held = spark._jvm.io.delta.tables.DeltaTable.forName(spark._jsparkSession, TABLE)
    kept = spark.table(TABLE).cache()
    assert kept.count() == 1
    if end == "detach":
        alice.detach()
    elif end == "close":
        alice.lake.close()
    bob = open_as("bob")
    database = deltasql.spark.attach(spark, bob, catalog=CATALOG)
    try:
        alice.detach()
        spark.sql(f"INSERT INTO {TABLE} VALUES (2)")
        assert _newest(bob) == (1, "bob")
        alice.lake.close()
        assert sorted(row.id for row in spark.table(TABLE).collect()) == [1, 2]
        assert kept.count() == 2
        _append(spark, path)
        assert _newest(bob) == (2, "bob")
        held.delete("id = 1")
        assert _newest(bob) == (3, "bob")
    finally:
        spark.catalog.clearCache()
        database.detach()


def test_after_detaching_it_is_stock_delta(spark, alice):
    lake = alice.lake
    path = lake.table(NAME).location
    spark.sql(f"INSERT INTO {TABLE} VALUES (2)")
    frame = spark.table(TABLE)
    held = spark._jvm.io.delta.tables.DeltaTable.forName(spark._jsparkSession, TABLE)
    alice.detach()
    with pytest.raises(Py4JJavaError, match="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"):
        _append(spark, path)
    with pytest.raises(IllegalArgumentException, match="no lake is attached"):
        held.delete("id = 1")
    assert _newest(lake) == (1, "alice")
    assert frame.count() == 2
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    assert log.getClass().getSimpleName() == "DeltaLog"
    assert spark.read.format("delta").load(path).count() == 2
    alice.lake.table(NAME).delete("id = 1")
    assert frame.count() == 1, "what was read before stays readable"


def test_further_sessions_of_one_context(spark, alice):
    """Each has the lake for itself; what was begun in the first goes on there."""
    lake = alice.lake
    spark.sql(f"CALL {CATALOG}.system.begin()")
    spark.sql(f"INSERT INTO {TABLE} VALUES (2)")
    other = spark.newSession()
    deltasql.spark.register(other)
    database = deltasql.spark.attach(other, lake, catalog=CATALOG)
    assert database.catalog == CATALOG
    assert other.table(TABLE).count() == 1
    assert other.read.format("deltasql").load(NAME).count() == 1
    spark.sql(f"CALL {CATALOG}.system.commit()")
    assert other.table(TABLE).count() == spark.table(TABLE).count() == 2
    other.sql(f"INSERT INTO {TABLE} VALUES (3)")
    assert spark.read.format("deltasql").load(NAME).count() == 3
