"""A journal that says too much: what is needed stays, whoever wrote it down."""

from __future__ import annotations

import os
from collections.abc import Callable
from uuid import uuid4

import pyarrow as pa
import pytest

import deltasql
from deltasql.lake.table import Table
from deltasql.store.upkeep.interface import JournalRow, Kind
from tests.maintenance.tables import AT_ONCE, files, folder, ids, make_old

ORPHAN = f"part-00000-{uuid4()}-c000.snappy.parquet"


def _written_down(table: Table, path: str, kind: Kind) -> None:
    """As a vacuum that died would leave it, or a role that may write to the journal."""
    store = table._lake.store
    with store.vacuuming([table.table_id]) as log:
        log.journal(str(uuid4()), 0, table.table_id, [JournalRow(path, kind, 1)])


def _respelt(path: str) -> str:
    return f"%{ord(path[0]):02X}{path[1:]}"


@pytest.fixture
def table(lake: deltasql.Lake) -> Table:
    """Version 1: a data file. 2: a deletion vector and changes. 3: another data file, dead in 4."""
    found = lake.create_table(
        "a.t",
        pa.schema([("id", pa.int64())]),
        properties={"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    )
    found.append(pa.table({"id": list(range(100))}))
    found.delete("id < 10")
    found.append(pa.table({"id": [1000]}))
    found.delete("id = 1000")
    return found


def _live(table: Table) -> str:
    return _data(table, 1)


def _data(table: Table, version: int) -> str:
    before = {add.path for add in table.snapshot(version=version - 1).adds()}
    return next(
        add.path for add in table.snapshot(version=version).adds() if add.path not in before
    )


def _vector(table: Table) -> str:
    return next(name for name in sorted(files(table)) if name.endswith(".bin"))


def _change(table: Table) -> str:
    return next(name for name in sorted(files(table)) if name.startswith("_change_data/"))


def _dead(table: Table) -> str:
    return _data(table, 3)


def _foreign(table: Table) -> str:
    (folder(table) / "notes.parquet").write_bytes(b"mine")
    make_old(folder(table) / "notes.parquet", hours=24 * 30)
    return "notes.parquet"


def _young(table: Table) -> str:
    (folder(table) / ORPHAN).write_bytes(b"somebody's, who is about to commit")
    return ORPHAN


NEEDED: dict[str, Callable[[Table], str]] = {
    "live": _live,
    "vector": _vector,
    "change": _change,
    "within the retention": _dead,
    "foreign": _foreign,
    "young orphan": _young,
}


def test_what_is_needed_stays(table: Table):
    paths = [find(table) for find in NEEDED.values()]
    before = files(table)
    for kind in Kind:
        for path in paths:
            _written_down(table, path, kind)
            _written_down(table, _respelt(path), kind)
    assert table.vacuum().count == 0
    table.vacuum(dry_run=False)
    gone = before - files(table)
    assert [which for which, path in zip(NEEDED, paths, strict=True) if path in gone] == []
    assert ids(table.scan().to_arrow()) == list(range(10, 100))
    assert not table._lake.store.pending_deletes(table.table_id)


def test_what_a_held_version_needs_stays(table: Table):
    path = _dead(table)
    with table.pin(version=3):
        _written_down(table, path, Kind.DEAD)
        _written_down(table, _respelt(path), Kind.ORPHAN)
        table.vacuum(**AT_ONCE, dry_run=False)
        assert path in files(table)
        assert 1000 in ids(table.snapshot(version=3).scan().to_arrow())
    table.vacuum(**AT_ONCE, dry_run=False)
    assert path not in files(table)


def test_what_nobody_needs_goes(table: Table):
    dead = _dead(table)
    old = folder(table) / _young(table)
    make_old(old, hours=24 * 30)
    _written_down(table, dead, Kind.DEAD)
    _written_down(table, ORPHAN, Kind.ORPHAN)
    table.vacuum(**AT_ONCE, find_orphans=False, dry_run=False)
    assert dead not in files(table)
    assert not os.path.lexists(old)
    assert ids(table.scan().to_arrow()) == list(range(10, 100))
