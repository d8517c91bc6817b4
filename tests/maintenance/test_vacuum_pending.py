"""A journal that says too much: what is needed stays, whoever wrote it down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import StoreError, ValidationError
from deltasql.lake.table import Table
from deltasql.maintenance import presence
from deltasql.maintenance.vacuuming import journal
from deltasql.maintenance.vacuuming.journal import Journal
from deltasql.spec.actions import RemoveFile
from deltasql.store.upkeep.interface import JournalRow, Kind
from tests.maintenance.tables import AT_ONCE, files, folder, ids, make_old

ORPHAN = f"part-00000-{uuid4()}-c000.snappy.parquet"


def _written_down(table: Table, path: str, kind: Kind) -> None:
    """As a vacuum that died would leave it, or a role that may write to the journal."""
    store = table._lake.store
    with store.vacuuming([table.table_id]) as log:
        log.journal(str(uuid4()), 0, table.table_id, [JournalRow(path, kind, 1)])
    _hours_pass(table)


def _hours_pass(table: Table) -> None:
    """Whoever wrote the journal is dead for sure."""
    with table._lake.store.locked([]) as log:
        log.execute("UPDATE dl_vacuum_files SET journaled_at = '2020-01-01 00:00:00.000'")


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


@pytest.mark.parametrize("kind", ["dead", "orphan"])
def test_what_a_vacuum_under_way_deletes_is_not_brought_back(
    table: Table, kind: str, lake_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A second one that keeps more does not say that it stays: the first one still deletes it."""
    path = _dead(table) if kind == "dead" else ORPHAN
    if kind == "orphan":
        (folder(table) / path).write_bytes(b"rows")
        make_old(folder(table) / path, hours=24)
    delete, told = Journal._delete, []

    def meanwhile(self: Journal, keys: Iterable[str], **since: float) -> None:
        wanted = list(keys)
        if path not in wanted or told:
            delete(self, wanted, **since)
            return
        told.append(path)
        with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as second:
            other = second.table(table.name)
            other.vacuum(dry_run=False)
            recorded = {item.row.path for item in second.store.pending_deletes(other.table_id)}
            assert path in recorded
            if kind == "dead":
                with pytest.raises(ValidationError, match="are gone"):
                    other.restore(version=3)
        delete(self, wanted, **since)

    monkeypatch.setattr(Journal, "_delete", meanwhile)
    table.vacuum(**AT_ONCE, dry_run=False)
    assert told, "the first one was about to delete"
    assert path not in files(table)
    assert ids(table.scan().to_arrow()) == list(range(10, 100))


def test_a_vacuum_that_slept_deletes_nothing(table: Table, monkeypatch: pytest.MonkeyPatch):
    """By then another one may have taken the files off the list."""
    path = _dead(table)
    write_down = Journal._write_down

    def asleep(self: Journal, *args: Any) -> Any:
        found = write_down(self, *args)
        monkeypatch.setattr(journal, "clock", lambda: presence.clock() + 1801)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_write_down", asleep)
        with pytest.raises(StoreError, match="paused for too long"):
            table.vacuum(**AT_ONCE, dry_run=False)
    assert path in files(table)
    monkeypatch.undo()
    assert table.vacuum(**AT_ONCE, dry_run=False).count > 0, "what was recorded is told, too"
    assert path not in files(table)


@pytest.mark.parametrize("which", ["live", "held"])
@pytest.mark.parametrize("removed", ["plain", "escaped"])
def test_another_spelling_of_a_path_is_the_same_file(table: Table, removed: str, which: str):
    """Writers may escape more than they must: SQL compares texts, a disk knows one file."""
    (add,) = (item for item in table.snapshot(version=3).adds() if item.path == _dead(table))
    paths = [add.path, _respelt(add.path)]
    first, second = paths if removed == "plain" else reversed(paths)
    table.commit([replace(add, path=first)])
    version = table.version
    table.commit([RemoveFile(path=first, deletion_timestamp=1, data_change=True)])
    table.commit([replace(add, path=second)])
    with ExitStack() as stack:
        if which == "held":
            version = table.version
            table.commit([RemoveFile(path=second, deletion_timestamp=1, data_change=True)])
            stack.enter_context(table.pin(version=version))
        assert add.path not in table.vacuum(**AT_ONCE).files
        table.vacuum(**AT_ONCE, dry_run=False)
        assert add.path in files(table)
        held = table.snapshot(version=version) if which == "held" else table.snapshot()
        assert 1000 in ids(held.scan().to_arrow())
    if which == "live":
        table.commit([RemoveFile(path=second, deletion_timestamp=1, data_change=True)])
    table.vacuum(**AT_ONCE, dry_run=False)
    assert add.path not in files(table)


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
