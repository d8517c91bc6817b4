"""Who is at work is known: one row a process that writes, and what follows from it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import deltasql
from deltasql.errors import CommitError, ValidationError
from deltasql.lake import writing
from deltasql.log.removal import removes, rewritten
from deltasql.maintenance import presence
from deltasql.maintenance.vacuuming import journal
from deltasql.spec.actions import DeletionVector
from tests.maintenance.tables import AT_ONCE, SCHEMA, churned, files, folder, ids, make_old, rows
from tests.maintenance.test_vacuum import NO_MARGIN, ORPHAN
from tests.maintenance.vectors import VECTORS


def execute(lake: deltasql.Lake, statement: str) -> list[tuple[object, ...]]:
    with lake.store.locked([]) as log:
        return log.execute(statement)


def test_a_process_that_writes_has_one_row(any_lake: deltasql.Lake):
    lake = any_lake
    table = lake.create_table("a.t", SCHEMA)
    assert lake.sessions() == []
    table.scan().to_arrow()
    assert lake.sessions() == [], "whoever only reads has none"
    for number in range(3):
        table.append(rows(number))
    (session,) = lake.sessions()
    assert (session.pid, session.committer, session.is_alive) == (os.getpid(), lake.committer, True)
    assert session.started_at < session.heartbeat_at
    assert abs(datetime.now(UTC) - session.heartbeat_at) < timedelta(minutes=1)
    lake.presence.beat()
    (session,) = lake.sessions()
    assert session.writing_since is None


def test_closing_takes_the_row_away(lake_url: str, tmp_path: Path):
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as lake:
        lake.create_table("a.t", SCHEMA).append(rows(1))
        assert len(lake.sessions()) == 1
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as lake:
        assert lake.sessions() == []


def test_an_append_asks_nothing_more_of_the_database(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    asked: list[str] = []
    for name in ("_change", "_rows"):
        real = getattr(type(lake.store), name)

        def counted(self: object, query: str, /, _real: object = real, **given: object) -> object:
            asked.append(query)
            return _real(self, query, **given)  # type: ignore[operator]

        monkeypatch.setattr(type(lake.store), name, counted)
    table.append(rows(2))
    assert not [query for query in asked if "session" in query or "pin" in query]


def test_a_write_under_way_keeps_what_it_wrote(lake: deltasql.Lake):
    table = churned(lake)
    with lake.transaction() as tx:
        tx.table("a.t").append(rows(7))
        written = files(table)
        with pytest.raises(ValidationError, match="under way"):
            table.vacuum(**NO_MARGIN, dry_run=False)
        report = table.vacuum(dry_run=False)
        assert (report.count, files(table)) == (0, written)
    assert ids(table.scan().to_arrow()) == [2, 7]
    assert table.vacuum(**NO_MARGIN, dry_run=False).dead == 2


def test_orphans_younger_than_another_writer_stay(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    old, young = folder(table) / ORPHAN, folder(table) / ORPHAN.replace("00000", "00001")
    for path, hours in ((old, 48), (young, 1)):
        path.write_bytes(b"rows")
        make_old(path, hours=hours)
    # Idle when it was last heard of: what came since may be its.
    lake.store.begin_session(
        "other", kind="spark", host="elsewhere", pid=1, committer="etl", age=1e5, writing=0
    )
    assert lake.store.beat("other", writing=None)
    assert table.vacuum(**NO_MARGIN).orphans == 2
    assert lake.store.beat("other", writing=24 * 3600)
    with pytest.raises(ValidationError, match="under way"):
        table.vacuum(**NO_MARGIN, dry_run=False)
    report = table.vacuum(
        "25 hours", dry_run=False, enforce_retention_duration=False, clock_margin=timedelta(0)
    )
    assert (report.orphans, old.exists(), young.exists()) == (1, False, True)


def test_the_dead_are_swept(lake: deltasql.Lake):
    table = churned(lake)
    lake.store.begin_session(
        "dead", kind="python", host="h", pid=1, committer=None, age=9, writing=9
    )
    with pytest.raises(ValidationError, match="under way"):
        table.vacuum(**AT_ONCE, dry_run=False)
    old = "2020-01-01 00:00:00.000"
    execute(lake, f"UPDATE dl_sessions SET heartbeat_at = '{old}' WHERE session_id = 'dead'")
    assert [item.is_alive for item in lake.sessions() if item.session_id == "dead"] == [False]
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 2
    assert "dead" not in {item.session_id for item in lake.sessions()}


def test_a_pin_of_the_dead_expires(lake: deltasql.Lake):
    table = churned(lake)
    assert lake.store.pin("lost", table.table_id, 1, seconds=3600, reason="a reader")
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1
    execute(lake, "UPDATE dl_pins SET expires_at = '2020-01-01 00:00:00.000'")
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1
    assert execute(lake, "SELECT count(*) FROM dl_pins")[0][0] == 0


def test_who_was_given_up_does_not_commit_what_is_gone(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    """A process that slept for long finds out that vacuum took its files."""
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    real = writing.append

    def slow(*args: object, **kwargs: object) -> object:
        written = real(*args, **kwargs)  # type: ignore[arg-type]
        execute(lake, "DELETE FROM dl_sessions")
        now = presence.clock()
        monkeypatch.setattr(presence, "clock", lambda: now + 3600)
        if takes:
            (new,) = written.files
            (folder(table) / new.path).unlink()
        return written

    monkeypatch.setattr(writing, "append", slow)
    takes = True
    with pytest.raises(CommitError, match="is gone"):
        table.append(rows(2))
    takes = False
    table.append(rows(3))
    assert ids(table.scan().to_arrow()) == [1, 3]


def test_the_heartbeat_goes_on_in_the_background(lake_url: str, tmp_path: Path):
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as lake:
        lake.__dict__["presence"] = presence.Presence(lake.store, heartbeat=0.05)
        lake.create_table("a.t", SCHEMA).append(rows(1))
        (begun,) = lake.sessions()
        waited = threading.Event()
        for _ in range(200):
            (now,) = lake.sessions()
            if now.writing_since is None and now.heartbeat_at > begun.heartbeat_at:
                break
            waited.wait(0.05)
        else:
            pytest.fail("no heartbeat")


def _late(lake: deltasql.Lake, table: str = "dl_sessions", column: str = "heartbeat_at") -> None:
    """As after a pause: nobody has heard of this process for an hour."""
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S.000")
    execute(lake, f"UPDATE {table} SET {column} = '{hour_ago}'")


def _paused(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    _late(lake)
    now = presence.clock()
    monkeypatch.setattr(presence, "clock", lambda: now + 3600)


def _once_written(
    monkeypatch: pytest.MonkeyPatch, then: Callable[[writing.Write], None], name: str = "append"
) -> None:
    """Have something happen between a write and its commit."""
    real = getattr(writing, name)

    def slow(*args: object, **kwargs: object) -> writing.Write:
        written: writing.Write = real(*args, **kwargs)
        then(written)
        return written

    monkeypatch.setattr(writing, name, slow)


@pytest.mark.parametrize("beats_first", [False, True])
def test_who_was_silent_was_given_up_whether_or_not_it_was_swept(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch, *, beats_first: bool
):
    """A vacuum that began before the pause was over for too long sweeps nobody; and the
    heartbeat may awake before the writer does.
    """
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))

    def pause(written: writing.Write) -> None:
        (new,) = written.files
        (folder(table) / new.path).unlink()
        _paused(lake, monkeypatch)
        if beats_first:
            lake.presence.beat()

    _once_written(monkeypatch, pause)
    with pytest.raises(CommitError, match="is gone"):
        table.append(rows(2))
    assert ids(table.scan().to_arrow()) == [1]


def test_who_was_given_up_does_not_commit_what_is_about_to_go(
    lake_url: str, lake: deltasql.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The files are still there, but a vacuum has written down that it deletes them."""
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    committed, deleting = threading.Event(), threading.Event()
    real = journal.Journal._delete

    def slowly(self: journal.Journal, keys: Iterable[str], *, since: float) -> None:
        deleting.set()
        assert committed.wait(60)
        real(self, keys, since=since)

    monkeypatch.setattr(journal.Journal, "_delete", slowly)
    with (
        deltasql.connect(lake_url, location=str(tmp_path / "lake")) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        vacuums = []

        def pause(written: writing.Write) -> None:
            (new,) = written.files
            make_old(folder(table) / new.path, hours=3)
            _paused(lake, monkeypatch)
            gone = other.table("a.t").vacuum
            vacuums.append(threads.submit(gone, **AT_ONCE, dry_run=False))
            assert deleting.wait(60)

        _once_written(monkeypatch, pause)
        try:
            with pytest.raises(CommitError, match="is gone"):
                table.append(rows(2))
        finally:
            committed.set()
        assert vacuums[0].result().orphans == 1
    assert ids(table.scan().to_arrow()) == [1]


def test_deletion_vectors_of_who_was_given_up_are_looked_for(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS)
    table.append(rows(*range(10)))
    (add,) = table.snapshot().adds()
    vector = DeletionVector(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k",
        offset=1,
        size_in_bytes=40,
        cardinality=6,
    )
    marked = replace(add, deletion_vector=vector)
    removed = removes(rewritten([add]), deletion_timestamp=1)
    with lake.presence.writing():
        _paused(lake, monkeypatch)
        with pytest.raises(CommitError, match=r"deletion_vector_.* is gone"):
            table.commit([*removed, marked])
    assert ids(table.scan().to_arrow()) == list(range(10))


def test_a_pin_that_expired_is_not_revived(lake: deltasql.Lake):
    """Who relies on it learns that its version was held by nobody for a while."""
    table = churned(lake)
    with lake.presence.pinned(table.table_id, 1, "clone to b") as pin_id:
        _late(lake, "dl_pins", "expires_at")
        lake.presence.beat()
        (pin,) = lake.pins()
        assert pin.version == 1, "it is held again"
        assert pin.pin_id != pin_id
    assert lake.pins() == []


@pytest.mark.parametrize("ttl", [timedelta(seconds=1), timedelta(days=1)])
def test_a_pin_is_renewed_for_as_long_as_it_was_asked_for(lake: deltasql.Lake, ttl: timedelta):
    """A short one is there until the heartbeat comes; a long one is not cut by it."""
    table = churned(lake)
    with table.pin(1, ttl=ttl):
        for _ in range(2):
            (pin,) = lake.pins()
            seconds = (pin.expires_at - lake.store.clock_ms()) / 1000
            assert seconds > max(ttl.total_seconds() - 30, 2 * presence.HEARTBEAT - 10)
            lake.presence.beat()


def test_a_child_does_not_wait_for_a_thread_of_its_parent(lake: deltasql.Lake):
    lake.create_table("a.t", SCHEMA)
    held, done = threading.Event(), threading.Event()

    def beat_for_long() -> None:
        with lake.presence._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=beat_for_long)
    thread.start()
    assert held.wait(10)
    try:
        lake.presence._pid = 0  # as a child finds it
        assert lake.presence._lock.acquire(blocking=False) is False
        lake.presence._here()
        assert lake.presence._lock.acquire(blocking=False)
    finally:
        done.set()
        thread.join()


def test_one_who_does_not_answer_frees_nothing(lake: deltasql.Lake):
    """A Spark session that has ended does not take the reads of another one with it."""
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    answers: list[set[tuple[int, int]] | None] = [set(), {(table.table_id, 1)}]

    def answer(number: int) -> set[tuple[int, int]]:
        found = answers[number]
        if found is None:
            raise ConnectionError("the session has ended")
        return found

    lake.presence.watch(lambda: answer(0))
    lake.presence.watch(lambda: answer(1))

    def held() -> list[int]:
        lake.presence.beat()
        return [pin.version for pin in lake.pins()]

    assert held() == [1]
    answers[0] = None
    assert held() == [1]
    answers[:] = set(), None
    assert held() == [1], "nobody knows whether it still reads"
    answers[:] = set(), set()
    assert held() == []
