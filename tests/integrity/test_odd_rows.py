"""Rows that somebody changed to whatever a column takes: no call ends in a raw error."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from tests.sizes import FULL

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
TEXTS = (
    "'no'", "'[]'", "'{}'", "'null'", "'7'", "''", "'[[[[' || '['", """'{"a":{"b":1}}'""",
    "printf('%.300c', '[')", "x'ff'", "9223372036854775807",
)  # fmt: skip
NUMBERS = ("-1", "9223372036854775807", "-9223372036854775808", "'x'")
BYTES = ("x''", "x'ff'", "'x'", "zeroblob(40)")
# Those that once ended in raw errors, and a sample of all others.
KNOWN = [
    ("dl_active_files", "min_keys", "'no'"),
    ("dl_active_files", "max_keys", "'7'"),
    ("dl_active_files", "null_counts", """'{"a":{"b":1}}'"""),
    ("dl_active_files", "partition_values", "'null'"),
    ("dl_active_files", "partition_values", """'{"a":{"b":1}}'"""),
    ("dl_active_files", "partition_values", "'{}'"),
    ("dl_active_files", "size_bytes", "-9223372036854775808"),
    ("dl_partitions", "partition_values", "'null'"),
    ("dl_mirror_leases", "total_files", "-9223372036854775808"),
    ("dl_table_heads", "earliest_version", "9223372036854775807"),
]
SAMPLE = 20


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with rows in most tables."""
    root = tmp_path_factory.mktemp("sound")
    with _open(root) as lake:
        table = lake.create_table(
            "t",
            ROWS.schema,
            partition_by=["day"],
            properties={
                "delta.enableChangeDataFeed": "true",
                "delta.enableDeletionVectors": "true",
                "delta.enableRowTracking": "true",
            },
        )
        table.append(ROWS)
        table.append(ROWS, app_id="x", app_version=3)
        table.delete("id = 1")
        table.append(ROWS)
        domain = {"domain": "d", "configuration": "{}", "removed": False}
        table.commit([{"domainMetadata": domain}])
        table.optimize()
        for _ in range(4):
            table.append(ROWS)
        lake.mirror.run(once=True)
        assert lake.check().ok
    return root


def _open(root: Path) -> deltasql.Lake:
    return deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=str(root / "lake"))


def _everything(sound: Path) -> list[tuple[str, str, str]]:
    """Every column of a table that has rows, with every value."""
    found = []
    with closing(sqlite3.connect(sound / "lake.db")) as log:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'dl_%'"
        for (table,) in log.execute(names).fetchall():
            if log.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
                for _, column, kind, *_ in log.execute(f"PRAGMA table_info({table})"):
                    values = {"INTEGER": NUMBERS, "BLOB": BYTES}.get(kind.upper(), TEXTS)
                    found += [(table, column, value) for value in values]
    return found


def _verbs(lake: deltasql.Lake) -> Iterator[tuple[str, Callable[[], Any]]]:
    def table() -> deltasql.Table:
        return lake.table("t")

    def look() -> Any:
        found = table().snapshot()
        return found.schema, found.properties, found.txns, found.domains, found.protocol

    yield "tables", lambda: [repr(item) for item in lake.tables()]
    yield "look", look
    yield "files", lambda: table().snapshot(version=1).files("day = 'a'")
    yield "scan", lambda: table().scan("id = 1 AND day = 'a'").to_arrow()
    yield "history", lambda: table().history()
    yield "changes", lambda: table().changes(0)
    yield "audit", lambda: lake.audit("2020-01-01", "2999-01-01")
    yield "check", lambda: lake.check("t", full=True)
    yield "validate", lambda: lake.mirror.validate().tables
    yield "status", lake.mirror.status
    yield "append", lambda: table().append(ROWS)
    yield "delete", lambda: table().delete("id = 1")
    yield "mirror", lambda: lake.mirror.run(once=True)
    yield "optimize", lambda: table().optimize()
    yield "upkeep", lake.maintenance.run
    yield "vacuum", lambda: table().vacuum(dry_run=False)
    yield "restore", lambda: table().restore(version=2)
    yield "expire", lambda: table().expire(dry_run=False)
    yield "clone", lambda: table().clone("c")
    yield "lists", lambda: (lake.pins(), lake.sessions(), lake.dropped(), lake.leftovers())
    yield "cleanup", lambda: table().mirror.cleanup(dry_run=False)
    yield "rebuild", lambda: lake.rebuild("t")
    yield "purge", lambda: lake.drop_table("t", purge=True)


@pytest.mark.timeout(1800)
def test_whatever_a_row_says_no_error_is_raw(sound: Path, tmp_path: Path) -> None:
    every = _everything(sound)
    assert set(KNOWN) <= set(every)
    chosen = every if FULL else [*KNOWN, *random.Random(22).sample(every, SAMPLE)]
    for number, (table, column, value) in enumerate(chosen):
        root = tmp_path / str(number)
        shutil.copytree(sound, root)
        with closing(sqlite3.connect(root / "lake.db")) as log, log:
            log.execute(
                "UPDATE dl_tables SET location = replace(location, ?, ?)", _move(sound, root)
            )
            log.execute("UPDATE dl_places SET place = replace(place, ?, ?)", _move(sound, root))
            try:
                log.execute(f"UPDATE {table} SET {column} = {value}")
            except sqlite3.IntegrityError:
                continue  # the schema refuses it
        _use(root, f"{table}.{column} = {value}")
        shutil.rmtree(root)


def _move(sound: Path, root: Path) -> tuple[str, str]:
    return f"{sound}/", f"{root}/"


def _use(root: Path, damage: str) -> None:
    try:
        lake = _open(root)
    except deltasql.DeltaSqlError:
        return
    with lake:
        for what, verb in _verbs(lake):
            try:
                verb()
            except deltasql.DeltaSqlError:
                continue
            except Exception as error:
                raise AssertionError(f"{what}, after {damage}") from error
