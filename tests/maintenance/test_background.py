"""Upkeep in the background: what is due is queued, done once, and told."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest
from pyarrow import ArrowInvalid

import deltasql
from deltasql.cli.main import run
from deltasql.errors import StoreError
from deltasql.lake.table import Table
from deltasql.lake.upkeep import background
from deltasql.lake.upkeep.background import (
    ANALYZE,
    Done,
    LakeMaintenance,
    TableWork,
    upkeep_beside,
)
from tests.maintenance.tables import SCHEMA, files, live, rows

SETTINGS = {
    "maintenance.vacuum_files": 3,
    "maintenance.expire_versions": 3,
    "maintenance.interval": "100ms",
}
AT_ONCE = {
    "delta.checkpointInterval": "2",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
    "delta.logRetentionDuration": "interval 0 seconds",
}

Open = Callable[..., deltasql.Lake]


@pytest.fixture
def open_lake(lake_url: str, tmp_path: Path) -> Iterator[Open]:
    opened: list[deltasql.Lake] = []

    def connect(**settings: object) -> deltasql.Lake:
        given = SETTINGS | {f"maintenance.{key}": value for key, value in settings.items()}
        lake = deltasql.connect(lake_url, location=str(tmp_path / "lake"), settings=given)
        opened.append(lake)
        return lake

    yield connect
    for lake in opened:
        lake.close()


def neglected(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch, name: str = "a.t") -> Table:
    """A table with five dead files and five versions past their retention, by tomorrow."""
    table = lake.create_table(name, SCHEMA, properties=AT_ONCE)
    for number in range(6):
        table.overwrite(rows(number))
    lake.mirror.run(once=True)
    lake.presence.beat()
    later = lake.store.clock_ms() + 2 * 86_400_000
    monkeypatch.setattr(type(lake.store), "clock_ms", lambda _: later)
    return table


def test_what_is_due_is_done(open_lake: Open, monkeypatch: pytest.MonkeyPatch):
    lake = open_lake()
    table = neglected(lake, monkeypatch)
    idle = lake.create_table("a.idle", SCHEMA)
    done = {job.work: job for job in lake.maintenance.run()}
    assert set(done) == {"VACUUM", "EXPIRE", "ANALYZE"}
    assert {job.state for job in done.values()} == {"DONE"}
    assert (done["VACUUM"].table, done["VACUUM"].outcome) == ("a.t", "5 files deleted")
    assert done["VACUUM"].size_bytes
    assert done["EXPIRE"].outcome == "6 versions expired"
    assert files(table) == live(table)
    assert [entry.version for entry in table.history()] == [6]
    assert idle.version == 0
    assert lake.check().ok
    # The clock is wrong by two days for what is asked of it.
    assert {job.work for job in lake.maintenance.run()} == {ANALYZE}, "nothing else is due"
    assert {(job.work, job.state) for job in lake.maintenance.queue()} == {
        (work, "DONE") for work in done
    }


def test_it_is_off_by_default(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    called = threading.Event()
    monkeypatch.setattr(LakeMaintenance, "run", lambda *_: called.set())
    for settings, is_on in ({}, False), ({"maintenance.auto": "on"}, True):
        with deltasql.connect(
            sqlite_url, location=str(tmp_path / "lake"), settings=settings
        ) as lake:
            stop = threading.Event()
            worker = threading.Thread(target=lake.mirror.run, kwargs={"stop": stop})
            worker.start()
            assert called.wait(10 if is_on else 0.3) == is_on
            stop.set()
            worker.join(20)


def test_a_worker_keeps_up(open_lake: Open, monkeypatch: pytest.MonkeyPatch):
    lake, stop = open_lake(auto="on"), threading.Event()
    table = neglected(lake, monkeypatch)
    worker = threading.Thread(target=lake.mirror.run, kwargs={"stop": stop})
    worker.start()
    try:
        for _ in range(400):
            if {job.work for job in lake.maintenance.queue() if job.state == "DONE"} >= {
                "VACUUM",
                "EXPIRE",
            }:
                break
            time.sleep(0.05)
        # Off the path of writers.
        assert table.append(rows(9)) == 7
    finally:
        stop.set()
        worker.join(30)
    assert not worker.is_alive()
    assert {job.outcome for job in lake.maintenance.queue()} >= {"5 files deleted"}
    assert lake.check().ok


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_writers_go_first(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Upkeep of a worker gives way; the worker's mirror does not."""
    seen: Queue[int] = Queue()

    def look(*_: object) -> list[object]:
        seen.put(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return []

    monkeypatch.setattr(LakeMaintenance, "run", look)
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    settings = SETTINGS | {"maintenance.auto": "on"}
    with (
        deltasql.connect(sqlite_url, location=str(tmp_path), settings=settings) as lake,
        upkeep_beside(lake, threading.Event()),
    ):
        assert seen.get(timeout=30) == max(mine, 10)
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine


def test_the_limit_on_bytes_is_kept(open_lake: Open, monkeypatch: pytest.MonkeyPatch):
    lake = open_lake(bytes_per_hour=1)
    first = neglected(lake, monkeypatch)
    second = lake.create_table("b.t", SCHEMA, properties=AT_ONCE)
    for number in range(5):
        second.overwrite(rows(number))
    lake.presence.beat()
    done = lake.maintenance.run()
    assert [job.work for job in done if job.size_bytes] == ["VACUUM"]
    waiting = [job for job in lake.maintenance.queue() if job.state == "WAITING"]
    assert waiting
    assert lake.maintenance.run() == []
    assert (files(first) == live(first)) != (files(second) == live(second))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StoreError("the bucket is away"), "the bucket is away"),
        (ArrowInvalid("not a page"), "ArrowInvalid: not a page"),
    ],
)
def test_a_job_that_fails_is_told_and_stops_no_other(
    open_lake: Open, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
):
    lake = open_lake()
    table = neglected(lake, monkeypatch)

    def fail(_: Table) -> Done:
        raise error

    broken = TableWork("TIDY", lambda *_: "always", fail)
    unplanned = TableWork("SORT", lambda table, _: str(fail(table)), fail)
    monkeypatch.setattr(background, "KINDS", [unplanned, broken, *background.KINDS])
    done = {job.work: job for job in LakeMaintenance(lake).run()}
    assert (done["TIDY"].state, done["TIDY"].outcome) == ("FAILED", f"failed: {told}")
    assert done["VACUUM"].state == "DONE"
    assert files(table) == live(table)


