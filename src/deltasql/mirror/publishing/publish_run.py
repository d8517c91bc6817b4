"""One table's way to the object store, while its lease is held."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from deltasql.delta_log.checksum import added_by, render_checksum
from deltasql.delta_log.names import LOG, crc_name
from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.log.retention import checkpoint_interval
from deltasql.log.state import TableState
from deltasql.mirror import leases
from deltasql.mirror.leases import LeaseLostError
from deltasql.mirror.property_faults import warn_of_faults
from deltasql.mirror.publishing.commit_files import must_follow, publish_commits, sound_start
from deltasql.mirror.released import must_be_as_released
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Lease, MirrorRecord, PendingVersion, Totals

BATCH = 64
# Where the store is quick: between batches nothing is written, and each ends with a wait.
_LARGE_BATCH: Final = 4 * BATCH
_QUICK: Final = 1.0
# How long SQL may wait for word of what is visible, where nobody waits for that.
_TELL_EVERY: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Step:
    """A version on its way: its sums, its checksum file, and when its checkpoint is due."""

    totals: Totals
    checksum: bytes
    interval: int


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
        max_attempts: int,
        backoff: Callable[[int], float] | None = None,
        own: int = -1,
    ) -> None:
        self.lease = lease
        # Whether the last run left what is pending to a later time.
        self.is_waiting = False
        # Whether a version was published that wants a checkpoint.
        self.wants_checkpoint = False
        self._log = log
        self._objects = objects
        self._default_interval = default_interval
        self._max_attempts = max_attempts
        self._backoff = backoff
        # The newest version that this process published.
        self._own = own
        self._totals = lease.totals
        self._state: TableState | None = None
        # The newest version that is visible, and what SQL does not know of yet.
        self._published = -1
        self._untold: list[_Step] = []
        self._told_at = time.monotonic()

    @property
    def own(self) -> int:
        """The newest version that this process is known to have published."""
        return max(self._own, self._published)

    def run(self, *, lazily: bool = False) -> int:
        """Mirror all that is pending; returns how many versions.

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
            for part in _runs(pending):
                self._mirror(part)
                done += len(part)
            if not lazily or self._is_overdue():
                self.tell()
            if len(pending) < most:
                break
            # Only with a batch's end is the lease extended.
            most = _LARGE_BATCH if time.monotonic() - started < _QUICK else BATCH
        return done

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
        published = publish_commits(self._objects, sound, checksums)
        self._keep(steps[: published.count])
        failure = published.failure or problem
        if failure is not None:
            self.tell()
            self._failed(part[published.count], failure)
            raise failure

    def _must_follow(self, version: int, earliest: int) -> None:
        """What another process wrote last may not be what SQL thinks it is."""
        if version <= earliest:
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
            self.wants_checkpoint |= any(
                step.totals.version and step.totals.version % step.interval == 0 for step in steps
            )
            self._totals = steps[-1].totals
            self._published = self._totals.version

    def _is_overdue(self) -> bool:
        return len(self._untold) >= BATCH or time.monotonic() - self._told_at > _TELL_EVERY

    def tell(self) -> None:
        """Word to SQL of commit files that are visible, with their checksums."""
        steps, self._untold = self._untold, []
        self._told_at = time.monotonic()
        for interval, run in groupby(steps, key=lambda step: step.interval):
            totals = [step.totals for step in run]
            recorded = self._log.record_mirrored(
                self.lease,
                totals[-1],
                first=totals[0].version,
                interval=interval,
                seconds=leases.LEASE_SECONDS,
            )
            if not recorded:
                raise LeaseLostError

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
        totals = self._totals
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
            interval = checkpoint_interval(state.properties, self._default_interval)
            steps.append(_Step(totals, render_checksum(state, totals), interval))
        return steps

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


def _runs(pending: Sequence[PendingVersion]) -> list[list[PendingVersion]]:
    """Stretches of consecutive versions: between two of them the mirror has the rest."""
    runs: list[list[PendingVersion]] = []
    for item in pending:
        if runs and runs[-1][-1].version + 1 == item.version:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs
