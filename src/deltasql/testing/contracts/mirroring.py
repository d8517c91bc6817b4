"""The status of versions: what the mirror lacks, what it has, and what went wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from hashlib import sha256
from threading import Event, Timer

from deltasql.spec import codec
from deltasql.spec.properties import CHECKPOINT_INTERVAL
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Backlog, DueCheckpoint, Reached, Totals, Work
from deltasql.store.rows import key_of
from deltasql.testing.contracts.leases import LONG, take
from deltasql.testing.proposals import METADATA, OpenStore, add, commit, create, remove

_HOUR = 3_600_000


def _mirror(store: LogStore, table_id: int, last: int, *, interval: int = 100) -> None:
    """Record the commit files up to a version."""
    lease = take(store, table_id)
    totals = store.totals(table_id, last)
    assert store.record_mirrored(lease, totals, first=0, interval=interval, seconds=LONG)
    store.release_lease(lease)


def _fail(store: LogStore, table_id: int, version: int, work: Work, *, is_final: bool) -> None:
    lease = take(store, table_id, work)
    assert store.record_failure(lease, version, "no ☎ to the bucket", is_final=is_final)
    store.release_lease(lease)


def _statuses(store: LogStore, table_id: int) -> dict[int, tuple[str, bool, bool]]:
    return {
        item.version: (item.status, item.json_written, item.checkpoint_written)
        for item in store.mirror_status(table_id, first=0, last=2**40)
    }


def _of(store: LogStore, table_id: int) -> Backlog:
    (found,) = [item for item in store.backlog() if item.table_id == table_id]
    return found


def _removes(store: LogStore, table_id: int, version: int, newer_than: int = -1) -> list[str]:
    found = store.tombstones(table_id, version, newer_than=newer_than).read_all()
    assert found.column_names == ["action"]
    wires = [codec.loads(text.encode()) for text in found.column("action").to_pylist()]
    return sorted(str(wire.get("remove", wire)["path"]) for wire in wires)


class MirrorContract:
    """What `MirrorLog` promises about versions."""

    def test_every_version_waits_from_its_commit_on(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, neighbour = create(store, actions=[add("a"), add("b")]), create(store)
        commit(store, table_id, remove("a"), remove("unknown"), add("c", size=7))
        commit(store, table_id, add("c", size=8))
        found = log_store().pending(table_id, most=10)
        records = list(store.commits(table_id, after=-1))
        assert [(item.version, item.body) for item in found] == [
            (record.version, record.body) for record in records
        ]
        assert [item.in_commit_timestamp for item in found] == [
            record.in_commit_timestamp for record in records
        ]
        assert [item.digest for item in found] == [
            sha256(item.body or b"").digest() for item in found
        ]
        # Removed, and restated; unknown files were in no sum.
        assert [(item.gone_files, item.gone_bytes) for item in found] == [(0, 0), (1, 10), (1, 7)]
        assert {
            (item.retry_count, item.age_ms, item.is_paused, item.earliest) for item in found
        } == {(0, None, False, 0)}
        assert [item.version for item in store.pending(table_id, most=2)] == [0, 1]
        assert [item.version for item in store.pending(table_id, most=9, after=1)] == [2]
        _mirror(store, table_id, 1)
        assert [item.version for item in store.pending(table_id, most=9)] == [2]
        assert [item.version for item in store.pending(neighbour, most=9)] == [0]

    def test_only_tables_that_lack_something_are_open(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, neighbour = create(store), create(store)
        commit(store, table_id, add("a"))
        _mirror(store, table_id, 1)
        assert [item.table_id for item in store.open_backlog()] == [neighbour]
        found = store.backlog_of(neighbour)
        assert found == _of(store, neighbour)
        assert found.versions == 1
        assert store.backlog_of(neighbour + 1_000) is None
        heads = store.mirror_heads(since=-1)
        assert [(item[0], item[1]) for item in sorted(heads)] == [(table_id, 1), (neighbour, 0)]
        assert store.mirror_heads(since=max(item[2] for item in heads)) == []
        commit(store, table_id, add("b"))
        with store.locked([table_id]) as log:
            log.execute("DELETE FROM dl_mirror_status")
        assert store.fill_all_statuses(only_new=True) == 1, "beyond what was mirrored"
        assert store.fill_all_statuses(only_new=False) == 3
        assert store.fill_all_statuses(only_new=False) == 0

    def test_the_size_of_the_newest_checkpoint_is_kept(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        store.release_lease(take(store, table_id))
        store.note_checkpoint(table_id, 4711)
        assert take(log_store(), table_id).checkpoint_actions == 4711

    def test_whether_files_were_lost_since_a_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, neighbour = create(store), create(store)
        commit(store, table_id, add("a"), add("b"))
        commit(store, neighbour, add("a"))
        commit(store, table_id, add("c"))
        commit(store, table_id, remove("c"))
        assert not store.has_lost_files(table_id, 1, 3), "it was not there at version 1"
        assert store.has_lost_files(table_id, 2, 3)
        assert not store.has_lost_files(table_id, 1, 2)
        assert not store.has_lost_files(neighbour, 0, 3)
        commit(store, table_id, remove("a"))
        assert store.has_lost_files(table_id, 1, 4)
        assert not store.has_lost_files(table_id, 1, 3)

    def test_a_commit_file_that_is_lost_is_told(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"))
        commit(store, table_id, add("b"))
        with store.locked([table_id]) as log:
            log.execute("DELETE FROM dl_table_versions WHERE version = 1")
        found = store.pending(table_id, most=9)
        assert [item.version for item in found] == [0, 1, 2], "a gap is no end"
        assert [item.body is None for item in found] == [False, True, False]

    def test_success_but_for_checkpoints_that_are_due(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        for number in range(4):
            commit(store, table_id, add(str(number)))
        before = store.clock_ms()
        _mirror(store, table_id, 3, interval=2)
        done, due = ("SUCCESS", True, False), ("PENDING", True, False)
        assert _statuses(store, table_id) == {
            0: done, 1: done, 2: due, 3: done, 4: ("PENDING", False, False),
        }  # fmt: skip
        assert [item.version for item in store.due_checkpoints(table_id)] == [2]
        for item in store.mirror_status(table_id, first=0, last=3):
            assert item.mirrored_at is not None
            assert before <= item.mirrored_at <= store.clock_ms()
            assert item.last_attempt_at == item.mirrored_at
        lease = take(store, table_id, Work.CHECKPOINTS)
        assert store.record_checkpoint(lease, 2)
        assert _statuses(store, table_id)[2] == ("SUCCESS", True, True)
        assert store.due_checkpoints(table_id) == []
        assert [item.version for item in store.mirror_status(table_id, first=1, last=2)] == [1, 2]

    def test_how_far_it_got(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        for number in range(4):
            commit(store, table_id, add(str(number)))
        assert store.mirror_reached(table_id, upto=9, by=2**62) is None
        before = store.clock_ms() - 1
        _mirror(store, table_id, 2, interval=10)
        after = store.clock_ms()
        assert store.mirror_reached(table_id, upto=9, by=after) == Reached(2, 2)
        assert store.mirror_reached(table_id, upto=1, by=after) == Reached(1, 1)
        assert store.mirror_reached(table_id, upto=9, by=before) == Reached(2, -1)
        assert store.mirror_reached(table_id, upto=-1, by=after) is None

    def test_failures_are_counted_until_they_are_mended(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"))
        for attempt in (1, 2):
            _fail(store, table_id, 0, Work.COMMITS, is_final=attempt == 2)
            (found, _) = store.mirror_status(table_id, first=0, last=1)
            assert (found.retry_count, found.status) == (
                attempt,
                ["PENDING", "FAILED"][attempt - 1],
            )
            assert found.error_message == "no ☎ to the bucket"
            assert found.mirrored_at is None
            (waiting, other) = store.pending(table_id, most=9)
            assert waiting.retry_count == attempt
            assert waiting.age_ms is not None
            assert 0 <= waiting.age_ms < _HOUR
            assert (other.retry_count, other.age_ms) == (0, None)
        _mirror(store, table_id, 1, interval=1)
        for found in store.mirror_status(table_id, first=0, last=1):
            assert (found.retry_count, found.error_message) == (0, None)
        _fail(store, table_id, 1, Work.CHECKPOINTS, is_final=True)
        ((due, count, attempted_at),) = [
            (item.version, item.retry_count, item.last_attempt_at)
            for item in store.due_checkpoints(table_id)
        ]
        assert (due, count) == (1, 1)
        assert attempted_at is not None
        assert store.look(table_id, 1).is_mirrored, "its commit file is there all the same"

    def test_what_is_forgotten_is_done_again(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, neighbour = create(store), create(store)
        for number in range(2):
            commit(store, table_id, add(str(number)))
        assert not store.forget_checkpoint(table_id, 2), "it has no commit file yet"
        _mirror(store, table_id, 2, interval=2)
        commit(store, neighbour, add("a"))
        _mirror(store, neighbour, 1)
        lease = take(store, table_id, Work.CHECKPOINTS)
        assert store.record_checkpoint(lease, 2)
        assert store.forget_checkpoint(table_id, 2)
        assert store.due_checkpoints(table_id) == [DueCheckpoint(2, 0, None)]
        assert store.record_checkpoint(lease, 2)
        assert store.forget_mirrored(table_id, first=1, last=9) == 2
        # Those that had a checkpoint are known, and it is written again.
        waits, checkpointed = ("PENDING", False, False), ("PENDING", False, True)
        assert _statuses(store, table_id) == {
            0: ("SUCCESS", True, False), 1: waits, 2: checkpointed,
        }  # fmt: skip
        assert store.due_checkpoints(table_id) == []
        (first, _) = store.mirror_status(table_id, first=1, last=2)
        assert (first.mirrored_at, first.last_attempt_at, first.retry_count) == (None, None, 0)
        assert set(_statuses(store, neighbour).values()) == {("SUCCESS", True, False)}
        assert not store.forget_checkpoint(table_id, 7)

    def test_rows_that_are_missing_are_filled_in(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"))
        _mirror(store, table_id, 0)
        before = store.mirror_status(table_id, first=0, last=1)
        assert store.fill_status(table_id) == 0
        with store.locked([table_id]) as log:
            log.execute("DELETE FROM dl_mirror_status WHERE version = 1")
        assert [item.version for item in store.mirror_status(table_id, first=0, last=1)] == [0]
        assert store.fill_status(table_id) == 1
        assert store.mirror_status(table_id, first=0, last=1) == before

    def test_the_backlog_of_every_table(self, log_store: OpenStore) -> None:
        store = log_store()
        whole, late, gone = (
            create(store, f"contract.{name}") for name in ("whole", "late", "gone")
        )
        _mirror(store, whole, 0)
        configured = replace(METADATA, configuration={CHECKPOINT_INTERVAL: "2"})
        commit(store, late, configured)
        for number in range(3):
            commit(store, late, add(str(number)), metadata_version=1)
        _mirror(store, late, 2, interval=2)
        _fail(store, late, 3, Work.COMMITS, is_final=True)
        _fail(store, late, 2, Work.CHECKPOINTS, is_final=False)
        store.drop_table(gone)
        assert [item.table_id for item in store.backlog()] == [whole, late]
        none = _of(store, whole)
        assert (none.name, none.head, none.versions, none.checkpoints) == (
            "contract.whole",
            0,
            0,
            0,
        )
        assert (none.first_version, none.oldest, none.is_failed) == (None, None, False)
        lacks = _of(store, late)
        assert (lacks.location, lacks.head) == ("memory:///contract.late", 4)
        assert (lacks.versions, lacks.first_version) == (2, 3)
        (third,) = store.commits(late, after=2, upto=3)
        assert lacks.oldest == third.in_commit_timestamp
        assert (lacks.retry_count, lacks.is_failed) == (1, True)
        assert lacks.error_message == "no ☎ to the bucket"
        assert (lacks.checkpoints, lacks.first_checkpoint, lacks.checkpoint_retry_count) == (
            1,
            2,
            1,
        )
        assert lacks.last_attempt_at is not None
        assert lacks.checkpoint_attempt_at is not None
        assert codec.loads(lacks.properties.encode()) == configured.configuration

    def test_a_gap_below_the_newest_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        for number in range(6):
            commit(store, table_id, add(str(number)))
        assert store.gaps(table_id) == [(0, 6)]
        _mirror(store, table_id, 1)
        lease = store.acquire_lease(table_id, "me", LONG)
        assert lease is not None
        newest = Totals(5, 5, 5)
        assert store.record_mirrored(lease, newest, first=5, interval=10, seconds=LONG)
        assert store.gaps(table_id) == [(2, 4), (6, 6)]
        found = _of(store, table_id)
        assert (found.versions, found.first_version, found.gap_versions) == (1, 6, 3)
        # Filling in does not move the newest back.
        assert store.record_mirrored(lease, newest, first=2, last=3, interval=10, seconds=LONG)
        store.release_lease(lease)
        assert store.gaps(table_id) == [(4, 4), (6, 6)]
        again = store.acquire_lease(table_id, "me", LONG)
        assert again is not None
        assert again.totals == newest
        store.release_lease(again)

    def test_a_paused_mirror_says_so_everywhere(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id, neighbour = create(store, "contract.t"), create(store)
        for paused in (True, False):
            assert store.set_mirror_paused(table_id, paused=paused)
            assert _of(store, table_id).is_paused is paused
            assert store.pending(table_id, most=1)[0].is_paused is paused
            record = store.table("contract.t")
            assert record is not None
            assert record.mirror_paused is paused
            assert not _of(store, neighbour).is_paused
        store.drop_table(table_id)
        assert not store.set_mirror_paused(table_id, paused=True)

    def test_tombstones_in_force_at_every_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store, actions=[add("a"), add("b", "v1"), add("c")])
        commit(store, table_id, remove("a", deletion_timestamp=100), remove("unknown"))
        # Another vector means another file, and a file that comes back is no tombstone.
        commit(store, table_id, remove("b", "v1", deletion_timestamp=200), add("b", "v2"))
        commit(store, table_id, add("a"))
        commit(store, table_id, remove("a", deletion_timestamp=300))
        expected = [[], ["a", "unknown"], ["a", "b", "unknown"], ["b", "unknown"]]
        assert [_removes(store, table_id, version) for version in range(4)] == expected
        assert _removes(store, table_id, 4) == ["a", "b", "unknown"]
        assert _removes(store, table_id, 4, newer_than=200) == ["a", "unknown"]
        assert _removes(store, table_id, 2, newer_than=100) == ["b", "unknown"]
        commit(store, table_id, add("a"))
        assert _removes(store, table_id, 5) == ["b", "unknown"], "it is live"
        assert _removes(store, table_id, 4) == ["a", "b", "unknown"], "and was not then"

    def test_who_added_the_files_of_every_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        commit(store, table_id, add("a"), add("b"))
        commit(store, table_id, remove("a"), add("c"))
        commit(store, table_id, replace(add("b"), tags={"k": "v"}))
        keys = {name: key_of(name) + key_of("") for name in "abc"}
        for version, expected in enumerate(
            ({}, {"a": 1, "b": 1}, {"b": 1, "c": 2}, {"b": 3, "c": 2})
        ):
            found = sorted(store.added_keys(table_id, version))
            assert found == sorted((added, keys[name]) for name, added in expected.items())

    def test_totals_at_every_version(self, log_store: OpenStore) -> None:
        store = log_store()
        table_id = create(store)
        create(store, actions=[add("neighbour")])
        large = 2**41
        commit(store, table_id, add("a", size=large), add("b", size=large))
        commit(store, table_id, remove("a"), add("b", size=1), add("c", size=2))
        commit(store, table_id, remove("b"), remove("c"))
        assert [store.totals(table_id, version) for version in range(4)] == [
            Totals(0, 0, 0), Totals(1, 2, 2 * large), Totals(2, 2, 3), Totals(3, 0, 0),
        ]  # fmt: skip

    def test_waiting_ends_in_time(self, log_store: OpenStore) -> None:
        store = log_store()
        started = time.monotonic()
        store.wait_for_work(0.05, Event())
        stop = Event()
        stop.set()
        store.wait_for_work(60, stop)
        stop = Event()
        Timer(0.1, stop.set).start()
        store.wait_for_work(60, stop)
        assert time.monotonic() - started < 30
        store.wake_mirror()

    def test_the_clock_goes_on(self, log_store: OpenStore) -> None:
        store = log_store()
        before = store.clock_ms()
        done = commit(store, create(store), add("a"))
        assert before <= done.in_commit_timestamp <= store.clock_ms() + 1
        assert abs(before - time.time() * 1000) < _HOUR, "milliseconds since 1970"
