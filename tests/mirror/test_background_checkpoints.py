"""Checkpoints without a worker: in the background of a writer, off the path of its commits."""

from __future__ import annotations

import threading
import time

import pytest
from deltalake import DeltaTable

import deltasql
from deltasql.delta_log.last_checkpoint import parse_last_checkpoint
from deltasql.mirror.checkpoints import background
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.conftest import SCHEMA, rows


def until(is_so) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    pytest.fail("it never was")


def checkpointed(table) -> list[int]:
    found = table._lake.store.mirror_status(table.table_id, first=0, last=table.version)
    return [record.version for record in found if record.checkpoint_written]


def is_done(table) -> bool:
    return not table.mirror.status().pending_checkpoints


def test_a_plain_user_gets_them(open_lake, store_url, log_of):
    lake = open_lake(store_url, checkpoints="auto")
    table = lake.create_table("t", SCHEMA)
    for number in range(25):
        table.append(rows(number))
    until(lambda: checkpointed(table) == [10, 20])
    until(lambda: is_done(table))
    assert parse_last_checkpoint(log_of(table)["_last_checkpoint"].read_bytes()) == 20
    report = table.mirror.validate()
    assert (report.ok, report.checkpoint) == (True, 20)
    assert DeltaTable(table.location).to_pyarrow_table().num_rows == 25


def test_a_lake_that_closes_finishes_them(sqlite_url, monkeypatch):
    """A job that appends once and goes has to see to its checkpoint as well."""
    # On a busy disk two seconds may not be enough.
    monkeypatch.setattr(background, "_PATIENCE", 60.0)
    # No other lake is open meanwhile: it could be the one that mirrors, for longer than the job.
    with deltasql.connect(sqlite_url) as job:
        job.create_table("t", SCHEMA)
    for number in range(21):
        with deltasql.connect(sqlite_url) as job:
            job.table("t").append(rows(number))
    with deltasql.connect(sqlite_url) as job:
        assert checkpointed(job.table("t")) == [10, 20]


def test_it_leaves_them_to_a_worker_that_is_alive(open_lake, store_url, monkeypatch):
    monkeypatch.setattr(background, "_LOOK_AGAIN", 0.05)
    lake = open_lake(store_url, checkpoints="auto")
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    worker = {"kind": "worker", "host": "h", "pid": 1, "committer": None, "age": 1, "writing": 0}
    lake.store.begin_session("w", **worker)
    assert lake.store.has_worker()
    for number in range(4):
        table.append(rows(number))
    time.sleep(0.3)
    assert checkpointed(table) == []
    # It dies without a word: what it left is done after all.
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_sessions SET heartbeat_at = '2020-01-01 00:00:00.000'")
    assert not lake.store.has_worker()
    until(lambda: checkpointed(table) == [2, 4])


def test_a_worker_is_known_while_it_works(open_lake, store_url):
    lake, stop = open_lake(store_url), threading.Event()
    thread = threading.Thread(target=lake.mirror.run, kwargs={"stop": stop})
    thread.start()
    until(lake.store.has_worker)
    (session,) = lake.sessions()
    assert session.kind == "worker"
    table = lake.create_table("t", SCHEMA)
    table.append(rows(1))
    # Which is nothing that vacuum would have to wait for.
    until(lambda: "worker" not in {item.kind for item in lake.sessions() if item.writing_since})
    stop.set()
    thread.join(20)
    assert not lake.store.has_worker()


def test_workers_alone(lake):
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    for number in range(4):
        table.append(rows(number))
    lake.close()
    with deltasql.connect(**lake.opening) as again:
        assert again.table("t").mirror.status().pending_checkpoints == 2


def test_one_that_takes_long_holds_up_nobody(open_lake, monkeypatch, caplog):
    monkeypatch.setattr(background, "_PATIENCE", 0.2)
    lake, has_begun, may_end = open_lake(checkpoints="auto"), threading.Event(), threading.Event()
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})

    def slow(call):
        if call.verb == "open_output":
            has_begun.set()
            return Fault.SLOW
        return None

    lake.objects.wrap(lambda inner: FaultyStore(inner, slow, sleep=lambda _: may_end.wait(60)))
    for number in range(3):
        table.append(rows(number))
    assert has_begun.wait(20)
    started = time.monotonic()
    assert table.append(rows(9)) == 4
    lake.close()
    assert time.monotonic() - started < 10
    thread = next(item for item in threading.enumerate() if item.name == "deltasql-checkpoints")
    may_end.set()
    thread.join(20)
    assert "no checkpoint yet" not in caplog.text, "whoever closes a lake need do nothing"
    with deltasql.connect(**lake.opening) as again:
        assert again.table("t").mirror.validate().ok
        with again.store.locked([]) as log:
            # Nobody gave it back: it would end by itself.
            log.execute("UPDATE dl_mirror_leases SET expires_at = '2020-01-01 00:00:00'")
        again.mirror.run(once=True)
        assert checkpointed(again.table("t")) == [2, 4]


def test_one_that_fails_is_written_with_the_next(open_lake):
    lake, is_broken = open_lake(checkpoints="auto"), threading.Event()
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})

    def fault(call):
        return Fault.BEFORE if call.verb == "open_output" and is_broken.is_set() else None

    lake.objects.wrap(lambda inner: FaultyStore(inner, fault))
    is_broken.set()
    for number in range(3):
        table.append(rows(number))

    def status():
        return lake.store.mirror_status(table.table_id, first=2, last=2)[0]

    until(lambda: status().error_message)
    assert (status().status, status().json_written) == ("PENDING", True)
    is_broken.clear()
    table.append(rows(9))
    until(lambda: checkpointed(table) == [2, 4])
