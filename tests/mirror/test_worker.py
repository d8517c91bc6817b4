"""The worker: leases that outlive no holder, several workers at once, signals, wake-up."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

import deltasql
from deltasql.delta_log.last_checkpoint import parse_last_checkpoint
from deltasql.mirror.engine import Target
from deltasql.mirror.validation.watching import DriftWatch
from deltasql.store.mirroring.interface import Totals
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.conftest import SCHEMA, landed, rows, statuses

PROGRAM = """
import sys, deltasql
lake = deltasql.connect(sys.argv[1], location=sys.argv[2], settings={"mirror.mode": "async"})
print("ready", flush=True)
lake.mirror.run()
lake.close()
print("stopped", flush=True)
"""


def _until(condition, timeout=30.0):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come true in time")


@pytest.fixture
def running():
    """Workers as threads, which end with the test."""
    stop, threads = threading.Event(), []

    def start(lake):
        thread = threading.Thread(target=lake.mirror.run, kwargs={"stop": stop})
        thread.start()
        threads.append(thread)

    yield start
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_it_mirrors_what_is_committed_while_it_runs(open_lake, store_url, log_of, running):
    lake = open_lake(store_url, mode="async")
    running(lake)
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    for number in range(1, 5):
        table.append(rows(number))
    _until(lambda: table.mirror.status().mirrored_version == 4)
    _until(lambda: not table.mirror.status().pending_checkpoints)
    assert table.mirror.validate().checkpoint == 4


def test_the_lease_of_a_dead_holder_expires_and_is_taken_over(any_lake, log_of):
    table = any_lake.create_table("t", SCHEMA)
    table.mirror.pause()
    store = any_lake.store
    table.append(rows(1))
    store.forget_mirrored(table.table_id, first=1, last=1)
    landed(any_lake)
    dead = store.acquire_lease(table.table_id, "dead", 1.0)
    assert dead is not None
    table.mirror.resume()
    assert any_lake.engine.catch_up(table.target) is None
    time.sleep(1.1)
    assert any_lake.engine.catch_up(table.target) == 1
    # Fenced out: whatever the old holder still says of the table is refused.
    assert not store.renew_lease(dead, 30.0)
    assert not store.record_mirrored(dead, Totals(1, 0, 0), first=1, interval=10, seconds=30)
    assert not store.record_checkpoint(dead, 1)
    assert not store.record_failure(dead, 1, "late", is_final=True)
    assert statuses(table)[1].status == "SUCCESS"


def test_a_holder_that_was_fenced_out_in_flight_stops(lake, make_table, monkeypatch):
    table = make_table(lake, 1)
    landed(lake)
    store = lake.store
    store.forget_mirrored(table.table_id, first=1, last=1)
    real = store.state

    def stolen(table_id, *version):
        with store._writing("test") as session:
            session.execute("UPDATE dl_mirror_leases SET token = token + 1", ())
        return real(table_id, *version)

    monkeypatch.setattr(store, "state", stolen)
    assert lake.engine.catch_up(table.target) == 0
    assert statuses(table)[1].status == "PENDING"


def test_missing_status_rows_are_found(lake, make_table, log_of):
    table = make_table(lake, 2)
    with lake.store._writing("test") as session:
        session.execute("DELETE FROM dl_mirror_status WHERE version = 1", ())
    log_of(table)[1].unlink()
    lake.mirror.run(once=True)
    assert log_of(table).versions() == [0, 1, 2]
    assert statuses(table)[1].status == "SUCCESS"


def test_one_broken_table_holds_up_no_other(lake, make_table, outage, log_of):
    broken, whole = make_table(lake, 1, name="a"), make_table(lake, 1, name="b")
    outage(lake, broken).is_down = True
    lake.store.forget_mirrored(broken.table_id, first=1, last=1)
    lake.store.forget_mirrored(whole.table_id, first=1, last=1)
    lake.mirror.run(once=True)
    assert statuses(broken)[1].status == "PENDING"
    assert statuses(whole)[1].status == "SUCCESS"


def test_several_workers_at_once(open_lake, postgres_url, log_of, running):
    lakes = [open_lake(postgres_url, mode="async") for _ in range(3)]
    tables = [lakes[0].create_table(f"t{number}", SCHEMA) for number in range(3)]
    for lake in lakes:
        running(lake)

    def write(table):
        for number in range(10):
            table.append(rows(number))

    writers = [threading.Thread(target=write, args=(table,)) for table in tables]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for table in tables:
        _until(lambda table=table: table.mirror.status().mirrored_version == 10)
        _until(lambda table=table: not table.mirror.status().pending_checkpoints)
        report = table.mirror.validate()
        assert report.ok, report
        assert log_of(table).versions() == list(range(11))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_stops_a_worker_cleanly(open_lake, sqlite_url, tmp_path, name):
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA)
    location = (tmp_path / "lake").as_uri()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, sqlite_url, location], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        for number in range(1, 4):
            table.append(rows(number))
        _until(lambda: table.mirror.status().mirrored_version is not None)
        worker.send_signal(getattr(signal, name))
        assert worker.stdout.readline() == "stopped\n"
        assert worker.wait(20) == 0
    # The lease was given back: nobody has to wait for it.
    lease = lake.store.acquire_lease(table.table_id, "next", 1.0)
    assert lease is not None
    lake.store.release_lease(lease)
    lake.mirror.run(once=True)
    assert table.mirror.validate().ok


def test_validation_on_a_schedule_alerts_of_drift(open_lake, make_table, log_of, running, caplog):
    lake = open_lake(validate_interval="200ms")
    table = make_table(lake, 2)
    log_of(table)[1].write_bytes(b"garbage")
    running(lake)
    _until(lambda: any("drifted from SQL at version 1" in text for text in caplog.messages))


def test_a_sample_on_a_schedule_finds_what_was_deleted(
    open_lake, make_table, log_of, running, caplog
):
    """It is told, is pending in the status, and is written again from SQL."""
    lake = open_lake(sample_interval="200ms")
    table = make_table(lake, 2)
    lost = log_of(table)[1]
    content = lost.read_bytes()
    lost.unlink()
    assert table.mirror.status().lag_versions == 0
    watch = DriftWatch(lake.engine, lake.store, lake.objects)
    assert watch.look(lambda: False) == {table.name}
    status = table.mirror.status()
    assert (status.lag_versions, status.gap_versions) == (0, 1)
    running(lake)
    _until(lost.exists)
    _until(lambda: table.mirror.status().gap_versions == 0)
    assert lost.read_bytes() == content
    lost.unlink()
    _until(lambda: any("version 1 missing" in text for text in caplog.messages))
    _until(lost.exists)
    assert lost.read_bytes() == content


def test_a_sample_shows_what_was_changed_and_overwrites_nothing(
    open_lake, make_table, log_of, running
):
    lake = open_lake(sample_interval="200ms")
    table = make_table(lake, 2)
    changed = log_of(table)[1]
    changed.write_bytes(b"garbage")
    running(lake)
    _until(lambda: (table.mirror.status().error_message or "") != "")
    assert table.mirror.status().gap_versions == 1
    assert changed.read_bytes() == b"garbage"


def test_samples_are_hourly_by_default(open_lake):
    assert open_lake().engine.settings.mirror_sample_interval == 3600
    assert open_lake(sample_interval="off").engine.settings.mirror_sample_interval is None


def test_validation_is_off_by_default(open_lake):
    assert open_lake().engine.settings.mirror_validate_interval is None
    assert open_lake(validate_interval="off").engine.settings.mirror_validate_interval is None
    assert open_lake(validate_interval="1h").engine.settings.mirror_validate_interval == 3600


# --- wake-up --------------------------------------------------------------------------


def test_notify_wakes_a_listener(postgres_url, tmp_path):
    location = tmp_path.as_uri()
    with (
        deltasql.connect(postgres_url, location=location) as one,
        deltasql.connect(postgres_url, location=location) as other,
    ):
        stop = threading.Event()
        one.store.wait_for_work(0.01, stop)
        timer = threading.Timer(0.2, other.store.wake_mirror)
        timer.start()
        started = time.monotonic()
        one.store.wait_for_work(20, stop)
        assert time.monotonic() - started < 10
        timer.join()


def test_notify_is_rate_limited(postgres_url, tmp_path, monkeypatch):
    with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
        sent = []
        connections = lake.store._wakeup._connections
        real = connections.statement
        monkeypatch.setattr(
            connections, "statement", lambda doing: sent.append(doing) or real(doing)
        )
        for _ in range(50):
            lake.store.wake_mirror()
        assert 1 <= len(sent) < 25


def test_stop_ends_a_wait_early(postgres_url, tmp_path):
    with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        started = time.monotonic()
        lake.store.wait_for_work(20, stop)
        assert time.monotonic() - started < 10


def test_a_pooler_is_polled(pgbouncer_url, tmp_path):
    with deltasql.connect(pgbouncer_url, location=tmp_path.as_uri()) as lake:
        started = time.monotonic()
        lake.store.wait_for_work(0.3, threading.Event())
        assert time.monotonic() - started >= 0.3
        assert lake.store._wakeup._listener is None
        lake.store.wake_mirror()


def test_target_is_what_the_worker_builds(lake, make_table):
    table = make_table(lake, 0)
    (item,) = lake.store.backlog()
    assert Target(item.table_id, item.name, item.location) == table.target


# --- checkpoints that fall behind ------------------------------------------------------------


def _checkpointed(table):
    return [version for version, record in statuses(table).items() if record.checkpoint_written]


def test_the_newest_checkpoint_comes_first_and_none_is_left_out(lake, log_of):
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    for number in range(1, 11):
        table.append(rows(number))
    landed(lake)
    assert table.mirror.status().pending_checkpoints == 5
    whole, begun = lake.objects(table.location), []

    def fails_at_the_third(call):
        if call.verb == "open_output":
            begun.append(int(call.path.removeprefix("_delta_log/")[:20]))
        return Fault.BEFORE if len(begun) == 3 else None

    lake.objects.use(table.location, FaultyStore(whole, fails_at_the_third))
    lake.mirror.run(once=True)
    assert begun == [10, 2, 8]
    assert _checkpointed(table) == [2, 10]
    assert parse_last_checkpoint(log_of(table)["_last_checkpoint"].read_bytes()) == 10
    lake.objects.use(table.location, whole)
    lake.mirror.run(once=True)
    assert _checkpointed(table) == [2, 4, 6, 8, 10]
    assert parse_last_checkpoint(log_of(table)["_last_checkpoint"].read_bytes()) == 10
    assert table.mirror.validate().ok


def test_a_checkpoint_that_takes_long_holds_up_no_commit_file(open_lake, running, log_of):
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    at_it, may_go_on = threading.Event(), threading.Event()

    def sleeps(_):
        at_it.set()
        assert may_go_on.wait(60)

    lake.objects.use(
        table.location,
        FaultyStore(
            lake.objects(table.location),
            lambda call: Fault.SLOW if call.verb == "open_output" else None,
            sleep=sleeps,
        ),
    )
    running(lake)
    try:
        for number in (1, 2):
            table.append(rows(number))
        assert at_it.wait(30)
        table.append(rows(3))
        _until(log_of(table)[3].exists)
        assert not _checkpointed(table)
    finally:
        may_go_on.set()
    _until(lambda: _checkpointed(table) == [2])
