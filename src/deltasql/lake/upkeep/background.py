"""Upkeep in the background: what is due is queued in SQL, and done by any worker that is free.

A kind of work is registered here with when it is due and how it is done; the queue, the limit on
bytes and the worker know nothing else about it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from deltasql.errors import DeltaSqlError, TableNotFoundError
from deltasql.lake.upkeep.optimizing import files_to_optimize
from deltasql.log.timestamps import from_ms
from deltasql.store.jobs.interface import WHOLE_LAKE, JobRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table
    from deltasql.settings.keys import Settings

logger = logging.getLogger("deltasql.maintenance")

_HOUR: Final = 3600.0
# How long a job belongs to its holder: any job may be done twice, and resumes where it was.
_CLAIM: Final = _HOUR
_REMEMBERED: Final = 30 * 24 * _HOUR
# How long a worker that stops waits for the job under way.
_PATIENCE: Final = 3.0
_FAILED: Final = "failed: "
# The priority of upkeep: a tenth of what others get while they compete.
_NICE: Final = 10


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a job, in words, and how many bytes it deleted or wrote."""

    outcome: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableWork:
    """A kind of work on a table; `due` says why it should be done now, or None."""

    name: str
    due: Callable[[Table, Settings], str | None]
    do: Callable[[Table], Done]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceJob:
    """A job in the queue; `table` is None for the whole lake. It waits until it has a `holder`."""

    work: str
    table: str | None
    reason: str
    queued_at: datetime
    holder: str | None
    started_at: datetime | None
    ended_at: datetime | None
    size_bytes: int | None
    outcome: str | None

    @property
    def state(self) -> str:
        """WAITING, RUNNING, DONE or FAILED."""
        if self.ended_at is None:
            return "WAITING" if self.holder is None else "RUNNING"
        return "FAILED" if (self.outcome or "").startswith(_FAILED) else "DONE"


# --- the kinds of work --------------------------------------------------------------------


def _optimize_due(table: Table, settings: Settings) -> str | None:
    found = files_to_optimize(table)
    return f"{found} files" if found >= settings.maintenance_optimize_files else None


def _optimize(table: Table) -> Done:
    told = table.optimize().metrics
    return Done(
        f"{told['numRemovedFiles']} files became {told['numAddedFiles']}", told["numAddedBytes"]
    )


def _vacuum_due(table: Table, settings: Settings) -> str | None:
    found = table.vacuum(find_orphans=False).count
    return f"{found} files to delete" if found >= settings.maintenance_vacuum_files else None


def _vacuum(table: Table) -> Done:
    report = table.vacuum(dry_run=False)
    return Done(f"{report.count} files deleted", report.bytes)


def _expire_due(table: Table, settings: Settings) -> str | None:
    found = table.expire().versions
    return f"{found} versions" if found >= settings.maintenance_expire_versions else None


def _expire(table: Table) -> Done:
    report = table.expire(dry_run=False)
    return Done(f"{report.versions} versions expired")


OPTIMIZE: Final = TableWork("OPTIMIZE", _optimize_due, _optimize)
VACUUM: Final = TableWork("VACUUM", _vacuum_due, _vacuum)
EXPIRE: Final = TableWork("EXPIRE", _expire_due, _expire)
ANALYZE: Final = "ANALYZE"
# In this order: rows of files that vacuum deleted can expire.
KINDS: list[TableWork] = [OPTIMIZE, VACUUM, EXPIRE]


# --- the queue ----------------------------------------------------------------------------


