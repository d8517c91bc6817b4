"""The queue of upkeep: each job is one worker's at a time, and what came of it is known."""

from __future__ import annotations

from deltasql.store.jobs.interface import WHOLE_LAKE
from deltasql.testing.proposals import OpenStore, create

# A claim of no time is over when it is made: no test has to wait for an end.
OVER = -1.0


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
