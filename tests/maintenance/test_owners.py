"""Others at a table's place, another database or the mirror's readers: vacuum takes nothing of
theirs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

import deltasql
from deltasql.errors import MirrorError
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import (
    AT_ONCE,
    SCHEMA,
    files,
    folder,
    ids,
    live,
    make_old,
    rows,
)
from tests.maintenance.vectors import VECTORS
from tests.readers.engines import DeltaRs, DuckDb


@contextmanager
def _lake(database: Path, mode: str = "async") -> Iterator[deltasql.Lake]:
    """Versions wait for a worker, as they do where the object store is down."""
    place, settings = str(database.parent / "lake"), {"mirror.mode": mode}
    with deltasql.connect(f"sqlite:///{database}", location=place, settings=settings) as lake:
        yield lake


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[deltasql.Table, deltasql.Table]]:
    """A table of each of two lakes: nothing was there yet when the second one was created."""
    with _lake(tmp_path / "one.db") as one, _lake(tmp_path / "two.db") as two:
        tables = [lake.create_table("a.t", SCHEMA) for lake in (one, two)]
        assert tables[0].location == tables[1].location
        for number, table in enumerate(tables):
            table.append(rows(number))
        _make_all_old(tables[0])
        yield tables[0], tables[1]


def _make_all_old(table: deltasql.Table) -> None:
    for name in files(table):
        make_old(folder(table) / name, hours=24 * 30)


def test_without_a_log_nothing_is_an_orphan(two):
    for table in two:
        report = table.vacuum(dry_run=False)
        assert report.count == 0
        assert "another lake" in report.kept_because
        assert "another lake" in table.vacuum().kept_because
        assert table.vacuum(find_orphans=False).kept_because is None
    assert [ids(table.scan().to_arrow()) for table in two] == [[0], [1]]


@pytest.mark.parametrize("more", [0, 3])
def test_the_log_of_another_lake_is_told(two, more):
    """However many versions either has."""
    first, second = two
    first._lake.mirror.run(once=True)
    for number in range(more):
        second.append(rows(number))
    with pytest.raises(MirrorError, match="not the table's"):
        second.vacuum(dry_run=False)
    assert first.vacuum().kept_because is None
    assert ids(first.scan().to_arrow()) == [0]


def test_a_restored_database_that_went_on_deletes_nothing(tmp_path):
    """Its versions are as many as those in the mirror, and others."""
    database, copy = tmp_path / "lake.db", tmp_path / "copy.db"
    with _lake(database) as lake:
        table = lake.create_table("a.t", SCHEMA)
        table.append(rows(1))
        lake.mirror.run(once=True)
    shutil.copyfile(database, copy)
    with _lake(database) as lake:
        table = lake.table("a.t")
        table.append(rows(2))
        lake.mirror.run(once=True)
        lost = files(table)
        _make_all_old(table)
    shutil.copyfile(copy, database)
    # Other modes refuse to commit.
    with _lake(database, "off") as lake:
        table = lake.table("a.t")
        table.append(rows(3))
        table.append(rows(4))
        with pytest.raises(MirrorError, match="restored to an earlier time"):
            table.vacuum(dry_run=False)
        assert lost <= files(table)


def test_a_version_that_is_published_but_not_noted_is_the_tables(tmp_path):
    """A worker that died in between left its file."""
    with _lake(tmp_path / "lake.db") as lake:
        table = lake.create_table("a.t", SCHEMA)
        table.append(rows(1))
        body = next(iter(lake.store.commits(table.table_id, after=-1, upto=0))).body
        log = folder(table) / "_delta_log"
        log.mkdir()
        (log / f"{0:020}.json").write_bytes(body)
        assert table.vacuum().kept_because is None


def _copied(tmp_path: Path) -> None:
    """A lake with a table of two files, and a copy of its database."""
    with _lake(tmp_path / "lake.db", "sync") as lake:
        table = lake.create_table("a.t", SCHEMA)
        table.append(rows(1))
        table.append(rows(2))
    shutil.copyfile(tmp_path / "lake.db", tmp_path / "copy.db")


@pytest.mark.parametrize("mode", ["off", "async"])
def test_a_copy_that_does_not_mirror_deletes_nothing_of_the_original(tmp_path, mode):
    """What it removes is live in the original, to which nothing was written since."""
    _copied(tmp_path)
    with _lake(tmp_path / "copy.db", mode) as copy:
        copied = copy.table("a.t")
        copied.delete("id = 1")
        report = copied.vacuum(**AT_ONCE, dry_run=False)
        assert (report.count, report.dead) == (0, 0)
        assert "see version 2" in report.kept_because
    with _lake(tmp_path / "lake.db", "sync") as lake:
        assert ids(lake.table("a.t").scan().to_arrow()) == [1, 2]


def test_what_the_mirrors_readers_see_stays(lake: deltasql.Lake):
    """A mirror may be late, but it is there to be read."""
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS)
    table.append(rows(1, 2))
    table.delete("id = 1")
    table.append(rows(3))
    table.mirror.pause()
    table.delete("id = 2")
    table.reorg()
    table.overwrite(rows(4))
    for dry_run in (True, False):
        report = table.vacuum(**AT_ONCE, dry_run=dry_run)
        assert report.count == 0
        assert "see version 3" in report.kept_because
    for reader in (DeltaRs(), DuckDb()):
        assert ids(reader.rows(str(folder(table)), None)) == [2, 3]
    table.mirror.resume()
    table.mirror.repair()
    report = table.vacuum(**AT_ONCE, dry_run=False)
    assert report.kept_because is None
    assert files(table) == live(table)
    assert seen_by_all(lake, table) == [{"id": 4, "day": "a"}]


def test_what_they_saw_within_the_retention_stays(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    table.mirror.pause()
    table.overwrite(rows(2))
    time.sleep(1.1)
    table.mirror.resume()
    table.mirror.repair()
    short = {"retention": timedelta(seconds=1), "enforce_retention_duration": False}
    report = table.vacuum(**short)
    assert report.count == 0
    assert "was late" in report.kept_because
    time.sleep(1.1)
    assert table.vacuum(**short).dead == 1


def test_what_readers_of_an_adopted_log_see_stays(tmp_path):
    """Nothing was mirrored since, and others still read what was adopted."""
    place = str(tmp_path / "theirs")
    write_deltalake(place, rows(1, 2))
    with _lake(tmp_path / "lake.db", "off") as lake:
        lake.adopt(place, "a.t")
        table = lake.table("a.t")
        adopted = table.version
        table.overwrite(rows(3))
        report = table.vacuum(**AT_ONCE, dry_run=False)
        assert report.count == 0
        assert f"see version {adopted};" in report.kept_because
        assert ids(DeltaRs().rows(place, None)) == [1, 2]
