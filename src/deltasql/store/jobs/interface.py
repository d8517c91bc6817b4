"""The interface for background upkeep: what to do, who does it, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

# The table id of jobs that concern the whole lake.
WHOLE_LAKE: Final = 0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Work on a table; times are in epoch milliseconds by the database's clock."""

    job_id: str
    table_id: int
    table: str | None
    work: str
    reason: str
    queued_at: int
    holder: str | None
    started_at: int | None
    ended_at: int | None
    size_bytes: int | None
    outcome: str | None


class JobLog(Protocol):
    """The queue of a lake."""

    def queue_job(self, job_id: str, table_id: int, *, work: str, reason: str) -> bool:
        """Queue work on a table; False if such work already waits or is under way."""

    def claim_job(self, holder: str, *, seconds: float) -> JobRecord | None:
        """The job that has waited longest, for `seconds`; None if none waits.

        A job that its holder did not end in time waits again.
        """

    def end_job(self, job_id: str, holder: str, *, size_bytes: int, outcome: str) -> bool:
        """Record the result of a job; False if another process has taken it over."""

    def forget_jobs(self, *, seconds: float) -> int:
        """Forget jobs that ended longer ago than this; returns how many."""

    def job_bytes(self, *, seconds: float) -> int:
        """How many bytes the jobs of the last `seconds` deleted or wrote."""

    def jobs(self) -> list[JobRecord]:
        """All jobs, newest first."""

    def analyze(self) -> bool:
        """Make the database update its statistics; False if it does so by itself."""
