"""The queue with the named queries, the same for every dialect."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from deltasql.store.jobs.interface import JobRecord
from deltasql.store.rows import Row


class JobQueries:
    """What the queue asks of a store; a dialect says how to run a query."""

    @abstractmethod
    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a named query."""

    @abstractmethod
    def _change(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a named query that writes, in a transaction of its own."""

    def queue_job(self, job_id: str, table_id: int, *, work: str, reason: str) -> bool:
        return bool(
            self._change("job_queue", job_id=job_id, table_id=table_id, work=work, reason=reason)
        )

    def claim_job(self, holder: str, *, seconds: float) -> JobRecord | None:
        found = self._change("job_claim", holder=holder, milliseconds=round(seconds * 1000))
        if not found:
            return None
        return next(job for job in self.jobs() if job.job_id == found[0][0])

    def end_job(self, job_id: str, holder: str, *, size_bytes: int, outcome: str) -> bool:
        return bool(
            self._change(
                "job_end", job_id=job_id, holder=holder, size_bytes=size_bytes, outcome=outcome
            )
        )

    def forget_jobs(self, *, seconds: float) -> int:
        return len(self._change("jobs_forget", before=-round(seconds * 1000)))

    def job_bytes(self, *, seconds: float) -> int:
        ((found,),) = self._rows("jobs_bytes", since=-round(seconds * 1000))
        return int(found)

    def jobs(self) -> list[JobRecord]:
        return [JobRecord(*row) for row in self._rows("jobs_all")]

    def analyze(self) -> bool:
        return False
