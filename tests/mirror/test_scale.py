"""What the mirror costs when there is much of it: tables, versions, checkpoints, and a stop."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from deltasql.delta_log.listing import checkpoints_of
from deltasql.delta_log.reading import sidecar_details
from deltasql.mirror import leases
from deltasql.mirror.checkpoints import soundness
from deltasql.mirror.worker import Worker
from deltasql.spec.actions import AddFile, RemoveFile
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.conftest import SCHEMA, landed, rows, statuses
from tests.sizes import FULL

TABLES = 300 if FULL else 100
COMMITS = 10_000 if FULL else 500


@pytest.fixture
def counted(monkeypatch):
    """Counts the statements of a lake's store by name."""

    def count(lake):
        names: list[str] = []
        for verb in ("_rows", "_change"):
            real = getattr(lake.store, verb)

            def ask(name, /, _real=real, **given):
                names.append(name)
                return _real(name, **given)

            monkeypatch.setattr(lake.store, verb, ask)
        return names

    return count


def add(number: int) -> AddFile:
    return AddFile(
        path=f"part-{number:05}-{'0' * 32}.parquet",
        size=1000 + number,
        modification_time=1_700_000_000_000 + number,
        partition_values={},
        stats=f'{{"numRecords":1,"minValues":{{"id":{number}}},"maxValues":{{"id":{number}}}}}',
    )


# --- many tables ----------------------------------------------------------------------


def test_what_is_idle_costs_the_same_however_many_tables_there_are(open_lake, store_url, counted):
    lake = open_lake(store_url, mode="async")
    first = lake.create_table("t0", SCHEMA)
    lake.engine.catch_up(first.target)
    count = TABLES if store_url.startswith("sqlite") else 10
    for number in range(1, count):
        lake.create_table(f"t{number}", SCHEMA)
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_mirror_status SET status = 'SUCCESS', json_written = true")
    worker, names, busy = Worker(lake.engine, lake.store), counted(lake), {}
    with ThreadPoolExecutor(1) as pool:
        for is_first in (True, False):
            worker._reconcile(is_first=is_first)
            worker._begin(pool, busy, is_whole=True)
            assert len(names) < 8
            names.clear()
        worker._begin(pool, busy, is_whole=False)
        assert sorted(names) == ["mirror_heads", "mirror_open_backlog"]
        assert not busy
        # What happens is seen at once.
        first.append(rows(1))
        worker._begin(pool, busy, is_whole=False)
        assert [table_id for table_id, _ in busy.values()] == [first.table_id]
    assert statuses(first)[1].json_written
    names.clear()
    assert len(lake.mirror.status()) == count
    assert len(names) <= 4
    names.clear()
    assert first.mirror.status().lag_versions == 0
    assert len(names) <= 3


def test_no_commit_file_waits_for_a_look_at_every_table(open_lake, monkeypatch):
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA)
    worker, begun = Worker(lake.engine, lake.store), threading.Event()
    monkeypatch.setattr(worker, "_told_work", lambda *_: begun.set())

    def heads(**_):
        assert begun.wait(10), "the work has begun"
        return []

    monkeypatch.setattr(lake.store, "mirror_heads", heads)
    with ThreadPoolExecutor(1) as pool:
        worker._begin(pool, {}, is_whole=False)
    assert table.version == 0


def test_versions_without_a_status_are_found_by_what_is_new(any_lake, make_table):
    lake = any_lake
    table = make_table(lake, 2)
    with lake.store.locked([]) as log:
        log.execute("DELETE FROM dl_mirror_status WHERE version = 1")
    assert lake.store.fill_all_statuses(only_new=True) == 0, "the mirror is beyond it"
    assert lake.store.fill_all_statuses(only_new=False) == 1
    lake.mirror.run(once=True)
    table.mirror.pause()
    table.append(rows(3))
    with lake.store.locked([]) as log:
        log.execute("DELETE FROM dl_mirror_status WHERE version = 3")
    assert lake.store.fill_all_statuses(only_new=True) == 1
    assert statuses(table)[3].status == "PENDING"


# --- checkpoints ----------------------------------------------------------------------


def test_small_commits_write_few_bytes_of_checkpoints(open_lake, log_of):
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA)
    for number in range(COMMITS):
        table.commit([add(number)])
    lake.mirror.run(once=True)
    sizes = [path.stat().st_size for path in sorted(log_of(table).folder.glob("*.checkpoint.*"))]
    assert table.mirror.status().pending_checkpoints == 0
    # At the bar with ten thousand; of fewer the schema in each file is a larger part.
    assert sum(sizes) <= (10 if FULL else 12) * sizes[-1]
    assert [version for version, item in statuses(table).items() if item.checkpoint_written][
        :3
    ] == [10, 20, 30]
    report = table.mirror.validate()
    assert report.ok
    assert table.version - (report.checkpoint or 0) < COMMITS / 5


