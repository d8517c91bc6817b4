"""Modes, pauses, and an object store that is down: no commit fails, and nothing is lost."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from deltasql.errors import ValidationError
from deltasql.mirror.worker import Worker
from deltasql.settings.keys import Settings
from deltasql.store.mirroring.interface import Work
from deltasql.telemetry import metrics
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.faults.waiting import until
from tests.mirror.conftest import SCHEMA, landed, rows, statuses


def test_sync_mirrors_before_the_commit_returns(any_lake, log_of):
    table = any_lake.create_table("t", SCHEMA)
    table.append(rows(1))
    assert log_of(table).versions() == [0, 1]
    assert [record.status for record in statuses(table).values()] == ["SUCCESS"] * 2


def test_async_leaves_it_to_the_worker(open_lake, log_of):
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA)
    table.append(rows(1))
    assert log_of(table).versions() == []
    assert [record.status for record in statuses(table).values()] == ["PENDING"] * 2
    assert lake.mirror.run(once=True) == 2
    assert log_of(table).versions() == [0, 1]


@pytest.mark.parametrize("later", ["sync", "async"])
def test_off_is_switched_on_later_without_loss(open_lake, log_of, later):
    with open_lake(mode="off") as lake:
        table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
        for number in range(1, 5):
            table.append(rows(number))
        assert not Path(log_of(table).folder).exists()
    lake = open_lake(mode=later)
    table = lake.table("t")
    table.append(rows(5))
    lake.mirror.run(once=True)
    assert log_of(table).versions() == [0, 1, 2, 3, 4, 5]
    report = table.mirror.validate()
    assert report.ok
    assert report.checkpoint == 4


def test_a_table_of_its_own_mode(open_lake, log_of):
    """A SQL-only table in a mirrored lake, switched on later by its property, without loss."""
    lake = open_lake()
    table = lake.create_table("t", SCHEMA, properties={"mirror.mode": "off"})
    table.append(rows(1))
    assert lake.mirror.run(once=True) == 0
    assert not log_of(table).folder.exists()
    Worker(lake.engine, lake.store).observe(lake.store.clock_ms() + 10**9)
    assert metrics.REGISTRY.get_sample_value("mirror_alert", {"table": "t"}) == 0
    metadata = table.snapshot().metadata
    table.commit(
        [replace(metadata, configuration={**metadata.configuration, "mirror.mode": "sync"})]
    )
    assert log_of(table).versions() == [0, 1, 2]
    assert table.mirror.validate().ok


def test_a_table_is_mirrored_in_a_lake_that_is_not(open_lake, log_of):
    lake = open_lake(mode="off")
    plain = lake.create_table("plain", SCHEMA)
    table = lake.create_table("t", SCHEMA, properties={"mirror.mode": "async"})
    assert lake.mirror.run(once=True) == 1
    assert log_of(table).versions() == [0]
    assert not log_of(plain).folder.exists()
    # Whoever asks for it by name gets it.
    assert plain.mirror.repair().ok
    assert log_of(plain).versions() == [0]


def test_a_mode_that_means_nothing_is_refused(lake):
    with pytest.raises(ValidationError, match=r"mirror\.mode must be sync, async or off"):
        lake.create_table("t", SCHEMA, properties={"mirror.mode": "of"})
    table = lake.create_table("t", SCHEMA)
    metadata = table.snapshot().metadata
    wrong = replace(metadata, configuration={**metadata.configuration, "mirror.mode": "on"})
    with pytest.raises(ValidationError, match=r"mirror\.mode"):
        table.commit([wrong])


def test_the_worker_removes_temporary_files_after_a_day(lake, make_table, log_of):
    table = make_table(lake, 1)
    old, young = (log_of(table)[f".{n:020}.json.{'0' * 31}{n}.tmp"] for n in (1, 2))
    for file in (old, young):
        file.write_bytes(b"half")
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    lake.mirror.run(once=True)
    assert young.exists()
    assert not old.exists()


def test_a_failed_sql_commit_leaves_no_object(lake, make_table, log_of):
    table = make_table(lake)
    before = log_of(table).names()
    with pytest.raises(Exception, match="version"):
        table.commit([], expected_version=2)
    assert log_of(table).names() == before


def test_a_commit_beside_a_close_does_not_fail(lake, make_table):
    """Another thread closed the lake between the commit and its mirror."""
    table = make_table(lake, 1)
    landed(lake)
    lake.engine._threads().shutdown()
    assert table.append(rows(2)) == 2
    assert statuses(table)[2].status == "PENDING"


def test_pause_and_resume(any_lake, make_table, log_of):
    table = make_table(any_lake, 1)
    table.mirror.pause()
    table.append(rows(2))
    any_lake.mirror.run(once=True)
    assert log_of(table).versions() == [0, 1]
    status = table.mirror.status()
    assert (status.is_paused, status.lag_versions, status.mirrored_version) == (True, 1, 1)
    table.mirror.resume()
    any_lake.mirror.run(once=True)
    assert log_of(table).versions() == [0, 1, 2]
    assert not table.mirror.status().is_paused


def test_no_commit_fails_while_the_object_store_is_down(any_lake, make_table, log_of, outage):
    table = make_table(any_lake, 1)
    store = outage(any_lake, table)
    store.is_down = True
    assert table.append(rows(2)) == 2
    record = statuses(table)[2]
    assert (record.status, record.retry_count, record.json_written) == ("PENDING", 1, False)
    assert record.error_message
    assert table.append(rows(3)) == 3
    assert statuses(table)[3].status == "PENDING"
    store.is_down = False
    any_lake.mirror.run(once=True)
    assert log_of(table).versions() == [0, 1, 2, 3]
    assert all(record.error_message is None for record in statuses(table).values())
    assert all(record.retry_count == 0 for record in statuses(table).values())
    assert table.mirror.validate().ok


def test_a_folder_that_can_not_be_written(lake, make_table, log_of):
    """Not by permissions, which root does not mind: by a file where the folder should be."""
    table = make_table(lake, 1)
    folder = log_of(table).folder
    aside = folder.rename(folder.with_name("kept"))
    folder.write_bytes(b"")
    assert table.append(rows(2)) == 2
    assert statuses(table)[2].status == "PENDING"
    folder.unlink()
    aside.rename(folder)
    lake.mirror.run(once=True)
    assert log_of(table).versions() == [0, 1, 2]


def test_sync_timeout_is_honoured(open_lake, log_of):
    lake = open_lake(sync_timeout="200ms")
    table = lake.create_table("t", SCHEMA)
    landed(lake)
    whole = table.objects

    def slow(call):
        return Fault.SLOW if (call.verb, call.path[-6:]) == ("put_if_absent", "1.json") else None

    may_end = threading.Event()
    lake.objects.use(table.location, FaultyStore(whole, slow, sleep=lambda _: may_end.wait(60)))
    assert table.append(rows(1)) == 1
    assert statuses(table)[1].status == "PENDING"
    may_end.set()
    # The publish run goes on in the background.
    for _ in range(100):
        if statuses(table)[1].status == "SUCCESS":
            break
        time.sleep(0.1)
    assert log_of(table).versions() == [0, 1]


def test_a_lease_whose_holder_died_delays_a_version_but_does_not_strand_it(open_lake, log_of):
    """Nobody waits any more, nobody commits again, and there is no worker."""
    lake = open_lake(sync_timeout="200ms")
    table = lake.create_table("t", SCHEMA)
    landed(lake)
    assert lake.store.acquire_lease(table.table_id, "who died", 2.0, Work.COMMITS) is not None
    assert table.append(rows(1)) == 1
    assert statuses(table)[1].status == "PENDING"
    until(lambda: statuses(table)[1].status == "SUCCESS")
    assert log_of(table).versions() == [0, 1]


def test_an_object_store_that_hangs_holds_up_no_commit(open_lake):
    """Not even the look whether the mirror is ahead, which comes before the commit."""
    lake = open_lake(sync_timeout="200ms")
    table = lake.create_table("t", SCHEMA)
    landed(lake)
    whole = table.objects
    may_end = threading.Event()
    hangs = FaultyStore(
        whole,
        lambda call: Fault.SLOW if call.verb == "list" else None,
        sleep=lambda _: may_end.wait(60),
    )
    lake.objects.use(table.location, hangs)
    started = time.monotonic()
    assert table.append(rows(1)) == 1
    assert table.append(rows(2)) == 2
    # What hangs, hangs for a minute, unless it is let go.
    assert time.monotonic() - started < 50
    may_end.set()


def test_failed_after_five_attempts_then_hourly(lake, make_table, outage):
    table = make_table(lake, 1)
    store = outage(lake, table)
    store.is_down = True
    failures = metrics.REGISTRY.get_sample_value("mirror_failures_total", {"table": "t"}) or 0
    table.append(rows(2))
    for attempt in range(2, 6):
        assert statuses(table)[2].status == "PENDING"
        lake.mirror.run(once=True)
        assert statuses(table)[2].retry_count == attempt
    assert statuses(table)[2].status == "FAILED"
    assert table.mirror.status().is_failed
    after = metrics.REGISTRY.get_sample_value("mirror_failures_total", {"table": "t"})
    assert after == failures + 5
    settings = Settings()
    assert [settings.mirror_backoff(count) for count in range(7)] == [0, 1, 2, 4, 8, 16, 3600]


def test_a_conflict_is_recorded_and_nothing_overwritten(any_lake, make_table, log_of):
    table = make_table(any_lake, 1)
    table.mirror.pause()
    table.append(rows(2))
    assert not statuses(table)[2].json_written
    foreign = b'{"commitInfo":{"operation":"FOREIGN"}}\n'
    log_of(table)[2].write_bytes(foreign)
    table.mirror.resume()
    any_lake.mirror.run(once=True)
    record = statuses(table)[2]
    assert record.status == "FAILED"
    assert "differs from what SQL has" in record.error_message
    assert log_of(table)[2].read_bytes() == foreign
    assert table.mirror.repair(force=True).ok
    assert table.mirror.validate().ok


def test_a_gap_blocks_and_says_so(lake, make_table, log_of):
    table = make_table(lake, 2)
    landed(lake)
    log_of(table)[2].unlink()
    assert table.append(rows(3)) == 3
    record = statuses(table)[3]
    assert record.status == "PENDING"
    assert "can't be mirrored before version 2" in record.error_message
    assert log_of(table).versions() == [0, 1]
    assert table.mirror.repair().ok
    assert log_of(table).versions() == [0, 1, 2, 3]
