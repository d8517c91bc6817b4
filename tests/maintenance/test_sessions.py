"""Who is at work is known: one row a process that writes, and what follows from it."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import deltasql
from deltasql.errors import CommitError, ValidationError
from deltasql.lake import writing
from deltasql.maintenance import presence
from tests.maintenance.tables import AT_ONCE, SCHEMA, churned, files, folder, ids, make_old, rows
from tests.maintenance.test_vacuum import NO_MARGIN, ORPHAN


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