def test_v2_checkpoints_of_small_commits_are_frequent(open_lake, log_of):
    """Sidecars are kept, so that readers replay few commits, however large the table is."""
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointPolicy": "v2"})
    for number in range(COMMITS):
        table.commit([add(number)])
        if number % 60 == 59:
            lake.mirror.run(once=True)
    lake.mirror.run(once=True)
    due = [version for version, item in statuses(table).items() if item.checkpoint_written]
    assert max(later - version for version, later in pairwise(due)) <= 60
    assert table.version - due[-1] < 60
    log = log_of(table).folder
    written = [path.stat().st_size for path in (*log.glob("*.checkpoint.*"), *log.rglob("_s*/*"))]
    (newest,) = checkpoints_of(table.objects, due[-1])
    sidecars = sidecar_details(table.objects, newest)
    whole = (log / newest.names[0]).stat().st_size + sum(item.size_in_bytes for item in sidecars)
    assert sum(written) <= (11 if FULL else 13) * whole
    assert table.mirror.validate().ok


def test_a_removed_file_makes_v2_checkpoints_cost_what_they_did(open_lake):
    """The sidecar that has it is written again, and may hold most of the table."""
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointPolicy": "v2"})
    table.commit([add(number) for number in range(1_500)])
    for number in range(10):
        table.append(rows(number))
    lake.mirror.run(once=True)
    first = max(version for version, item in statuses(table).items() if item.checkpoint_written)
    gone = RemoveFile(path=add(7).path, deletion_timestamp=2**42)
    table.commit([gone], read_version=table.version)
    for number in range(100):
        table.commit([add(2_000 + number)])
    lake.mirror.run(once=True)
    later = {version for version, item in statuses(table).items() if item.checkpoint_written}
    assert later == {first}


def test_tombstones_count_as_what_a_checkpoint_has_to_repeat(open_lake):
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA)
    for number in range(240):
        last = RemoveFile(path=add(number - 1).path, deletion_timestamp=2**42)
        table.commit([add(number), *([last] if number else [])])
        if number % 60 == 59:
            lake.mirror.run(once=True)
    # One live file, and hundreds that were removed.
    assert len([item for item in statuses(table).values() if item.checkpoint_written]) < 20


def test_a_checkpoint_is_written_again_with_its_commit_file(any_lake, log_of):
    table = any_lake.create_table("t", SCHEMA)
    for number in range(12):
        table.append(rows(number))
    any_lake.mirror.run(once=True)
    landed(any_lake)
    any_lake.store.forget_mirrored(table.table_id, first=0, last=12)
    for path in log_of(table).folder.iterdir():
        if path.is_file():
            path.unlink()
    any_lake.mirror.run(once=True)
    assert [v for v, item in statuses(table).items() if item.checkpoint_written] == [10]
    assert table.mirror.validate().checkpoint == 10


def test_a_run_of_many_checkpoints_keeps_its_lease(open_lake, monkeypatch):
    """Each is written before the lease would be renewed, all of them long after it has ended."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.5)
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "1"})
    for number in range(8):
        table.append(rows(number))

    def slow(call):
        return Fault.SLOW if call.verb == "open_output" else None

    lake.objects.wrap(lambda inner: FaultyStore(inner, slow, delay=0.3))
    assert lake.mirror.run(once=True) == 9 + 8
    assert table.mirror.status().pending_checkpoints == 0


# --- the end --------------------------------------------------------------------------


def test_a_stop_ends_a_long_backlog_with_a_version(open_lake, log_of):
    lake, stop = open_lake(mode="async"), threading.Event()
    table = lake.create_table("t", SCHEMA)
    for number in range(60):
        table.commit([add(number)])

    def stops_at_the_fifth(call):
        if call.path.endswith("4.json"):
            stop.set()

    lake.objects.wrap(lambda inner: FaultyStore(inner, stops_at_the_fifth))
    lake.mirror.run(stop=stop)
    written = log_of(table).versions()
    assert 5 <= len(written) < 40
    assert written == list(range(len(written)))
    assert table.mirror.status().mirrored_version == written[-1]
    lake.mirror.run(once=True)
    assert table.mirror.validate().ok


def test_a_stop_ends_a_checkpoint_and_leaves_nothing_of_it(open_lake, log_of):
    lake, stop = open_lake(mode="async"), threading.Event()
    table = lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
    for number in range(4):
        table.append(rows(number))

    def stops(call):
        if call.verb == "open_output":
            stop.set()

    lake.objects.wrap(lambda inner: FaultyStore(inner, stops))
    lake.mirror.run(stop=stop)
    assert not [name for name in log_of(table).names() if "checkpoint" in name]
    assert not any(item.error_message for item in statuses(table).values())
    lease = lake.store.acquire_lease(table.table_id, "next", 1.0)
    assert lease is not None, "it was given back"
    lake.store.release_lease(lease)
    lake.mirror.run(once=True)
    assert table.mirror.validate().checkpoint == 4


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_pause_ends_a_long_backlog(open_lake, log_of, mode):
    """Also of a run that began before: nothing more is written, until it is resumed."""
    lake = open_lake(mode="async")
    table = lake.create_table("t", SCHEMA)
    for number in range(400):
        table.commit([add(number)])

    def pauses_at_the_fifth(call):
        if call.path.endswith("0004.json"):
            table.mirror.pause()
        return Fault.SLOW

    with open_lake(mode=mode, sync_timeout="100ms") as other:
        there = other.table("t")
        other.objects.wrap(lambda inner: FaultyStore(inner, pauses_at_the_fifth, delay=0.02))
        if mode == "sync":
            there.commit([add(400)])
        else:
            other.mirror.run(once=True)
        landed(other)
    written = log_of(table).versions()
    assert 5 <= len(written) < 200
    assert table.mirror.status().mirrored_version == written[-1]
    table.mirror.resume()
    lake.mirror.run(once=True)
    assert table.mirror.validate().ok
    assert table.mirror.status().lag_versions == 0


@pytest.mark.parametrize("name", ["live_keys", "ended_keys", "added_keys"])
def test_a_stop_ends_the_proof_that_comes_before_a_checkpoint(open_lake, monkeypatch, log_of, name):
    """Of a table with very many files it takes minutes, and nothing is written meanwhile."""
    monkeypatch.setattr(soundness, "_MOST_VERSIONS", 4)
    lake, stop = open_lake(mode="async"), threading.Event()
    properties = {"delta.checkpointInterval": "40", "delta.checkpointPolicy": "v2"}
    table = lake.create_table("t", SCHEMA, properties=properties)
    for number in range(40):
        table.commit([add(number)])
    asked = []

    def noted(verb):
        real = getattr(lake.store, verb)

        def ask(*args, **given):
            asked.append(verb)
            if verb == name:
                stop.set()
            return real(*args, **given)

        return ask

    for verb in ("live_keys", "ended_keys", "added_keys", "files"):
        monkeypatch.setattr(lake.store, verb, noted(verb))
    lake.mirror.run(stop=stop)
    assert asked.index(name) == len(asked) - 1, "it goes no further"
    assert not [item for item in log_of(table).names() if "checkpoint" in item]
    assert not any(item.error_message for item in statuses(table).values())
    lake.mirror.run(once=True)
    assert table.mirror.validate().checkpoint == 40


def test_a_stop_ends_a_validation(open_lake, make_table):
    lake, stop = open_lake(validate_interval="10ms"), threading.Event()
    table = make_table(lake, 60)
    make_table(lake, 2, name="other")
    read = []

    def stops(call):
        if call.verb == "read" and call.path.endswith(".json"):
            read.append(call.path)
            stop.set()

    lake.objects.wrap(lambda inner: FaultyStore(inner, stops))
    lake.mirror.run(stop=stop)
    assert 0 < len(read) < 40, "of 64"
    assert not table.mirror.status().is_failed


def test_a_lake_that_closes_leaves_a_long_backlog_to_the_next(open_lake, log_of):
    """A writer whose own version waits behind many others ends with a version, too."""
    with open_lake(mode="async") as lake:
        table = lake.create_table("t", SCHEMA)
        for number in range(200):
            table.commit([add(number)])
    with open_lake(mode="sync", sync_timeout="100ms") as lake:
        lake.objects.wrap(lambda inner: FaultyStore(inner, lambda _: Fault.SLOW, delay=0.03))
        table = lake.table("t")
        table.commit([add(200)])
    written = log_of(table).versions()
    assert 0 < len(written) < 150
    assert written == list(range(len(written)))
    with open_lake(mode="async") as lake:
        table = lake.table("t")
        assert table.mirror.status().mirrored_version == written[-1], "SQL was told"
        lake.mirror.run(once=True)
        assert table.mirror.validate().ok


def test_a_poll_interval_that_is_long_delays_no_stop(open_lake):
    lake, stop = open_lake(poll_interval="1h"), threading.Event()
    thread = threading.Thread(target=lake.mirror.run, kwargs={"stop": stop})
    thread.start()
    time.sleep(0.2)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
