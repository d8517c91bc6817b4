"""The seam for upkeep in the background: what is to be done, by whom, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

# The table of jobs that are about the whole lake.
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
        """Queue work on a table; False if such work waits, or is under way, already."""

    def claim_job(self, holder: str, *, seconds: float) -> JobRecord | None:
        """The job that has waited for longest, for `seconds`; None if none waits.

        One whose holder did not end it in time waits again.
        """

    def end_job(self, job_id: str, holder: str, *, size_bytes: int, outcome: str) -> bool:
        """Write down what came of a job; False if it is somebody else's by now."""

    def forget_jobs(self, *, seconds: float) -> int:
        """Forget jobs that ended so long ago; returns how many."""

    def job_bytes(self, *, seconds: float) -> int:
        """How many bytes the jobs of the last so many seconds deleted or wrote."""

    def jobs(self) -> list[JobRecord]:
        """All of them, the newest first."""

    def analyze(self) -> bool:
        """Let the database count its rows anew; False if it does so by itself."""
