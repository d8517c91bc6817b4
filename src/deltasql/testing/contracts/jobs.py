"""Work that processes share: the queue of upkeep, the bins of optimize, and where rows went."""

from __future__ import annotations

from deltasql.store.interface import Committed
from deltasql.store.jobs.interface import WHOLE_LAKE
from deltasql.store.optimizing.interface import PlannedBin
from deltasql.testing.proposals import OpenStore, add, create, proposal, remove

# A claim without duration is over at once, so that no test has to wait.
OVER = -1.0
# The settings of optimize.
SMALL = "{}"


class NamespaceContract:
    """What `NamespaceLog` promises."""

    def test_namespaces_are_remembered(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        assert store.create_namespace("a", "{}")
        assert not other.create_namespace("a", '{"x":"y"}')
        other.describe_namespace("a.b", '{"x":"y"}')
        store.describe_namespace("a.b", '{"x":"z"}')
        assert store.create_namespace("ab", "{}")
        assert other.namespaces() == {"a": "{}", "a.b": '{"x":"z"}', "ab": "{}"}
        other.drop_namespace("a")
        assert store.namespaces() == {"ab": "{}"}


class JobContract:
    """What `JobLog` promises."""

    def test_jobs_wait_are_claimed_and_end(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        table_id = create(store, "contract.kept")
        assert store.claim_job("me", seconds=60.0) is None
        assert store.queue_job("1", table_id, work="VACUUM", reason="9 files")
        assert not other.queue_job("2", table_id, work="VACUUM", reason="10 files")
        assert other.queue_job("3", WHOLE_LAKE, work="ANALYZE", reason="a day")
        job = store.claim_job("me", seconds=60.0)
        assert job is not None
        assert (job.job_id, job.table, job.work, job.reason, job.holder, job.ended_at) == (
            "1",
            "contract.kept",
            "VACUUM",
            "9 files",
            "me",
            None,
        )
        second = other.claim_job("you", seconds=OVER)
        assert second is not None
        assert (second.job_id, second.table) == ("3", None)
        again = store.claim_job("me", seconds=60.0)
        assert again is not None
        assert again.job_id == "3", "its holder did not end it in time"
        assert not other.end_job("3", "you", size_bytes=1, outcome="late")
        assert store.end_job("3", "me", size_bytes=0, outcome="analyzed")
        assert store.end_job("1", "me", size_bytes=7, outcome="9 files deleted")
        assert not store.end_job("1", "me", size_bytes=7, outcome="twice")
        assert store.claim_job("me", seconds=60.0) is None
        assert other.job_bytes(seconds=60.0) == 7
        assert {(item.job_id, item.outcome) for item in other.jobs()} == {
            ("1", "9 files deleted"),
            ("3", "analyzed"),
        }
        assert store.queue_job("4", table_id, work="VACUUM", reason="the next")
        assert store.forget_jobs(seconds=60.0) == 0
        assert store.forget_jobs(seconds=OVER) == 2
        assert [item.job_id for item in other.jobs()] == ["4"]
        assert other.job_bytes(seconds=60.0) == 0

    def test_rows_are_counted_anew(self, log_store: OpenStore) -> None:
        store = log_store()
        create(store)
        assert store.analyze() in (True, False)


class OptimizeContract:
    """What `OptimizeLog` promises."""

    def test_a_bin_is_one_processs_at_a_time(self, log_store: OpenStore) -> None:
        store, other = log_store(), log_store()
        table_id = create(store, "contract.packed")
        bins = [PlannedBin(("a", "b"), 2), PlannedBin(("c", "d"), 2)]
        assert store.queue_bins(table_id, "first", SMALL, bins) == 2
        assert other.queue_bins(table_id, "second", SMALL, [PlannedBin(("b", "e"), 2)]) == 0
        assert other.claim_bin(table_id, '{"other":1}', "you") is None, "that was not asked for"
        mine, yours = (
            store.claim_bin(table_id, SMALL, "me"),
            other.claim_bin(table_id, SMALL, "you"),
        )
        assert mine is not None
        assert yours is not None
        assert {mine.paths, yours.paths} == {("a", "b"), ("c", "d")}
        assert store.claim_bin(table_id, SMALL, "a third") is None
        assert store.renew_bin(mine.bin_id, "me")
        assert not store.renew_bin(yours.bin_id, "me")
        store.end_bin(yours.bin_id, "me")
        assert other.renew_bin(yours.bin_id, "you"), "nobody ends what is another's"
        store.end_bin(mine.bin_id, "me")
        other.end_bin(yours.bin_id, "you")
        assert not store.renew_bin(mine.bin_id, "me")
        assert store.queue_bins(table_id, "third", SMALL, bins) == 2, "the files are free again"

    def test_where_rows_went_is_known_with_the_commit(self, log_store: OpenStore) -> None:
        store, reader = log_store(), log_store()
        table_id = create(store, "contract.moved", [add("a"), add("b")])
        with store.locked([table_id]) as log:
            moving = proposal(table_id, [remove("a"), remove("b"), add("c")])
            assert isinstance(log.write(moving), Committed)
            store.write_moved_rows(log, table_id, [3, 2])
            assert store.moved_rows(table_id, 1, log) == [3, 2]
        assert reader.moved_rows(table_id, 1) == [3, 2]
        assert reader.moved_rows(table_id, 0) is None
        store.expire_moved_rows(table_id, milliseconds=60_000)
        assert reader.moved_rows(table_id, 1) == [3, 2]
        store.expire_moved_rows(table_id, milliseconds=-60_000)
        assert reader.moved_rows(table_id, 1) is None

    def test_where_sorted_rows_went_is_known_with_the_commit(self, log_store: OpenStore) -> None:
        store, reader = log_store(), log_store()
        table_id = create(store, "contract.sorted", [add("a"), add("b")])
        with store.locked([table_id]) as log:
            moving = proposal(table_id, [remove("a"), remove("b"), add("c")])
            assert isinstance(log.write(moving), Committed)
            store.write_sorted_rows(log, table_id, [1, 1], b"\x00\x01\xff")
            assert store.sorted_rows(table_id, 1, log) == ([1, 1], b"\x00\x01\xff")
        assert reader.sorted_rows(table_id, 1) == ([1, 1], b"\x00\x01\xff")
        assert reader.moved_rows(table_id, 1) is None, "nobody takes them to be as they came"
        assert reader.sorted_rows(table_id, 0) is None
        store.expire_moved_rows(table_id, milliseconds=60_000)
        assert reader.sorted_rows(table_id, 1) is not None
        store.expire_moved_rows(table_id, milliseconds=-60_000)
        assert reader.sorted_rows(table_id, 1) is None
