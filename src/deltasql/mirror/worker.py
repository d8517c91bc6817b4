"""The worker: finds what the mirror lacks, and catches it up, table by table in parallel."""

from __future__ import annotations

import json
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from deltasql.errors import DeltaSqlError
from deltasql.log.retention import MIRROR_MODE, OFF, mirror_mode
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.publishing.lag import LagWatch, is_due
from deltasql.mirror.publishing.landing import LandingWatch
from deltasql.mirror.validation.validate import ValidationReport
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Backlog, Work
from deltasql.telemetry import logs, metrics

logger = logging.getLogger("deltasql.mirror")

# How often SQL is asked for work when nobody sends word.
_POLL: Final = 1.0
# How often temporary files are looked for, which lists the mirror of every table.
_SWEEP: Final = 24 * 3600.0
# What is under way: a table and the kind of work, so that commit files wait for no checkpoint.
_Job: TypeAlias = "tuple[int, Work]"


class Worker:
    """Works until it is stopped; several may run at once, on any machines."""

    def __init__(
        self,
        engine: MirrorEngine,
        log: LogStore,
        validate: Callable[[], Sequence[ValidationReport]] = tuple,
    ) -> None:
        self._engine = engine
        self._log = log
        self._settings = engine.settings
        self._validate = validate
        self._lag = LagWatch()
        self._alerted: set[int] = set()
        self._drifted: set[str] = set()
        self._landing = LandingWatch(log)
        self._named: set[str] = set()

    def drain(self) -> int:
        """Mirror all that is pending, checkpoints too; returns how many versions.

        A table that fails is left to the next run, with its error in its status.
        """
        done = 0
        given_up: set[int] = set()
        self._fill()
        self._sweep()
        while True:
            todo = [
                item
                for item in self._log.backlog()
                if (item.versions or item.checkpoints)
                and self._is_mirrored(item)
                and item.table_id not in given_up
            ]
            if not todo:
                return done
            with self._pool() as pool:
                for item, result in zip(todo, pool.map(self._told_work, todo), strict=True):
                    if result is None:
                        given_up.add(item.table_id)
                    else:
                        done += result

    def run(self, stop: threading.Event | None = None) -> None:
        """Work until SIGTERM, SIGINT or `stop`; publish runs under way are finished first."""
        stopped = stop or threading.Event()
        with _stopping_on_signals(stopped), self._pool() as pool:
            busy: dict[Future[int | None], _Job | None] = {}
            filled, swept, validated = 0.0, -_SWEEP, time.monotonic()
            while not stopped.is_set():
                if time.monotonic() - swept > _SWEEP:
                    self._quietly(self._sweep)
                    swept = time.monotonic()
                if time.monotonic() - filled > self._settings.mirror_reconcile_interval:
                    self._quietly(self._fill)
                    filled = time.monotonic()
                interval = self._settings.mirror_validate_interval
                if interval is not None and time.monotonic() - validated > interval:
                    if None not in busy.values():
                        busy[pool.submit(self._find_drift)] = None
                    validated = time.monotonic()
                self._quietly(lambda: self._begin(pool, busy))
                if busy:
                    wait(busy, timeout=_POLL, return_when=FIRST_COMPLETED)
                else:
                    self._quietly(lambda: self._log.wait_for_work(_POLL, stopped))
                for future in [item for item in busy if item.done()]:
                    del busy[future]

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            self._settings.mirror_parallelism, thread_name_prefix="deltasql-mirror-worker"
        )

    def _fill(self) -> None:
        for item in self._log.backlog():
            self._log.fill_status(item.table_id)

    def _sweep(self) -> None:
        """Remove the temporary files of publish runs that died a day ago or earlier."""
        for item in self._log.backlog():
            if self._is_mirrored(item):
                try:
                    self._engine.remove_stale_temps(_target(item))
                except DeltaSqlError as error:
                    logger.warning("%s: temporary files stay: %s", item.name, error)

    def _is_mirrored(self, item: Backlog) -> bool:
        """Whether the table is to be mirrored at all, now."""
        return not item.is_paused and self._engine.mode_of(_target(item)) != OFF

    def _begin(self, pool: ThreadPoolExecutor, busy: dict[Future[int | None], _Job | None]) -> None:
        now = self._log.clock_ms()
        for item in self.observe(now):
            for work in self._due(item, now):
                if (item.table_id, work) not in busy.values():
                    busy[pool.submit(self._told_work, item, work)] = (item.table_id, work)

    def _due(self, item: Backlog, now: int) -> Iterator[Work]:
        if not self._is_mirrored(item):
            return
        kinds = (
            (Work.COMMITS, item.versions, item.retry_count, item.last_attempt_at),
            (
                Work.CHECKPOINTS,
                item.checkpoints,
                item.checkpoint_retry_count,
                item.checkpoint_attempt_at,
            ),
        )
        for work, count, retries, at in kinds:
            if count and is_due(at, self._wait_ms(item, retries), now):
                yield work

    def _wait_ms(self, item: Backlog, retries: int) -> float:
        """Longer by up to a quarter, so that not all tables and workers come at once.

        The same however often it is asked: a new draw at each look would favour the shortest.
        """
        draw = random.Random(f"{self._engine.holder}/{item.table_id}/{retries}")
        return self._settings.mirror_backoff(retries) * 1000 * draw.uniform(1, 1.25)

    def _told_work(self, item: Backlog, *works: Work) -> int | None:
        """`_work` of all kinds, with the table's name in all that is logged meanwhile."""
        with logs.bound(table=item.name):
            # A checkpoint that fails holds up no commit, nor the other way round.
            done = [self._work(item, work) for work in works or Work]
        return None if None in done else sum(filter(None, done))

    def _work(self, item: Backlog, work: Work) -> int | None:
        """Catch a table up; None when it can't be just now."""
        target = _target(item)
        is_json = work is Work.COMMITS
        try:
            catch_up = self._engine.catch_up if is_json else self._engine.write_checkpoints
            done = catch_up(target)
        except DeltaSqlError as error:
            version = item.first_version if is_json else item.first_checkpoint
            retries = item.retry_count if is_json else item.checkpoint_retry_count
            facts = {"version": version, "attempt": retries + 1, "error": error}
            logger.warning("%s: the mirror is behind: %s", item.name, error, extra=facts)
            return None
        if done is None:
            time.sleep(0.05)
        return done or 0

    def _find_drift(self) -> None:
        """Validate every table, and alert of those that drifted until they no longer do."""
        try:
            reports = self._validate()
        except DeltaSqlError as error:
            logger.warning("the mirror could not be validated: %s", error, extra={"error": error})
            return
        for report in reports:
            if not report.ok:
                logger.error(
                    "%s: the mirror drifted from SQL at version %s: run mirror.validate()",
                    report.table,
                    report.first_drift if report.first_drift is not None else report.error,
                    extra={
                        "table": report.table,
                        "version": report.first_drift,
                        "error": report.error,
                    },
                )
        self._drifted = {report.table for report in reports if not report.ok}

    def _quietly(self, work: Any) -> None:
        """Do something that the next round does again if it fails."""
        try:
            work()
        except DeltaSqlError as error:
            logger.warning("the worker goes on after: %s", error, extra={"error": error})
            time.sleep(0.2)

    # --- lag ----------------------------------------------------------------------------

    def observe(self, now: int) -> list[Backlog]:
        """The backlog, told to the metrics and, when it is too long, to the log."""
        found = self._log.backlog()
        self._landing.observe(found)
        self._forget_gone(found)
        metrics.MIRROR_WORKER_ROUND.set_to_current_time()
        metrics.MIRROR_BACKLOG.set(
            sum(i.versions for i in found if self._engine.mode_of(_target(i)) != OFF)
        )
        for item in found:
            # A table that is not mirrored is not late.
            is_off = self._engine.mode_of(_target(item)) == OFF
            lag = 0.0 if is_off else self._lag.seconds(item, now)
            metrics.MIRROR_LAG_SECONDS.labels(item.name).set(lag)
            metrics.MIRROR_LAG_VERSIONS.labels(item.name).set(0 if is_off else item.versions)
            is_late = (
                lag > self._settings.mirror_lag_alert
                or item.versions > self._settings.mirror_lag_alert_versions
            )
            is_bad = not is_off and (item.is_failed or is_late)
            metrics.MIRROR_LATE.labels(item.name).set(not is_off and is_late)
            metrics.MIRROR_FAILED.labels(item.name).set(not is_off and item.is_failed)
            metrics.MIRROR_DRIFT.labels(item.name).set(item.name in self._drifted)
            metrics.MIRROR_ALERT.labels(item.name).set(is_bad or item.name in self._drifted)
            if is_bad and item.table_id not in self._alerted:
                facts = {"version": item.first_version, "error": item.error_message}
                logger.error(
                    "%s: the mirror is %d versions and %.0f s behind: %s",
                    item.name,
                    item.versions,
                    lag,
                    item.error_message or "no error yet",
                    extra={"table": item.name, "attempt": item.retry_count, **facts},
                )
            (self._alerted.add if is_bad else self._alerted.discard)(item.table_id)
        return found

    def _forget_gone(self, found: Sequence[Backlog]) -> None:
        """Tables that were dropped or renamed: their alerts would never end."""
        names = {item.name for item in found}
        for name in self._named - names:
            metrics.forget_table(name)
        self._named = names


def _target(item: Backlog) -> Target:
    is_set = MIRROR_MODE in item.properties
    mode = mirror_mode(json.loads(item.properties)) if is_set else None
    return Target(item.table_id, item.name, item.location, mode)


@contextmanager
def _stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the event; elsewhere than in the main thread, nobody asks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    for name in before:
        signal.signal(name, lambda *_: stop.set())
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
