"""Versions that leave the history: what stays is right, and what is gone says so."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

import deltasql
from deltasql.errors import CommitError, DamagedLogError, ValidationError, VersionNotFoundError
from deltasql.lake.table import Table
from deltasql.maintenance import expiring
from tests.maintenance.dying import EXPIRE_POINTS
from tests.maintenance.tables import AT_ONCE as NOW
from tests.maintenance.tables import SCHEMA, ids, rows
from tests.sizes import each_value

PROPERTIES = {"delta.checkpointInterval": "5"}
KINDS = ["sqlite", "postgres"]
TOMBSTONES = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}


def execute(lake: deltasql.Lake, statement: str) -> list[tuple[object, ...]]:
    with lake.store.locked([]) as log:
        return log.execute(statement)


def aged(lake: deltasql.Lake, name: str = "a.t", *, versions: int = 13) -> Table:
    """A table with a history of appends and overwrites, checkpoints at 5 and 10, 13 the newest."""
    table = lake.create_table(name, SCHEMA, properties=PROPERTIES)
    for number in range(1, versions + 1):
        if number % 4 == 0:
            table.overwrite(rows(number))
        else:
            table.append(rows(number), app_id=f"app {number % 2}", app_version=number)
    lake.mirror.run(once=True)
    return table


def must_be_right(lake: deltasql.Lake, table: Table) -> None:
    assert lake.check(full=True).ok
    assert lake.check().ok
    assert table.mirror.validate().ok
    assert table.mirror.repair().ok
    assert ids(DeltaTable(table.location).to_pyarrow_table()) == ids(table.scan().to_arrow())


def test_old_versions_expire(any_lake: deltasql.Lake, tmp_path: Path):
    lake = any_lake
    table = aged(lake)
    other = aged(lake, "a.other", versions=6)
    before = {v: ids(table.snapshot(version=v).scan().to_arrow()) for v in range(14)}
    told = table.expire(**NOW)
    assert (told.dry_run, told.versions, told.kept_from) == (True, 10, 10)
    assert len(table.history()) == 14
    done = table.expire(**NOW, dry_run=False)
    assert (done.versions, done.kept_from, done.reason) == (10, 10, "")
    assert [entry.version for entry in table.history()] == [13, 12, 11, 10]
    for version, found in before.items():
        if version >= 10:
            assert ids(table.snapshot(version=version).scan().to_arrow()) == found
        else:
            with pytest.raises(VersionNotFoundError, match="have expired"):
                table.snapshot(version=version)
    with pytest.raises(VersionNotFoundError):
        table.snapshot(timestamp="2020-01-01T00:00:00Z")
    with pytest.raises(VersionNotFoundError, match="expired"):
        table.changes(3)
    # Silence would end the loop of who reads page by page.
    with pytest.raises(VersionNotFoundError, match="expired"):
        table.changes(3, limit=2)
    assert [change.version for change in table.changes(10)] == [10, 11, 12, 13]
    must_be_right(lake, table)
    assert len(other.history()) == 7
    # What was done once stays done.
    assert table.snapshot().txns == {"app 0": 10, "app 1": 13}
    assert table.append(rows(99), app_id="app 1", app_version=13) == 13
    assert table.append(rows(14)) == 14
    assert table.expire(**NOW, dry_run=False).versions == 0
    lake.rebuild("a.t")
    must_be_right(lake, table)
    table.mirror.export((tmp_path / "copy").as_uri(), copy_data=True)
    copied = DeltaTable(str(tmp_path / "copy"))
    assert ids(copied.to_pyarrow_table()) == ids(table.scan().to_arrow()) == [12, 13, 14]
    assert execute(lake, "SELECT count(*) FROM dl_mirror_status WHERE version < 10") == [(7,)]


def test_again_and_again(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    """The horizon moves on in stretches, and each is proven by the one before."""
    monkeypatch.setattr(expiring, "_STRETCH", 3)
    table = aged(lake)
    steps: list[int] = []
    assert table.expire(**NOW, dry_run=False, progress=steps.append).kept_from == 10
    assert steps == [3, 6, 9, 10]
    for number in range(14, 25):
        table.append(rows(number), app_id="app 0", app_version=number)
    lake.mirror.run(once=True)
    assert table.expire(**NOW, dry_run=False).kept_from == 20
    assert [record.horizon for record in lake.store.expirations()] == [3, 6, 9, 10, 13, 16, 19, 20]
    assert all(record.ended_at for record in lake.store.expirations())
    must_be_right(lake, table)


def test_the_retention_is_kept_to(lake: deltasql.Lake):
    table = aged(lake)
    report = table.expire(dry_run=False)
    assert (report.versions, report.reason) == (0, "no version is that old")
    assert report.retention == timedelta(days=30)
    with pytest.raises(ValidationError, match="shorter than the table's own"):
        table.expire("1 day", dry_run=False)
    assert [item.versions for item in lake.expire("31 days", dry_run=False)] == [0]
    table.set_properties({"delta.enableExpiredLogCleanup": "false"})
    assert "is false" in table.expire(**NOW, dry_run=False).reason
    assert len(table.history()) == 15


def test_without_a_checkpoint_nothing_expires(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    for number in range(4):
        table.append(rows(number))
    report = table.expire(**NOW, dry_run=False)
    assert (report.versions, report.reason[:24]) == (0, "the mirror has no checkp")
    aged(lake, "a.late")
    execute(lake, "UPDATE dl_mirror_status SET json_written = false, status = 'PENDING'"
            " WHERE version = 7")  # fmt: skip
    assert lake.table("a.late").expire(**NOW).kept_from == 5


@pytest.mark.parametrize("how", ["claimed", "lost", "broken"])
def test_a_checkpoint_that_is_not_there_is_not_believed_in(lake: deltasql.Lake, how: str):
    """Where SQL is wrong about the mirror, what only SQL has would be gone."""
    table = aged(lake)
    log = Path(lake.objects(table.location).location.removeprefix("file://")) / "_delta_log"
    (ten,) = log.glob("*10.checkpoint*")
    if how == "claimed":
        execute(lake, "UPDATE dl_mirror_status SET checkpoint_written = true WHERE version = 12")
    elif how == "lost":
        ten.unlink()
    else:
        ten.write_bytes(b"PAR1")
    expected = 10 if how == "claimed" else 5
    assert table.expire(**NOW).kept_from == expected
    assert table.expire(**NOW, dry_run=False, clean_mirror=False).kept_from == expected
    lake.mirror.run(once=True)
    if how != "broken":
        assert table.expire(**NOW, dry_run=False, clean_mirror=False).kept_from >= 10
        must_be_right(lake, table)


def test_a_snapshot_from_before_says_so(any_lake: deltasql.Lake):
    """It was good when it was made; what it would find now is not what it had."""
    table = aged(any_lake)
    table.set_properties(TOMBSTONES)
    old, new = table.snapshot(version=3), table.snapshot(version=12)
    table.vacuum(**NOW, dry_run=False)
    assert table.expire(**NOW, dry_run=False).files > 0
    for read in (old.files, lambda: old.scan().to_arrow(), lambda: list(old.adds())):
        with pytest.raises(VersionNotFoundError, match="has expired"):
            read()
    assert new.files().num_rows == 1
    must_be_right(any_lake, table)


def test_what_is_held_stays(lake: deltasql.Lake):
    table = aged(lake)
    with table.pin(version=7) as held:
        assert table.expire(**NOW).kept_from == 5
        assert table.expire(**NOW, dry_run=False).kept_from == 5
        assert ids(held.scan().to_arrow()) == [4, 5, 6, 7]
    assert table.expire(**NOW, dry_run=False).kept_from == 10
    must_be_right(lake, table)


def test_a_pin_that_comes_in_between_is_seen(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    table = aged(lake)
    real = type(lake.store).advance_horizon

    def late(store, *given, **options):
        lake.store.pin("late", table.table_id, 2, seconds=60, reason="a reader")
        return real(store, *given, **options)

    monkeypatch.setattr(type(lake.store), "advance_horizon", late)
    report = table.expire(**NOW, dry_run=False)
    assert (report.versions, report.reason) == (0, "an older version is now held")
    assert ids(table.snapshot(version=2).scan().to_arrow()) == [1, 2]


def test_a_clone_has_a_history_of_its_own(lake: deltasql.Lake):
    table = aged(lake)
    clone = table.clone("a.clone", version=7)
    table.vacuum(**NOW, dry_run=False)
    table.expire(**NOW, dry_run=False)
    assert ids(clone.scan().to_arrow()) == [4, 5, 6, 7]
    assert ids(table.scan().to_arrow()) == [12, 13]
    must_be_right(lake, table)


def test_a_commit_whose_base_has_expired_is_refused(lake: deltasql.Lake):
    """What happened since can't be checked any more."""
    table = aged(lake)
    old = list(table.snapshot(version=6).adds())
    table.expire(**NOW, dry_run=False)
    with pytest.raises(CommitError, match="no longer known"):
        table.commit(old[:0], read_version=6, reads="all")
    with lake.transaction() as tx:
        tx.table("a.t").append(rows(50))
    assert 50 in ids(table.scan().to_arrow())


def test_rows_of_files_wait_for_vacuum(lake: deltasql.Lake):
    """Otherwise nobody would know, without a listing, what is to be deleted."""
    table = aged(lake)
    assert table.expire(**NOW, dry_run=False).files == 0
    dead = table.vacuum(**NOW, dry_run=False).dead
    assert dead == 11
    report = table.expire(**NOW, dry_run=False)
    # Those that went up to the horizon; the tombstones are within their own retention.
    assert (report.versions, report.files) == (0, 0)
    table.set_properties(TOMBSTONES)
    assert table.expire(**NOW, dry_run=False).files == 7
    must_be_right(lake, table)


def test_what_vacuum_deleted_is_told_as_long_as_the_history(lake: deltasql.Lake):
    table = aged(lake)
    table.set_properties(TOMBSTONES)
    assert table.vacuum(**NOW, dry_run=False).dead == 11
    told = "SELECT count(*) FROM dl_vacuum_files"
    table.expire(**NOW, dry_run=False)
    assert execute(lake, told) == [(11,)], "younger than the table's own retention"
    table.set_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    time.sleep(0.01)
    table.expire(**NOW, dry_run=False)
    # The others were removed by versions that are still there.
    assert execute(lake, told) == [(4,)]
    assert execute(lake, "SELECT count(*) FROM dl_vacuums") == [(1,)]
    assert table.vacuum(**NOW, dry_run=False).count == 0, "what is gone is not found again"
    must_be_right(lake, table)


