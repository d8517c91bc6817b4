"""The worker: finds what the mirror lacks, and catches tables up in parallel."""

from __future__ import annotations

import logging
import math
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from deltasql.errors import DeltaSqlError
from deltasql.log.retention import DAY_MS, OFF
from deltasql.mirror.engine import MirrorEngine
from deltasql.mirror.publishing.lag import is_due
from deltasql.mirror.publishing.lag_report import LagReport
from deltasql.mirror.publishing.latency import LatencyWatch
from deltasql.mirror.targets import Target, target_of
from deltasql.mirror.validation.validate import ValidationReport
from deltasql.mirror.validation.watching import DriftWatch
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Backlog, Work
from deltasql.telemetry import logs

logger = logging.getLogger("deltasql.mirror")

# How often to look for temporary files, which lists the mirror of each table written since.
_SWEEP: Final = 24 * 3600.0
# Leftovers in mirrors that were last written longer ago have been swept before.
_LATELY_MS: Final = 7 * DAY_MS
# How many tables' mirrors are swept at a time.
_SWEPT_AT_ONCE: Final = 50
# Work under way: a table and the kind of work, so that commit files wait for no checkpoint.
_Job: TypeAlias = "tuple[int, Work]"
_Busy: TypeAlias = "dict[Future[Any], _Job | str]"
# How long the loop may ignore `stop` while work is under way.
_LOOK_AT_STOP: Final = 1.0


class Worker:
    """Works until it is stopped; several may run at once, on any machine."""

    def __init__(
        self,
        engine: MirrorEngine,
        log: LogStore,
        validate: Callable[[Callable[[], bool]], Sequence[ValidationReport]] = lambda _: (),
        watch: DriftWatch | None = None,
    ) -> None:
        """`validate` compares all mirrors with SQL, unless it is told to stop meanwhile."""
        self._engine = engine
        self._log = log
        self._settings = engine.settings
        self._validate = validate
        self._watch = watch
        self._report = LagReport(engine)
        self._latency = LatencyWatch(log)
        self._stopped = threading.Event()
        self._to_sweep: list[Target] = []
        # When the last sweep began, by our clock and by the database's.
        self._swept, self._swept_ms = -math.inf, -1
        self._validated = self._sampled = 0.0
        # The tables that drifted, by the check that found them.
        self._drifted: dict[str, set[str]] = {}

    @property
    def is_sweeping(self) -> bool:
        """Whether there are still tables to look through for temporary files."""
        return self._swept == -math.inf or bool(self._to_sweep)

    def drain(self) -> int:
        """Mirror everything that is pending, with checkpoints; returns how many versions.

        A table that fails is left to the next run, with its error in its status.
        """
        done = 0
        given_up: set[int] = set()
        self._log.fill_all_statuses(only_new=False)
        self._sweep(self._tables_to_sweep(self._log.clock_ms() - _LATELY_MS))
        while True:
            todo = [
                item
                for item in self._log.open_backlog()
                if self._is_mirrored(item) and item.table_id not in given_up
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
        """Work until SIGTERM, SIGINT or `stop`; stops at the end of a version.

        The cost of a round depends on the work to do, not on the number of tables.
        """
        stopped = self._stopped = stop or threading.Event()
        with _stopping_on_signals(stopped), self._pool() as pool:
            busy: _Busy = {}
            reconciled = -math.inf
            self._validated = self._sampled = time.monotonic()
            while not stopped.is_set():
                is_whole = time.monotonic() - reconciled > self._settings.mirror_reconcile_interval
                if is_whole:
                    self._quietly(partial(self._reconcile, is_first=reconciled == -math.inf))
                    reconciled = time.monotonic()
                self._quietly(partial(self._begin_rare, pool, busy))
                self._quietly(partial(self._begin, pool, busy, is_whole=is_whole))
                poll = self._settings.mirror_poll_interval
                if busy:
                    wait(busy, timeout=min(poll, _LOOK_AT_STOP), return_when=FIRST_COMPLETED)
                else:
                    self._quietly(partial(self._log.wait_for_work, poll, stopped))
                for future in [item for item in busy if item.done()]:
                    del busy[future]

    def _reconcile(self, *, is_first: bool) -> None:
        """Find versions without a status: first in every history, then in what is new."""
        self._log.fill_all_statuses(only_new=not is_first)

    def _begin_rare(self, pool: ThreadPoolExecutor, busy: _Busy) -> None:
        """Start to sweep, some tables at a time, and to validate, if it is time."""
        now = time.monotonic()
        if now - self._swept > _SWEEP:
            self._swept = now
            since, self._swept_ms = self._swept_ms, self._log.clock_ms()
            self._to_sweep = self._tables_to_sweep(max(-1, since - _LATELY_MS))
        if self._to_sweep and "sweep" not in busy.values():
            some = self._to_sweep[:_SWEPT_AT_ONCE]
            del self._to_sweep[:_SWEPT_AT_ONCE]
            busy[pool.submit(self._sweep, some)] = "sweep"
        interval = self._settings.mirror_validate_interval
        if interval is not None and now - self._validated > interval:
            if "validate" not in busy.values():
                busy[pool.submit(self._find_drift)] = "validate"
            self._validated = now
        interval = self._settings.mirror_sample_interval
        if self._watch is not None and interval is not None and now - self._sampled > interval:
            if "sample" not in busy.values():
                busy[pool.submit(self._sample, self._watch)] = "sample"
            self._sampled = now

    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            self._settings.mirror_parallelism, thread_name_prefix="deltasql-mirror-worker"
        )

    def _sweep(self, targets: Sequence[Target]) -> None:
        """Remove the temporary files of publish runs that died a day ago or earlier."""
        for target in targets:
            if self._stopped.is_set():
                return
            try:
                self._engine.remove_stale_temps(target)
            except DeltaSqlError as error:
                logger.warning("%s: temporary files stay: %s", target.name, error)

    def _tables_to_sweep(self, since: int) -> list[Target]:
        """The tables committed to since the last sweep: others can have nothing new."""
        written = {table_id for table_id, _, _ in self._log.mirror_heads(since=since)}
        return [
            Target(record.table_id, record.name, record.location)
            for record in self._log.tables()
            if record.table_id in written and not record.mirror_paused
        ]

    def _is_mirrored(self, item: Backlog) -> bool:
        """Whether the table is to be mirrored at all, now."""
        return not item.is_paused and self._engine.mode_of(target_of(item)) != OFF

    def _begin(self, pool: ThreadPoolExecutor, busy: _Busy, *, is_whole: bool) -> None:
        found = self._log.open_backlog()
        now = self._log.clock_ms() if found else 0
        for item in found:
            for work in self._due(item, now):
                if (item.table_id, work) not in busy.values():
                    busy[pool.submit(self._told_work, item, work)] = (item.table_id, work)
        # Last: it looks at every table's head, and no commit file waits for that.
        self._tell(found, now, is_whole=is_whole)

    def observe(self, now: int) -> list[Backlog]:
        """The tables whose mirror lacks something, reported to the metrics and the log."""
        found = self._log.open_backlog()
        self._tell(found, now, is_whole=True)
        return found

    def _tell(self, found: Sequence[Backlog], now: int, *, is_whole: bool) -> None:
        self._latency.observe(found, is_whole=is_whole)
        if is_whole:
            self._report.know([record.name for record in self._log.tables()])
        self._report.observe(found, now)

    def _due(self, item: Backlog, now: int) -> Iterator[Work]:
        if not self._is_mirrored(item):
            return
        kinds = (
            (
                Work.COMMITS,
                item.versions + item.gap_versions,
                item.retry_count,
                item.last_attempt_at,
            ),
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
        """A wait longer by up to a quarter, so that not all tables and workers come at once.

        It is the same on every call: a new random draw at each look would favour the shortest.
        """
        draw = random.Random(f"{self._engine.holder}/{item.table_id}/{retries}")
        return self._settings.mirror_backoff(retries) * 1000 * draw.uniform(1, 1.25)

    def _told_work(self, item: Backlog, *works: Work) -> int | None:
        """`_work` for each kind, with the table's name in everything that is logged."""
        with logs.bound(table=item.name, table_id=item.table_id):
            # A checkpoint that fails holds up no commit file, and vice versa.
            done = [self._work(item, work) for work in works or Work]
        return None if None in done else sum(filter(None, done))

    def _work(self, item: Backlog, work: Work) -> int | None:
        """Catch a table up; None if that is impossible just now."""
        target = target_of(item)
        is_json = work is Work.COMMITS
        try:
            is_stopped = self._stopped.is_set
            if is_json:
                done = self._engine.catch_up(target, is_stopped)
            else:
                done = self._engine.write_checkpoints(target, is_stopped=is_stopped)
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
        """Validate every table, and alert on those that drifted until they no longer do."""
        try:
            reports = self._validate(self._stopped.is_set)
        except DeltaSqlError as error:
            logger.warning("the mirror could not be validated: %s", error, extra={"error": error})
            return
        if self._stopped.is_set():
            return  # it may have looked at a part
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
        self._tell_drift("validate", {report.table for report in reports if not report.ok})

    def _sample(self, watch: DriftWatch) -> None:
        """Check the newest commit files; those that are lost are pending from now on."""
        try:
            found = watch.look(self._stopped.is_set)
        except DeltaSqlError as error:
            logger.warning("the mirror could not be sampled: %s", error, extra={"error": error})
            return
        self._tell_drift("sample", found)

    def _tell_drift(self, finder: str, names: set[str]) -> None:
        self._drifted[finder] = names
        self._report.drifted(set().union(*self._drifted.values()))

    def _quietly(self, work: Any) -> None:
        """Do something that the next round repeats if it fails."""
        try:
            work()
        except DeltaSqlError as error:
            logger.warning("the worker continues after an error: %s", error, extra={"error": error})
            time.sleep(0.2)


@contextmanager
def _stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the event; outside the main thread no signal handler can be set."""
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
