"""Delta Spark, DuckDB, Polars and delta-rs find in the mirror the rows and files of SQL."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

import deltasql
from deltasql.delta_log.names import commit_name
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from tests.parts.spark import SparkError
from tests.readers.engines import DeltaRs, DuckDb, Polars, as_lines, files_of, lines, place
from tests.readers.tables import CASES, FORMS, Case
from tests.sizes import each_value

# The first answer waits for Spark to start, which takes a minute on a busy machine.
pytestmark = pytest.mark.timeout(600)

# Features of the protocol that Polars 2.1 refuses.
NOT_IN_POLARS = {"columnMapping", "v2Checkpoint"}


@pytest.fixture(scope="module")
def aside() -> Iterator[ThreadPoolExecutor]:
    """Spark reads here while the others read in the test's own thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def make(lake: deltasql.Lake, case: Case, form: str) -> Table:
    table = lake.create_table(
        f"t{uuid.uuid4().hex}",
        case.example.schema,
        partition_by=case.by,
        properties={**case.properties, **FORMS[form]},
    )
    case.fill(table)
    # The newest version is past the checkpoint, if there is one.
    table.commit([{"txn": {"appId": "last", "version": 1}}])
    lake.mirror.run(once=True)
    return table


# Each table and each form of its log at least once: tests/mirror/test_checkpoints.py has all pairs
# for the readers that need no Spark.
@pytest.mark.parametrize(("about", "form"), each_value(tuple(CASES), tuple(FORMS)))
def test_readers_agree(lake, duck, spark, aside, about, form):
    case = CASES[about]
    table = make(lake, case, form)
    root = place(table)
    check_checkpoints(root, form)
    for version in (None, 1):
        asked = aside.submit(spark.read, root, version)
        snapshot = table.snapshot(version)
        check_kernel_readers(duck, root, version, snapshot, case)
        check_spark(asked.result(), snapshot)


def test_scenario_external_reader_test(lake, duck, spark):
    """A mirrored table is readable by Spark and DuckDB without errors."""
    table = make(lake, CASES["plain"], "checkpoints")
    rows = table.scan().to_arrow()
    expected = lines(rows, rows.column_names)
    assert as_lines(spark.read(place(table))["rows"]) == expected
    assert lines(duck.rows(place(table), None), rows.column_names) == expected


def test_readers_after_log_cleanup(tmp_path, duck, spark, monkeypatch):
    """The early commit files are gone, a checkpoint stands for them."""
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with deltasql.connect(url, location=(tmp_path / "lake").as_uri()) as lake:
        day, now = 86_400_000, int(time.time() * 1000)
        clock = {"now": now - 40 * day}
        monkeypatch.setattr("deltasql.store.embedded.committing.now_ms", lambda: clock["now"])
        monkeypatch.setattr(lake.store, "clock_ms", lambda: clock["now"])
        table = lake.create_table(
            "t",
            CASES["plain"].example.schema,
            properties={
                "delta.checkpointInterval": "2",
                "delta.logRetentionDuration": "interval 8 days",
                "delta.deletedFileRetentionDuration": "interval 60 days",
            },
        )
        for _ in range(8):
            clock["now"] += 5 * day
            table.append(CASES["plain"].example)
            lake.mirror.run(once=True)
        report = table.mirror.cleanup(dry_run=False)
        root = place(table)
        left = sorted(path.name for path in (root / "_delta_log").glob("*.json"))
        assert commit_name(0) in report.deleted
        assert left[0] == commit_name(report.kept_from)
        for version in (None, report.kept_from):
            snapshot = table.snapshot(version)
            check_kernel_readers(duck, root, version, snapshot, CASES["plain"])
            check_spark(spark.read(root, version), snapshot)
        with pytest.raises(SparkError):
            spark.read(root, 0)


def check_checkpoints(root: Path, form: str) -> None:
    log = root / "_delta_log"
    names = [path.name for path in log.glob("*.checkpoint*")]
    assert bool(names) == (form != "no checkpoint")
    assert any(len(name.split(".")) == 4 for name in names) == (form == "v2 checkpoints")
    assert (log / f"{0:020}.json").exists()


def check_kernel_readers(
    duck: DuckDb, root: Path, version: int | None, snapshot: Snapshot, case: Case
) -> None:
    """delta-rs, DuckDB and Polars: one kernel, three ways to turn its answers into rows."""
    rows, files = snapshot.scan().to_arrow(), files_of(snapshot.adds())
    names = rows.column_names
    assert lines(DeltaRs().rows(root, version), names) == lines(rows, names)
    assert DeltaRs().files(root, version) == files
    if case.duck_error is None:
        expected = lines(rows, names, without=case.duck_nulls)
        assert lines(duck.rows(root, version), names) == expected
    else:
        with pytest.raises(duckdb.Error, match=case.duck_error):
            duck.rows(root, version)
    assert duck.files(root, version) == files
    if snapshot.state.reader_features & NOT_IN_POLARS:
        with pytest.raises(Exception, match="polars does not support"):
            Polars().rows(root, version)
    elif case.polars_error is not None:
        with pytest.raises(Exception, match=case.polars_error):
            Polars().rows(root, version)
    else:
        expected = lines(rows, names, without=case.polars_nulls)
        assert lines(Polars().rows(root, version), names) == expected


def check_spark(told: dict[str, Any], snapshot: Snapshot) -> None:
    rows = snapshot.scan().to_arrow()
    assert as_lines(told["rows"]) == lines(rows, rows.column_names)
    assert told["count"] == rows.num_rows, "Delta counts by the stats alone"
    assert told["files"] == files_of(snapshot.adds())
    declared = json.loads(snapshot.metadata.schema_string)
    assert bare(told["schema"]) == bare(declared)


def bare(schema: Any) -> Any:
    """A schema's names and types: without metadata, which readers use up, and nullability."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if isinstance(schema, dict):
        return {
            key: bare(value)
            for key, value in schema.items()
            if key not in ("metadata", "nullable", "containsNull", "valueContainsNull")
        }
    return schema