class LakeMaintenance:
    """Upkeep of a lake: `lake.maintenance`."""

    def __init__(self, lake: Lake, kinds: Sequence[TableWork] | None = None) -> None:
        self._lake = lake
        self._kinds = KINDS if kinds is None else kinds

    def queue(self) -> list[MaintenanceJob]:
        """The jobs that wait, are under way, or were done in the last thirty days."""
        return [_job(record) for record in self._lake.store.jobs()]

    def run(self, stopped: threading.Event | None = None) -> list[MaintenanceJob]:
        """Queue what is due and do what waits; returns what this call did.

        Stops when `maintenance.bytes_per_hour` is used up, or when `stopped` is set; the rest is
        left to the next call.
        """
        store, done = self._lake.store, []
        self._fill()
        while store.job_bytes(seconds=_HOUR) < self._settings.maintenance_bytes_per_hour:
            is_over = stopped is not None and stopped.is_set()
            job = None if is_over else store.claim_job(self._holder, seconds=_CLAIM)
            if job is None:
                break
            self._do(job)
            done.append(job.job_id)
        store.forget_jobs(seconds=_REMEMBERED)
        return [_job(record) for record in store.jobs() if record.job_id in done]

    @property
    def _settings(self) -> Settings:
        return self._lake.engine.settings

    @property
    def _holder(self) -> str:
        return self._lake.engine.holder

    def _fill(self) -> None:
        """Queue what is due."""
        lake = self._lake
        for table in lake.tables():
            if table.read_only is not None:
                continue
            for kind in self._kinds:
                try:
                    reason = kind.due(table, self._settings)
                except Exception as error:
                    logger.warning(
                        "%s: %s can't be planned: %s",
                        table.name,
                        kind.name,
                        error,
                        exc_info=_unexpected(error),
                    )
                    continue
                if reason is not None:
                    self._queue(table.table_id, kind.name, reason)
        if self._is_analysis_due():
            self._queue(WHOLE_LAKE, ANALYZE, "a day has passed")

    def _queue(self, table_id: int, work: str, reason: str) -> None:
        self._lake.store.queue_job(str(uuid.uuid4()), table_id, work=work, reason=reason)

    def _is_analysis_due(self) -> bool:
        store = self._lake.store
        since = store.clock_ms() - 24 * _HOUR * 1000
        return not any(job.work == ANALYZE and job.queued_at > since for job in store.jobs())

    def _do(self, job: JobRecord) -> None:
        try:
            done = self._done(job)
        except Exception as error:
            # The next call that finds it due tries again.
            logger.warning(
                "%s of %s failed: %s", job.work, job.table, error, exc_info=_unexpected(error)
            )
            done = Done(f"{_FAILED}{_problem(error)}"[:2000])
        facts = {"table": job.table, "work": job.work, "outcome": done.outcome}
        logger.info("upkeep", extra=facts)
        self._lake.store.end_job(
            job.job_id, self._holder, size_bytes=done.size_bytes, outcome=done.outcome
        )

    def _done(self, job: JobRecord) -> Done:
        if job.work == ANALYZE:
            was_needed = self._lake.store.analyze()
            return Done("analyzed" if was_needed else "not needed by this database")
        if job.table is None:
            raise TableNotFoundError.named(f"of id {job.table_id}")
        kind = next((kind for kind in self._kinds if kind.name == job.work), None)
        if kind is None:
            return Done(f"{_FAILED}this release does not know {job.work}")
        return kind.do(self._lake.table(job.table))


@contextmanager
def upkeep_beside(lake: Lake, stopped: threading.Event) -> Iterator[None]:
    """Do upkeep in a thread while the block runs, if `maintenance.auto` is on."""
    settings = lake.engine.settings
    if settings.maintenance_auto != "on":
        yield
        return

    def keep_up() -> None:
        give_way()
        while not stopped.is_set():
            try:
                lake.maintenance.run(stopped)
            except Exception as error:
                logger.warning(
                    "upkeep continues after an error: %s",
                    error,
                    extra={"error": error},
                    exc_info=_unexpected(error),
                )
            stopped.wait(settings.maintenance_interval)

    thread = threading.Thread(target=keep_up, name="deltasql-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        # Wherever the job under way is cut off, the next worker resumes it.
        thread.join(_PATIENCE)


def give_way() -> None:
    """Let whoever else wants this machine's processors go before the thread that calls this."""
    if sys.platform == "linux":  # elsewhere it would be the whole process, and the mirror with it
        which = (os.PRIO_PROCESS, threading.get_native_id())
        with suppress(OSError):
            os.setpriority(*which, max(_NICE, os.getpriority(*which)))


def _problem(error: Exception) -> str:
    return error.problem if isinstance(error, DeltaSqlError) else f"{type(error).__name__}: {error}"


def _unexpected(error: Exception) -> Exception | None:
    """The error if its place in the code has to be told, too."""
    return None if isinstance(error, DeltaSqlError) else error


def _job(record: JobRecord) -> MaintenanceJob:
    def moment(value: int | None) -> datetime | None:
        return None if value is None else from_ms(value)

    return MaintenanceJob(
        work=record.work,
        table=record.table,
        reason=record.reason,
        queued_at=from_ms(record.queued_at),
        holder=record.holder,
        started_at=moment(record.started_at),
        ended_at=moment(record.ended_at),
        size_bytes=record.size_bytes,
        outcome=record.outcome,
    )
