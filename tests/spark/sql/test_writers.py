"""Statements that write: who may not is told before a file is made, and vacuum sees the rest."""

from __future__ import annotations

import gc
import time
import uuid
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from tests.spark.sql.conftest import CATALOG


@pytest.fixture
def name(db) -> str:
    made = f"writers.t{uuid.uuid4().hex[:8]}"
    db.spark.sql(f"CREATE TABLE {CATALOG}.{made} (id BIGINT)")
    db.spark.sql(f"ALTER TABLE {CATALOG}.{made} ADD CONSTRAINT small CHECK (id < 9)")
    db.spark.sql(f"INSERT INTO {CATALOG}.{made} VALUES (1)")
    return made


@pytest.fixture
def writes(lake, monkeypatch) -> list[bool]:
    """Whether a write was known to be under way, at each that was checked."""
    seen: list[bool] = []
    check = lake.commits.commit
    monkeypatch.setattr(
        lake.commits, "commit", lambda request: (seen.append(_is_writing(lake)), check(request))[1]
    )
    return seen


def _is_writing(lake) -> bool:
    lake.presence.beat()
    return any(item.writing_since is not None for item in lake.sessions())


def _files(lake, name: str) -> set[Path]:
    place = Path(lake.table(name).location.removeprefix("file://"))
    return set(place.rglob("*.parquet"))


def test_no_file_is_made_that_could_not_be_committed(spark, db, lake, name, monkeypatch):
    before = _files(lake, name)
    monkeypatch.setattr(lake.commits.rights, "_may_commit", False)
    monkeypatch.setattr(lake.store, "may_commit", lambda: False)
    for statement in (
        "INSERT INTO {t} VALUES (2)",
        "UPDATE {t} SET id = 3",
        "OPTIMIZE {t}",
        "CREATE TABLE {t}_new AS SELECT 1 AS id",
    ):
        with pytest.raises(IllegalArgumentException, match="this role can't commit"):
            spark.sql(statement.replace("{t}", f"{CATALOG}.{name}"))
    assert _files(lake, name) == before
    assert not Path(f"{lake.table(name).location.removeprefix('file://')}_new").exists()
    assert spark.table(f"{CATALOG}.{name}").count() == 1


def test_vacuum_knows_statements_from_their_start_to_their_end(spark, db, lake, name, writes):
    for statement in (
        "INSERT INTO {t} VALUES (2)",
        "UPDATE {t} SET id = 3 WHERE id = 2",
        "MERGE INTO {t} t USING (SELECT 4 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "OPTIMIZE {t}",
    ):
        spark.sql(statement.replace("{t}", f"{CATALOG}.{name}"))
        assert not _is_writing(lake), statement
    assert writes == [True] * 4
    # No commit at all, and one that fails.
    spark.sql(f"DELETE FROM {CATALOG}.{name} WHERE id = 77")
    assert not _is_writing(lake)
    with pytest.raises(Py4JJavaError, match="DELTA_VIOLATE_CONSTRAINT"):
        spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES (10)")
    assert not _is_writing(lake)


def test_a_forgotten_transaction_ends_as_well(spark, db, lake, name):
    path = lake.table(name).location.removeprefix("file://")
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    begun = log.startTransaction()
    assert _is_writing(lake)
    del begun, log
    deadline = time.monotonic() + 20
    while _is_writing(lake) and time.monotonic() < deadline:
        gc.collect()
        spark._jvm.System.gc()
        time.sleep(0.1)
    assert not _is_writing(lake)
