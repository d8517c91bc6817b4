"""Long work in the background: started by a request, watched by others, cancelled on request."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from deltasql.errors import DeltaSqlError
from deltasql.secrecy import redacted
from deltasql.serve.problems import Refused

logger = logging.getLogger("deltasql.serve")

# How many ended jobs are kept, newest first, and how many may wait.
_KEPT: Final = 200
_WAITING: Final = 50
_AT_ONCE: Final = 2
# The kinds of jobs that end with knowing whether a mirror is as SQL says.
_LOOKING: Final = frozenset({"validate", "repair"})


class State(StrEnum):
    """Where a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobCancelled(Exception):  # noqa: N818 - somebody asked for it
    """Raised inside the work once its job was cancelled."""


@dataclass(slots=True)
class Job:
    """A piece of work; `done` of `total` steps are over, 0 of 0 while nobody knows."""

    job_id: str
    kind: str
    table: str | None
    asked_by: str
    options: dict[str, bool] = field(default_factory=dict)
    state: State = State.WAITING
    done: int = 0
    total: int = 0
    result: dict[str, Any] | None = None
    error: dict[str, str] | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    is_cancelled: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.state in (State.DONE, State.FAILED, State.CANCELLED)

    @property
    def found_something(self) -> bool:
        """Whether it ended normally but reports a problem."""
        return self.result is not None and not self.result.get("ok", True)

    def step(self, done: int = 0, total: int = 0) -> None:
        """Report progress; raises `JobCancelled` once the job was cancelled."""
        if self.is_cancelled:
            raise JobCancelled
        if total:
            self.done, self.total = min(done, total), total

    def told(self) -> dict[str, Any]:
        """The job as the API shows it."""
        return {
            "id": self.job_id,
            "kind": self.kind,
            "table": self.table,
            "options": self.options,
            "state": self.state.value,
            "done": self.done,
            "total": self.total,
            "result": self.result,
            "error": self.error,
            "created_at": self.created_at,
            "ended_at": self.ended_at,
        }


class Jobs:
    """The jobs of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="deltasql-job")

    def begin(
        self,
        kind: str,
        table: str | None,
        asked_by: str,
        work: Callable[[Job], dict[str, Any]],
        **options: bool,
    ) -> Job:
        """Begin a job, unless the same one is under way: then return that."""
        asked = (kind, table, options)
        with self._lock:
            open_jobs = [item for item in self._jobs.values() if not item.is_over]
            for item in open_jobs:
                if (item.kind, item.table, item.options) == asked and not item.is_cancelled:
                    return item
            if len(open_jobs) >= _WAITING:
                raise Refused(
                    429,
                    "too many jobs are waiting",
                    cause=f"{len(open_jobs)} have not ended",
                    remedy="wait for them, or cancel some",
                )
            job = Job(uuid.uuid4().hex, kind, table, asked_by, options)
            self._jobs[job.job_id] = job
            self._forget_old()
        self._pool.submit(self._run, job, work)
        return job

    def find(self, job_id: str) -> Job | None:
        """The job of that id."""
        return self._jobs.get(job_id)

    def newest(
        self, wanted: Callable[[str], bool] = lambda _: True, *, most: int = 50
    ) -> list[Job]:
        """Jobs of the tables that are wanted, by name, newest first."""
        with self._lock:
            found = [item for item in self._jobs.values() if wanted(item.table or "")]
        return found[::-1][:most]

    def differing(self) -> set[str]:
        """Tables whose mirror was not in order when a job last looked at it."""
        latest: dict[str, Job] = {}
        with self._lock:
            for job in self._jobs.values():
                if job.table and job.kind in _LOOKING and job.state is State.DONE:
                    latest[job.table] = job
        return {table for table, job in latest.items() if job.found_something}

    def cancel(self, job: Job) -> None:
        """Ask a job to end at its next step; one that waits for its turn ends at once."""
        with self._lock:
            if job.is_over:
                return
            job.is_cancelled = True
            if job.state is State.WAITING:
                self._end(job, State.CANCELLED)

    def close(self) -> None:
        """Cancel what is left, and wait for what can't stop at once."""
        with self._lock:
            for job in self._jobs.values():
                job.is_cancelled = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _end(job: Job, state: State) -> None:
        job.ended_at = datetime.now(UTC)
        job.state = state

    def _run(self, job: Job, work: Callable[[Job], dict[str, Any]]) -> None:
        with self._lock:
            if job.is_over:
                return
            job.state = State.RUNNING
        try:
            job.step()
            job.result = work(job)
            ended = State.DONE
        except JobCancelled:
            ended = State.CANCELLED
        except DeltaSqlError as error:
            job.error = {
                "problem": redacted(error.problem),
                "cause": redacted(error.cause),
                "remedy": redacted(error.remedy),
            }
            ended = State.FAILED
        except Exception:
            logger.exception("%s of %s failed unexpectedly", job.kind, job.table or "all tables")
            job.error = {
                "problem": "the job failed unexpectedly",
                "cause": "see the service's log",
                "remedy": "",
            }
            ended = State.FAILED
        # A failure after cancellation is of no interest.
        self._end(job, State.CANCELLED if ended is State.FAILED and job.is_cancelled else ended)

    def _forget_old(self) -> None:
        over = [job_id for job_id, item in self._jobs.items() if item.is_over]
        for job_id in over[: max(0, len(over) - _KEPT)]:
            del self._jobs[job_id]