def test_what_is_damaged_does_not_expire(lake: deltasql.Lake):
    table = aged(lake)
    execute(lake, "UPDATE dl_active_files SET size_bytes = size_bytes + 1")
    execute(lake, "UPDATE dl_dead_files SET size_bytes = size_bytes + 1")
    execute(lake, "DELETE FROM dl_trusted_versions")
    with pytest.raises(DamagedLogError):
        table.expire(**NOW, dry_run=False)
    assert len(table.history()) == 14
    lake.rebuild("a.t")
    assert table.expire(**NOW, dry_run=False).kept_from == 10
    must_be_right(lake, table)


def test_damage_after_it_is_found(lake: deltasql.Lake):
    table = aged(lake)
    table.expire(**NOW, dry_run=False)
    execute(lake, "UPDATE dl_active_files SET size_bytes = size_bytes + 1 WHERE version <= 10")
    execute(lake, "UPDATE dl_dead_files SET size_bytes = size_bytes + 1 WHERE version <= 10")
    assert not lake.check(full=True).ok
    # From the mirror's checkpoint of the oldest version.
    lake.rebuild("a.t")
    must_be_right(lake, table)


def test_the_mirror_is_cleaned_up_in_step(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    table = aged(lake)
    later = lake.store.clock_ms() + 32 * 86_400_000
    monkeypatch.setattr(type(lake.store), "clock_ms", lambda _: later)
    assert table.expire(dry_run=False).kept_from == 10
    log = Path(table.location.removeprefix("file://")) / "_delta_log"
    assert min(path.name for path in log.glob("*.json")) == f"{10:020}.json"
    assert min(path.name for path in log.glob("*.parquet"))[:20] == f"{10:020}"
    must_be_right(lake, table)


@pytest.mark.parametrize(("point", "kind"), each_value(list(EXPIRE_POINTS), KINDS))
def test_a_rerun_goes_on(point: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    """Kill -9 anywhere: what is there is right, and the next run does the rest."""
    lake_url = request.getfixturevalue(f"{kind}_url")
    location = str(tmp_path / "lake")
    with deltasql.connect(lake_url, location=location) as lake:
        table = aged(lake)
        table.set_properties(TOMBSTONES)
        table.vacuum(**NOW, dry_run=False)
    program = [sys.executable, "-m", "tests.maintenance.dying", lake_url, location, point]
    died = subprocess.run(program, check=False, capture_output=True, text=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr
    with deltasql.connect(lake_url, location=location) as lake:
        execute(lake, "DELETE FROM dl_sessions")
        table = lake.table("a.t")
        must_be_right(lake, table)
        assert table.expire(**NOW, dry_run=False).kept_from == 10
        assert [entry.version for entry in table.history()] == [14, 13, 12, 11, 10]
        assert execute(lake, "SELECT count(*) FROM dl_dead_files WHERE removed_version <= 10") == [
            (0,)
        ]
        assert all(record.ended_at for record in lake.store.expirations())
        must_be_right(lake, table)


def _until(is_over: threading.Event, do: Callable[[], object], errors: list[BaseException]) -> None:
    try:
        while not is_over.is_set():
            do()
    except BaseException as error:  # noqa: BLE001 - told by the test
        errors.append(error)


def test_beside_writers_and_checks(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    """Nobody waits for it, nobody fails because of it, and a check finds nothing."""
    monkeypatch.setattr(expiring, "_STRETCH", 2)
    table = lake.create_table("a.t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    errors: list[BaseException] = []
    is_over = threading.Event()

    def expire():
        lake.mirror.run(once=True)
        table.expire(retention=timedelta(0), dry_run=False, enforce_retention_duration=False)

    def check():
        report = lake.check()
        assert report.ok, report

    background = [
        threading.Thread(target=_until, args=(is_over, do, errors)) for do in (expire, check)
    ]
    for thread in background:
        thread.start()
    for number in range(60):
        if number % 10 == 9:
            table.overwrite(rows(number))
        else:
            table.append(rows(number), app_id="app", app_version=number)
    is_over.set()
    for thread in background:
        thread.join(60)
    assert errors == []
    lake.mirror.run(once=True)
    table.expire(**NOW, dry_run=False)
    assert table.history()[-1].version > 40
    must_be_right(lake, table)