def test_a_kind_of_work_is_registered(open_lake: Open):
    """All that another kind of upkeep has to bring: when, and how."""
    lake, seen = open_lake(), []
    lake.create_table("a.t", SCHEMA)

    def tidy(table: Table) -> Done:
        seen.append(table.name)
        return Done("tidied", 5)

    done = LakeMaintenance(lake, [TableWork("TIDY", lambda *_: "it is untidy", tidy)]).run()
    assert seen == ["a.t"]
    assert ("TIDY", "it is untidy", "tidied", 5) in [
        (job.work, job.reason, job.outcome, job.size_bytes) for job in done
    ]


def test_commands(sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place = ["--url", sqlite_url, "--location", str(tmp_path / "lake"), "--output", "json"]
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        lake.create_table("a.t", SCHEMA)
    for words, count in ("queue", 0), ("run", 1), ("queue", 1):
        assert run([*place, "maintenance", words]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [job["work"] for job in told] == ["ANALYZE"] * count


def test_a_stop_waits_for_no_long_job(open_lake: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is cut off, the next worker resumes it: five seconds are the limit."""
    begun, over = threading.Event(), threading.Event()

    def endless(_: Table) -> Done:
        begun.set()
        over.wait(60)
        return Done("late")

    monkeypatch.setattr(background, "KINDS", [TableWork("ENDLESS", lambda *_: "now", endless)])
    lake, stop = open_lake(auto="on"), threading.Event()
    lake.create_table("a.t", SCHEMA)
    worker = threading.Thread(target=lake.mirror.run, kwargs={"stop": stop})
    worker.start()
    try:
        assert begun.wait(30)
        stopped = time.monotonic()
        stop.set()
        worker.join(30)
        assert time.monotonic() - stopped < 5
    finally:
        over.set()
        worker.join(30)
