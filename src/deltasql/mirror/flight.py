"""One table's way to the object store, while its lease is held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from deltasql.errors import DeltaSqlError, MirrorConflictError
from deltasql.log.retention import checkpoint_interval
from deltasql.log.state import TableState
from deltasql.mirror.checksum import render_checksum
from deltasql.mirror.log_names import crc_name
from deltasql.mirror.publish import LOG, must_follow, publish_commits
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, Metadata, Protocol
from deltasql.store.interface import LogStore
from deltasql.store.mirror_log import Lease, PendingVersion, Totals

BATCH = 64
LEASE_SECONDS = 30.0


class LeaseLostError(Exception):
    """Somebody else mirrors the table now: whatever they find done, they find done."""


class CommitFlight:
    """Mirrors the commit files of a table, in order."""

    def __init__(
        self,
        log: LogStore,
        objects: ObjectStore,
        lease: Lease,
        *,
        default_interval: int,
        max_attempts: int,
        backoff: Callable[[int], float] | None = None,
    ) -> None:
        self._log = log
        self._objects = objects
        self._lease = lease
        self._default_interval = default_interval
        self._max_attempts = max_attempts
        self._backoff = backoff
        self._totals = lease.totals
        self._state: TableState | None = None
        self._intervals: dict[int, int] = {}

    def run(self) -> int:
        """Mirror all that is pending; returns how many versions.

        A failure is recorded with the version that it stopped at, and raised.
        """
        done = 0
        while pending := self._log.pending(self._lease.table_id, most=BATCH):
            if not done and self._is_too_early(pending[0]):
                break
            for part in _runs(pending):
                self._mirror(part)
                done += len(part)
            if len(pending) < BATCH:
                break
            if not self._log.renew_lease(self._lease, LEASE_SECONDS):
                raise LeaseLostError
        return done

    def _is_too_early(self, item: PendingVersion) -> bool:
        """Whether the table is paused, or the last attempt failed so recently that the next one
        should wait. Whoever flies by demand does not ask.
        """
        if self._backoff is None:
            return False
        if item.is_paused or item.age_ms is None:
            return item.is_paused
        return item.age_ms < self._backoff(item.retry_count) * 1000

    def _mirror(self, part: Sequence[PendingVersion]) -> None:
        try:
            head = self._log.head(self._lease.table_id)
            earliest = head.earliest_version if head else 0
            if not self._follows_checkpoint(part[0].version - 1, earliest):
                must_follow(self._objects, part[0].version, earliest)
            publish_commits(self._objects, part)
            self._finish(part)
        except DeltaSqlError as error:
            done = int(error.details.get("done", 0))
            if done:
                self._finish(part[:done])
            self._failed(part[done], error)
            raise

    def _follows_checkpoint(self, before: int, earliest: int) -> bool:
        """Whether the version before is the oldest and was adopted without a commit file."""
        if before != earliest:
            return False
        found = self._log.commits(self._lease.table_id, after=before - 1, upto=before)
        return any(not record.body for record in found)

    def _finish(self, part: Sequence[PendingVersion]) -> None:
        """What follows commit files that are visible: their checksums, and word to SQL."""
        totals = self._write_checksums(part)
        for interval, run in groupby(self._intervals.items(), key=itemgetter(1)):
            versions = [version for version, _ in run]
            recorded = self._log.record_mirrored(
                self._lease, totals, first=versions[0], last=versions[-1], interval=interval
            )
            if not recorded:
                raise LeaseLostError
        self._totals = totals

    def _failed(self, item: PendingVersion, error: DeltaSqlError) -> None:
        # What another try can't mend is final at once; the hourly one goes on all the same.
        is_final = isinstance(error, MirrorConflictError) or (
            item.retry_count + 1 >= self._max_attempts
        )
        message = f"{error.problem}: {error.cause}"[:2000]
        self._log.record_failure(self._lease, item.version, message, is_final=is_final)

    # --- version checksums ----------------------------------------------------------------

    def _write_checksums(self, part: Sequence[PendingVersion]) -> Totals:
        """`V.crc` of each version, after its commit file; optional, exact, never overwritten."""
        table_id = self._lease.table_id
        first, last = part[0].version, part[-1].version
        totals = self._totals
        if totals is None or totals.version != first - 1:
            totals = self._totals_before(first)
        removed = self._log.removed_totals(table_id, first=first, last=last)
        items = []
        self._intervals = {}
        for item in part:
            state, added = self._advance(item)
            self._intervals[item.version] = checkpoint_interval(
                state.properties, self._default_interval
            )
            gone = removed.get(item.version, (0, 0))
            totals = Totals(
                item.version,
                totals.files + len(added) - gone[0],
                totals.size_bytes + sum(add.size for add in added) - gone[1],
            )
            items.append((LOG + crc_name(item.version), render_checksum(state, totals)))
        position = 0
        while position < len(items):
            # One that exists stays: it may only be ours, or a stranger's that was right.
            position += len(self._objects.put_many_if_absent(items[position:]))
        return totals

    def _totals_before(self, version: int) -> Totals:
        if version == 0:
            return Totals(-1, 0, 0)
        return self._log.totals(self._lease.table_id, version - 1)

    def _advance(self, item: PendingVersion) -> tuple[TableState, list[AddFile]]:
        """The state at a version, from the one before it and the version's own actions."""
        assert item.body is not None
        assert item.in_commit_timestamp is not None
        actions = codec.decode_commit(item.body, source=f"version {item.version}")
        changes = [action for action in actions if isinstance(action, Metadata | Protocol)]
        if self._state is None or self._state.version != item.version - 1 or changes:
            self._state = self._read_state(item.version)
        else:
            self._state = replace(
                self._state,
                version=item.version,
                in_commit_timestamp=item.in_commit_timestamp,
            )
        return self._state, [action for action in actions if isinstance(action, AddFile)]

    def _read_state(self, version: int) -> TableState:
        record = self._log.state(self._lease.table_id, version)
        assert record is not None, "a pending version is in SQL"
        return record.parsed()


def _runs(pending: Sequence[PendingVersion]) -> list[list[PendingVersion]]:
    """Stretches of consecutive versions: between two of them the mirror has the rest."""
    runs: list[list[PendingVersion]] = []
    for item in pending:
        if runs and runs[-1][-1].version + 1 == item.version:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs
