"""How a table's versions get to the object store while its lease is held."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.log.checkpoint_rule import Growth
from deltasql.mirror import leases
from deltasql.mirror.checkpoints.checkpointing import CheckpointStoppedError
from deltasql.mirror.leases import LeaseLostError, kept_alive
from deltasql.mirror.publishing.beside import Beside
from deltasql.mirror.publishing.bridging import Bridge
from deltasql.mirror.publishing.commit_files import (
    facts_of,
    must_follow,
    publish_commits,
    publish_side_by_side,
    sound_start,
)
from deltasql.mirror.publishing.steps import Step, Track, checksums, runs, upto_due
from deltasql.mirror.released import must_be_as_released
from deltasql.objectstore import ObjectStore
from deltasql.settings.keys import DEFAULTS
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Lease, MirrorRecord, PendingVersion, Totals
from deltasql.telemetry import logs

logger = logging.getLogger("deltasql.mirror")

BATCH = 64
# For quick stores: each batch ends with a wait, and nothing is written between batches.
_LARGE_BATCH: Final = 4 * BATCH
_QUICK: Final = 1.0
# How many seconds a run may go on after it is told to stop, and how many versions it starts with.
_MOMENT: Final = 2.0
_FIRST_STRETCH: Final = 16
# How long, in seconds, SQL may not yet know what is visible, if nobody waits for that.
_TELL_EVERY: Final = 0.02


class PublishRun:
    """Mirrors the commit files of a table, in order.

    It can run repeatedly while the lease is held: it remembers the newest mirrored version, so that
    the next run need not ask.
    """

    def __init__(
        self,
        log: LogStore,
        objects: ObjectStore,
        lease: Lease,
        *,
        default_interval: int,
        checkpoint_rate: int = DEFAULTS.mirror_checkpoint_rate,
        max_attempts: int,
        backoff: Callable[[int], float] | None = None,
        own: int = -1,
        beside: Beside | None = None,
    ) -> None:
        """`own` is the newest version that this process published."""
        self.lease = lease
        # Whether the last run left the pending versions for later.
        self.is_waiting = False
        # How many versions were recorded in SQL, even if the run fails.
        self.told = 0
        self._pace = _FIRST_STRETCH
        # Whether a published version needs a checkpoint.
        self.wants_checkpoint = False
        self._log = log
        self._objects = objects
        self._max_attempts = max_attempts
        self._backoff = backoff
        self._own = own
        self._beside = beside or Beside()
        self._late = self._beside.late_checksums
        self._track = Track(
            log,
            lease,
            default_interval=default_interval,
            checkpoint_rate=checkpoint_rate,
            totals=lease.totals,
            growth=lease.growth,
        )
        self._bridge = Bridge(
            log, objects, lease, longest=self._beside.bridged_after, max_attempts=max_attempts
        )
        # Whether versions below the newest are missing, and how far they have been filled in.
        self._has_gap = False
        self._below: Track | None = None
        self._filled, self._fill_pace = -1, BATCH
        # The newest version that it made visible, and the steps that SQL does not know yet.
        self.published = -1
        self._untold: list[Step] = []
        self._told_at = time.monotonic()

    @property
    def is_finishing(self) -> bool:
        """Whether checksum files are still being written, which no commit waits for."""
        return self._late is not None and self._late.is_busy

    def run(
        self,
        *,
        lazily: bool = False,
        fills: bool = True,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> int:
        """Mirror everything that is pending, until stopped; returns how many versions.

        A failure is recorded with the version that it stopped at, and raised. A caller that runs it
        `lazily` calls `tell` at the end, so that SQL hears of several runs at once. What readers of
        the newest version need comes first; `fill` may be left to the caller.
        """
        done = self._newest(is_stopped, lazily=lazily)
        while fills and not is_stopped() and (filled := self.fill()):
            done += filled + self._newest(is_stopped, lazily=lazily)
        return done

    def _newest(self, is_stopped: Callable[[], bool], *, lazily: bool) -> int:
        done, most = 0, BATCH
        self.is_waiting = False
        while pending := self._pending(most):
            started = time.monotonic()
            if self._must_wait(pending[0], is_first=not done):
                self.is_waiting = True
                break
            is_long = len(pending) == most
            if not done and is_long and self._finish_bridge(pending[0]):
                done += 1
                continue
            for part in self._stretches(pending):
                begun = time.monotonic()
                self._mirror(part)
                self._bridge.measure(len(part), time.monotonic() - begun)
                done += len(part)
                if is_stopped():
                    self.tell()
                    return done
                if is_long and self._bridged(is_stopped):
                    done += 1
                    break
                if time.monotonic() - self._told_at > leases.LEASE_SECONDS / 3:
                    self.tell()
            if not lazily or self._is_overdue():
                self.tell()
            if not is_long:
                break
            most = _LARGE_BATCH if time.monotonic() - started < _QUICK else BATCH
        return done

    def _pending(self, most: int) -> list[PendingVersion]:
        """The first versions to be mirrored in order: of all, or of those after a bridge."""
        table_id, newest = self.lease.table_id, self._track.totals
        pending = self._log.pending(table_id, most=most, after=self.published)
        if self.published < 0 and newest is not None and pending:
            if pending[0].version > newest.version:
                return pending
            above = self._log.pending(table_id, most=most, after=newest.version - 1)
            if above and above[0].version == newest.version:
                return pending  # the bridge was forgotten, and with it what is below
            self._has_gap = True
            return above
        return pending

    def _stretches(self, pending: Sequence[PendingVersion]) -> Iterator[Sequence[PendingVersion]]:
        """Consecutive versions, as many at a time as the store takes in a moment: the run can be
        stopped between two stretches.
        """
        for part in runs(pending):
            at = 0
            while at < len(part):
                stretch = part[at : at + self._pace]
                started = time.monotonic()
                yield stretch
                at += len(stretch)
                took = max(1e-4, time.monotonic() - started)
                self._pace = min(_LARGE_BATCH, max(1, round(len(stretch) * _MOMENT / took)))

    def must_be_as_released(self) -> None:
        """Raise and record it if others already write a released table that is behind."""
        pending = self._log.pending(self.lease.table_id, most=BATCH)
        if not pending:
            return
        versions = [pending[0].version - 1, *(item.version for item in pending)]
        try:
            must_be_as_released(self._log, self._objects, self.lease.table_id, versions)
        except MirrorConflictError as error:
            self._failed(pending[0], error)
            raise

    def run_one(self, version: int) -> int:
        """Mirror one version, if it is pending and the one before it is there; returns how many."""
        pending = self._log.pending(self.lease.table_id, most=1, after=version - 1)
        if not pending or pending[0].version != version:
            return 0
        self._mirror(pending)
        self.tell()
        return 1

    def _must_wait(self, item: PendingVersion, *, is_first: bool) -> bool:
        """Whether the table is paused, by now, or the last attempt failed so recently that the next
        should wait. A run that somebody waits for does not wait.
        """
        if item.is_paused:
            return self._beside.heeds_pauses
        if not is_first or self._backoff is None or item.age_ms is None:
            return False
        # A negative age is an attempt in the future: the database's clock has gone back since.
        return 0 <= item.age_ms < self._backoff(item.retry_count) * 1000

    def _mirror(self, part: Sequence[PendingVersion]) -> None:
        try:
            self._must_be_in_order(part[0], self.published)
            sound, problem = sound_start(part)
            steps = self._track.steps(sound) if sound else []
            beside = checksums(steps)
        except DeltaSqlError as error:
            self.tell()
            self._failed(part[0], error)
            raise
        published = publish_commits(self._objects, sound, beside if self._late is None else ())
        self._keep(steps[: published.count])
        if self._late is not None:
            self._late.write(beside[: published.count])
        failure = published.failure or problem
        if failure is not None:
            self.tell()
            self._failed(part[published.count], failure)
            raise failure

    def _must_be_in_order(self, item: PendingVersion, known: int) -> None:
        """Raise unless the version before is there; `known` is, because this run has written it."""
        before = item.version - 1
        if before != known and not self._follows_checkpoint(before, item.earliest):
            self._must_follow(item.version, item.earliest)

    def _must_follow(self, version: int, earliest: int) -> None:
        """What another process wrote last may differ from what SQL expects."""
        if version <= earliest:
            return
        if version - 1 == self._own and self._beside.has_seen(version - 1):
            return
        before: Sequence[MirrorRecord] = ()
        if version - 1 != self._own:
            table_id = self.lease.table_id
            before = self._log.mirror_status(table_id, first=version - 1, last=version - 1)
        must_follow(self._objects, version, before[0].digest if before else None)

    def _follows_checkpoint(self, before: int, earliest: int) -> bool:
        """Whether the version before is the oldest one and was adopted without a commit file."""
        if before != earliest:
            return False
        found = self._log.commits(self.lease.table_id, after=before - 1, upto=before)
        return any(not record.body for record in found)

    def _keep(self, steps: Sequence[Step]) -> None:
        if steps:
            self._untold += steps
            self.wants_checkpoint |= any(step.is_due for step in steps)
            self._track.keep(steps)
            self.published = steps[-1].totals.version
            self._beside.tell_published(self.published)

    def _is_overdue(self) -> bool:
        return len(self._untold) >= BATCH or time.monotonic() - self._told_at > _TELL_EVERY

    def tell(self) -> None:
        """Record in SQL the commit files that are visible, with their checksums."""
        steps, self._untold = self._untold, []
        self._told_at = time.monotonic()
        self._record(steps, None, None)

    def _record(self, steps: Sequence[Step], newest: Totals | None, growth: Growth | None) -> None:
        """Record some of them; `newest` and `growth` are the table's, if not those of the last
        step.
        """
        for run in upto_due(steps):
            last = run[-1]
            recorded = self._log.record_mirrored(
                self.lease,
                newest or last.totals,
                first=run[0].totals.version,
                last=last.totals.version,
                interval=last.interval,
                seconds=leases.LEASE_SECONDS,
                due=last.totals.version if last.is_due else None,
                growth=growth or last.growth,
            )
            if not recorded:
                raise LeaseLostError
            self.told += len(run)

    # --- a backlog that takes too long ------------------------------------------------------

    def _bridged(self, is_stopped: Callable[[], bool]) -> bool:
        """Bridge the backlog, if it takes too long."""
        version = self._bridge.wanted(self.published)
        if version is None:
            return False
        self.tell()
        return self._bridge_to(version, self.published, is_stopped)

    def _finish_bridge(self, first: PendingVersion) -> bool:
        """Finish the bridge of a process that died before SQL knew of it."""
        try:
            version = self._bridge.begun(first.version - 1)
            return version is not None and self._bridge_to(version, first.version - 1, None)
        except DeltaSqlError as error:
            self._failed(first, error)
            raise

    def _bridge_to(
        self, version: int, mirrored: int, is_stopped: Callable[[], bool] | None
    ) -> bool:
        """Make a version visible by its checkpoint, whatever is missing below it; without
        `is_stopped` the checkpoint already exists. A failure is logged, a conflict raised.
        """
        found = self._log.pending(self.lease.table_id, most=1, after=version - 1)
        sound, problem = sound_start([item for item in found if item.version == version])
        if problem is not None or not sound or version <= mirrored + 1:
            return False
        with kept_alive(self._log, self.lease) as lost:
            try:
                self._bridge.must_be_free(mirrored)
                step = self._track.steps(sound)[0]
                finish = self._bridge.write(version, is_stopped)
            except CheckpointStoppedError:
                return False
            except MirrorConflictError:
                raise
            except DeltaSqlError as error:
                self._bridge.give_up()
                logger.warning("the backlog continues in order: %s", error, extra={"error": error})
                return False
            if lost.is_set():
                raise LeaseLostError
            # From here on, the next run finishes it.
            published = publish_commits(self._objects, sound, checksums([step]))
            if published.failure is not None:
                self._failed(sound[0], published.failure)
                raise published.failure
            finish()
        self._below, self._has_gap = self._below or self._track.branch(), True
        self._keep([replace(step, is_due=True, growth=Growth(version, 0))])
        self.tell()
        if not self._log.record_checkpoint(self.lease, version):
            raise LeaseLostError
        logger.info("bridged to version %s", version, extra={"version": version})
        return True

    def fill(self) -> int:
        """Write some of the missing versions below the newest; returns how many."""
        newest = self._track.totals
        if not self._has_gap or newest is None or self.is_waiting:
            return 0
        self.tell()
        found = self._log.pending(self.lease.table_id, most=self._fill_pace)
        below = [item for item in found if item.version < newest.version]
        self._has_gap = bool(below)
        waits = not below or self._must_wait(below[0], is_first=False)
        return 0 if waits else self._fill(runs(below)[0])

    def _fill(self, part: Sequence[PendingVersion]) -> int:
        started = time.monotonic()
        track = self._below = self._below or self._track.anew()
        try:
            self._must_be_in_order(part[0], self._filled)
            sound, problem = sound_start(part)
            steps = track.steps(sound) if sound else []
        except DeltaSqlError as error:
            self._failed(part[0], error)
            raise
        published = publish_side_by_side(self._objects, sound, checksums(steps))
        done = steps[: published.count]
        track.keep(done)
        self._record(done, self._track.totals, self._track.growth)
        failure = published.failure or problem
        if failure is not None:
            self._failed(part[published.count], failure)
            raise failure
        self._filled = part[-1].version
        took = max(1e-4, time.monotonic() - started)
        self._fill_pace = min(_LARGE_BATCH, max(_FIRST_STRETCH, round(len(part) * _MOMENT / took)))
        return len(part)

    def _failed(self, item: PendingVersion, error: DeltaSqlError) -> None:
        # What a retry can't fix is final at once, although the hourly attempts go on.
        is_final = isinstance(error, MirrorConflictError) or (
            item.retry_count + 1 >= self._max_attempts
        )
        message = f"{error.problem}: {error.cause}"[:2000]
        facts = facts_of(self._objects, item)
        logs.attach(error, {"table_id": self.lease.table_id, **facts})
        self._log.record_failure(self.lease, item.version, message, is_final=is_final)
