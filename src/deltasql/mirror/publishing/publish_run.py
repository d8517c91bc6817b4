"""One table's way to the object store, while its lease is held."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from deltasql.delta_log.checksum import actions_in, added_by, render_checksum
from deltasql.delta_log.names import LOG, crc_name
from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.log.checkpoint_rule import Growth, grown, is_due
from deltasql.log.retention import checkpoint_interval
from deltasql.log.state import TableState
from deltasql.mirror import leases
from deltasql.mirror.leases import LeaseLostError
from deltasql.mirror.property_faults import warn_of_faults
from deltasql.mirror.publishing.commit_files import must_follow, publish_commits, sound_start
from deltasql.mirror.publishing.late_checksums import LateChecksums
from deltasql.mirror.released import must_be_as_released
from deltasql.objectstore import ObjectStore
from deltasql.settings.keys import DEFAULTS
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import (
    NO_INTERVAL,
    Lease,
    MirrorRecord,
    PendingVersion,
    Totals,
)

BATCH = 64
# Where the store is quick: between batches nothing is written, and each ends with a wait.
_LARGE_BATCH: Final = 4 * BATCH
_QUICK: Final = 1.0
# How long a run goes on that is told to stop, in seconds; and with how many versions it begins.
_MOMENT: Final = 2.0
_FIRST_STRETCH: Final = 16
# How long SQL may wait for word of what is visible, where nobody waits for that.
_TELL_EVERY: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Step:
    """A version on its way: its sums, its checksum file, whether a checkpoint is due with it, by
    the table's own interval or by what the log has grown by since the last.
    """

    totals: Totals
    checksum: bytes
    is_due: bool
    interval: int
    growth: Growth


@dataclass(frozen=True, slots=True)
class Beside:
    """What goes on beside a publish run: `has_seen` whether a version's file was seen a moment
    ago, `tell_published` hears of what is visible. Checksum files are written with the commit
    files, or by `late_checksums` after them.
    """

    has_seen: Callable[[int], bool] = lambda _: False
    tell_published: Callable[[int], None] = lambda _: None
    late_checksums: LateChecksums | None = None


class PublishRun:
    """Mirrors the commit files of a table, in order.

    It may run again and again while the lease is held: what it knows of the newest mirrored
    version spares the next run the question.
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
        # Whether the last run left what is pending to a later time.
        self.is_waiting = False
        # How many versions SQL was told of, also when it fails.
        self.told = 0
        self._pace = _FIRST_STRETCH
        # Whether a version was published that wants a checkpoint.
        self.wants_checkpoint = False
        self._log = log
        self._objects = objects
        self._default_interval = default_interval
        self._checkpoint_rate = checkpoint_rate
        self._growth = lease.growth
        self._max_attempts = max_attempts
        self._backoff = backoff
        self._own = own
        self._beside = beside or Beside()
        self._late = self._beside.late_checksums
        self._totals = lease.totals
        self._state: TableState | None = None
        # The newest version that is visible, and what SQL does not know of yet.
        self._published = -1
        self._untold: list[_Step] = []
        self._told_at = time.monotonic()

    @property
    def is_finishing(self) -> bool:
        """Whether checksum files are still on their way, for which no commit waits."""
        return self._late is not None and self._late.is_busy

    def run(self, *, lazily: bool = False, is_stopped: Callable[[], bool] = lambda: False) -> int:
        """Mirror all that is pending, or until it is stopped; returns how many versions.

        A failure is recorded with the version that it stopped at, and raised. Who runs it
        `lazily` calls `tell` in the end: then SQL is told of several runs at once.
        """
        done, most = 0, BATCH
        self.is_waiting = False
        while pending := self._log.pending(self.lease.table_id, most=most, after=self._published):
            started = time.monotonic()
            if not done and self._is_too_early(pending[0]):
                self.is_waiting = True
                break
            for part in self._stretches(pending):
                self._mirror(part)
                done += len(part)
                if is_stopped():
                    self.tell()
                    return done
                if time.monotonic() - self._told_at > leases.LEASE_SECONDS / 3:
                    self.tell()
            if not lazily or self._is_overdue():
                self.tell()
            if len(pending) < most:
                break
            most = _LARGE_BATCH if time.monotonic() - started < _QUICK else BATCH
        return done

    def _stretches(self, pending: Sequence[PendingVersion]) -> Iterator[Sequence[PendingVersion]]:
        """Consecutive versions, as many at a time as the store takes in a moment: between two
        stretches it can be told to stop.
        """
        for part in _runs(pending):
            at = 0
            while at < len(part):
                stretch = part[at : at + self._pace]
                started = time.monotonic()
                yield stretch
                at += len(stretch)
                took = max(1e-4, time.monotonic() - started)
                self._pace = min(_LARGE_BATCH, max(1, round(len(stretch) * _MOMENT / took)))

    def must_be_as_released(self) -> None:
        """Raise `MirrorConflictError`, and record it, if the released table that is behind is
        others' by now.
        """
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

    def _is_too_early(self, item: PendingVersion) -> bool:
        """Whether the table is paused, or the last attempt failed so recently that the next one
        should wait. A run that somebody waits for does not ask.
        """
        if self._backoff is None:
            return False
        if item.is_paused or item.age_ms is None:
            return item.is_paused
        # An attempt in the future: the database's clock has gone back since.
        return 0 <= item.age_ms < self._backoff(item.retry_count) * 1000

    def _mirror(self, part: Sequence[PendingVersion]) -> None:
        try:
            first, earliest = part[0].version, part[0].earliest
            if first - 1 != self._published and not self._follows_checkpoint(first - 1, earliest):
                self._must_follow(first, earliest)
            sound, problem = sound_start(part)
            steps = self._steps(sound)
            checksums = [(LOG + crc_name(step.totals.version), step.checksum) for step in steps]
        except DeltaSqlError as error:
            self.tell()
            self._failed(part[0], error)
            raise
        published = publish_commits(self._objects, sound, checksums if self._late is None else ())
        self._keep(steps[: published.count])
        if self._late is not None:
            self._late.write(checksums[: published.count])
        failure = published.failure or problem
        if failure is not None:
            self.tell()
            self._failed(part[published.count], failure)
            raise failure

    def _must_follow(self, version: int, earliest: int) -> None:
        """What another process wrote last may not be what SQL thinks it is."""
        if version <= earliest:
            return
        if version - 1 == self._own and self._beside.has_seen(version - 1):
            return
        known = () if version - 1 == self._own else self._statuses(version - 1)
        must_follow(self._objects, version, known[0].digest if known else None)

    def _statuses(self, version: int) -> Sequence[MirrorRecord]:
        return self._log.mirror_status(self.lease.table_id, first=version, last=version)

    def _follows_checkpoint(self, before: int, earliest: int) -> bool:
        """Whether the version before is the oldest and was adopted without a commit file."""
        if before != earliest:
            return False
        found = self._log.commits(self.lease.table_id, after=before - 1, upto=before)
        return any(not record.body for record in found)

    def _keep(self, steps: Sequence[_Step]) -> None:
        if steps:
            self._untold += steps
            self.wants_checkpoint |= any(step.is_due for step in steps)
            self._totals = steps[-1].totals
            self._growth = steps[-1].growth
            self._published = self._totals.version
            self._beside.tell_published(self._published)

    def _is_overdue(self) -> bool:
        return len(self._untold) >= BATCH or time.monotonic() - self._told_at > _TELL_EVERY

    def tell(self) -> None:
        """Word to SQL of commit files that are visible, with their checksums."""
        steps, self._untold = self._untold, []
        self._told_at = time.monotonic()
        for run in _upto_due(steps):
            last = run[-1]
            recorded = self._log.record_mirrored(
                self.lease,
                last.totals,
                first=run[0].totals.version,
                interval=last.interval,
                seconds=leases.LEASE_SECONDS,
                due=last.totals.version if last.is_due else None,
                growth=last.growth,
            )
            if not recorded:
                raise LeaseLostError
            self.told += len(run)

    def _failed(self, item: PendingVersion, error: DeltaSqlError) -> None:
        # What another try can't mend is final at once; the hourly one goes on all the same.
        is_final = isinstance(error, MirrorConflictError) or (
            item.retry_count + 1 >= self._max_attempts
        )
        message = f"{error.problem}: {error.cause}"[:2000]
        self._log.record_failure(self.lease, item.version, message, is_final=is_final)

    # --- version checksums ----------------------------------------------------------------

    def _steps(self, part: Sequence[PendingVersion]) -> list[_Step]:
        """What goes with each version: `V.crc`, optional and exact, from the one before it."""
        totals, growth = self._totals, self._growth
        if totals is None or totals.version != part[0].version - 1:
            totals = self._totals_before(part[0].version)
        steps = []
        for item in part:
            assert item.body is not None, "it is sound"
            added = added_by(item.body, source=f"version {item.version}")
            state = self._advance(item, is_change=added.is_change)
            totals = Totals(
                item.version,
                totals.files + added.files - item.gone_files,
                totals.size_bytes + added.size_bytes - item.gone_bytes,
            )
            is_due, interval, growth = self._due(growth, totals, state, actions_in(item.body))
            checksum = render_checksum(state, totals)
            steps.append(_Step(totals, checksum, is_due, interval, growth))
        return steps

    def _due(
        self, growth: Growth | None, totals: Totals, state: TableState, actions: int
    ) -> tuple[bool, int, Growth]:
        """Whether a checkpoint is due with a version, the table's own interval, and the growth."""
        version, own = totals.version, checkpoint_interval(state.properties)
        interval = self._default_interval if own is None else own
        if growth is None:
            growth = Growth.unknown(version, interval, totals.files)
        growth = grown(growth, version, actions)
        if own is not None:
            due = version > 0 and version % own == 0
        else:
            due = is_due(
                growth,
                version,
                interval=interval,
                rate=self._checkpoint_rate,
                table_actions=max(totals.files, self.lease.checkpoint_actions),
            )
        is_newer = version > growth.due_version
        after = Growth(version, 0) if due and is_newer else growth
        return due, NO_INTERVAL if own is None else own, after

    def _totals_before(self, version: int) -> Totals:
        if version == 0:
            return Totals(-1, 0, 0)
        return self._log.totals(self.lease.table_id, version - 1)

    def _advance(self, item: PendingVersion, *, is_change: bool) -> TableState:
        """The state at a version, from the one before it unless the version changes it."""
        assert item.in_commit_timestamp is not None
        if self._state is None or self._state.version != item.version - 1 or is_change:
            record = self._log.state(self.lease.table_id, item.version)
            assert record is not None, "a pending version is in SQL"
            self._state = record.parsed()
            warn_of_faults(self._log, self.lease.table_id, self._state.properties)
        else:
            self._state = replace(
                self._state,
                version=item.version,
                in_commit_timestamp=item.in_commit_timestamp,
            )
        return self._state


def _upto_due(steps: Sequence[_Step]) -> Iterator[Sequence[_Step]]:
    """Stretches of versions with the same interval; without one, each up to a checkpoint."""
    first = 0
    for place, step in enumerate(steps, start=1):
        is_last = place == len(steps) or steps[place].interval != step.interval
        if is_last or (step.is_due and step.interval == NO_INTERVAL):
            yield steps[first:place]
            first = place


def _runs(pending: Sequence[PendingVersion]) -> list[list[PendingVersion]]:
    """Stretches of consecutive versions: between two of them the mirror has the rest."""
    runs: list[list[PendingVersion]] = []
    for item in pending:
        if runs and runs[-1][-1].version + 1 == item.version:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs
