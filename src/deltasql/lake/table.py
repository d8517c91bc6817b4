"""A table of the lake: rows, snapshots and history."""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasql.adoption.released import must_be_current
from deltasql.adoption.releasing import release
from deltasql.data.conform import as_arrow
from deltasql.errors import (
    MetadataChangedError,
    ProtocolChangedError,
    ValidationError,
    VersionNotFoundError,
)
from deltasql.lake import writing
from deltasql.lake.history import Change, HistoryEntry
from deltasql.lake.mirror import TableMirror
from deltasql.lake.snapshot import Overlay, Scan, Snapshot
from deltasql.lake.table_commits import TableCommits
from deltasql.lake.upkeep.maintaining import TableUpkeep, gone, writes
from deltasql.log.state import TableState
from deltasql.log.timestamps import Timestamp, from_ms, to_ms
from deltasql.spec import codec
from deltasql.spec.protocol import check_readable
from deltasql.telemetry import metrics

if TYPE_CHECKING:
    pass

# A schema that changes under an append is read again; more often than this is no accident.
_SCHEMA_RETRIES = 5


class Table(TableCommits, TableUpkeep):
    """A table of the lake; cheap to make and safe to share between threads."""

    def __repr__(self) -> str:
        return f"<Table {self.name}>"

    @property
    def mirror(self) -> TableMirror:
        """The table's mirror."""
        return TableMirror(self._lake, self)

    @property
    def read_only(self) -> str | None:
        """Why the table can't be written; None if it can."""
        return self._lake.store.read_only_reason(self.table_id)

    @property
    def version(self) -> int:
        """The newest version."""
        head = self._lake.store.head(self.table_id)
        if head is None:
            raise gone(self.name)
        return head.version

    def release(self, *, keep_timestamps: bool | None = None) -> int:
        """Hand the table back to plain Delta writers; returns the version of the last commit.

        Everything is mirrored, then the fence goes down. In-commit timestamps go off again
        where adoption turned them on; `keep_timestamps` decides otherwise.
        """
        lake = self._lake
        try:
            return release(
                lake.engine,
                lake.store,
                lake.commits,
                self.target,
                committer=lake.committer,
                engine_info=lake.engine_info,
                keep_timestamps=keep_timestamps,
            )
        finally:
            lake.states.forget(self.table_id)

    # --- reading ----------------------------------------------------------------------

    def snapshot(self, version: int | None = None, timestamp: Timestamp | None = None) -> Snapshot:
        """The table as it is, at a version, or as it was at a point in time.

        `TableError` for a released table that others have written since: only versions by number.
        """
        return self.snapshot_with(version=version, timestamp=timestamp)

    def snapshot_with(
        self,
        *,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        overlay: Overlay | None = None,
    ) -> Snapshot:
        """A snapshot with the uncommitted writes of a transaction laid over it."""
        if version is not None and timestamp is not None:
            raise ValidationError(
                "version and timestamp were both given", remedy="give one of the two"
            )
        is_given = version is not None
        if version is not None:
            version = self._checked(version)
        if timestamp is not None:
            version = self._version_at(timestamp)
        started = time.monotonic()
        record = self._lake.store.state(self.table_id, version)
        metrics.METADATA_OPEN_LATENCY.observe((time.monotonic() - started) * 1000)
        if record is None:
            if self._lake.store.head(self.table_id) is None:
                raise gone(self.name)
            raise self._no_version(f"version {version}")
        state = record.parsed()
        # An adopted table may have versions from before a feature was dropped.
        check_readable(state.protocol)
        if not is_given:
            self.must_be_current(state, timestamp)
        hold = self._lake.presence.reading
        return Snapshot(self._lake.store, self.objects, self.table_id, state, overlay, hold)

    def must_be_current(self, state: TableState, timestamp: Timestamp | None = None) -> None:
        """Raise `TableError` if the table was released, and others have gone on from this state."""
        at_ms = None if timestamp is None else to_ms(timestamp)
        must_be_current(self._lake.store, self.objects, self.target, state, at_ms=at_ms)

    def scan(self, where: str | None = None, columns: Sequence[str] | None = None) -> Scan:
        """The rows of the newest version, lazily: `.to_arrow()`, `.to_batches()`, …"""
        return self.snapshot().scan(where, columns)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The versions, newest first; `limit` is how many at most."""
        if limit is not None and limit < 0:
            raise ValidationError(
                f"the limit of a history can't be {limit}",
                cause="it is how many versions to return at most",
                remedy="give 0 or more, or leave it out for all of them",
            )
        found = self._lake.store.history(self.table_id, limit=limit)
        return [HistoryEntry.of(record) for record in found]

    def changes(self, from_version: int, to_version: int | None = None) -> list[Change]:
        """What the versions from `from_version` up to and including `to_version` did."""
        found = self._lake.store.commits(self.table_id, after=from_version - 1, upto=to_version)
        return [
            Change(
                version=record.version,
                timestamp=from_ms(record.in_commit_timestamp),
                actions=tuple(codec.decode_commit(record.body, source=f"{record.version}.json")),
            )
            for record in found
        ]

    # --- writing ----------------------------------------------------------------------

    @writes
    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
    ) -> int:
        """Add rows; returns the version. `schema_mode="merge"` adds their new columns too.

        With `app_id` and `app_version` the append happens once, however often it is called.
        """
        extra = writing.txn_actions(app_id, app_version)
        if not isinstance(data, pa.Table):
            rows = as_arrow(data)
            # What streams may be read once only, whatever it is, and a changed schema needs the
            # rows again.
            data = rows if isinstance(rows, pa.Table) else rows.read_all()
        for attempt in range(_SCHEMA_RETRIES):
            state = self._lake.states.current(self.table_id)
            write = writing.append(
                self.objects,
                state,
                data,
                schema_mode=schema_mode,
                abandon=self.abandon(state.version),
            )
            try:
                return self.commit_write(write, extra)
            except (MetadataChangedError, ProtocolChangedError):
                if attempt == _SCHEMA_RETRIES - 1:
                    raise
                self._lake.states.refresh(self.table_id)
        raise AssertionError("unreachable")

    @writes
    def overwrite(self, data: Any, where: str | None = None) -> int:
        """Put rows in place of those that satisfy `where`, by default of all of them."""
        snapshot = self.snapshot()
        abandon = self.abandon(snapshot.version)
        return self.commit_write(
            writing.overwrite(self.objects, snapshot, data, where=where, abandon=abandon)
        )

    def _version_at(self, timestamp: Timestamp) -> int:
        version = self._lake.store.version_at(self.table_id, to_ms(timestamp))
        if version is None:
            raise self._no_version(f"version as of {timestamp}")
        return version

    def _checked(self, version: int) -> int:
        try:
            number = operator.index(version)
        except TypeError:
            raise ValidationError(f"version is {version!r:.80}", remedy="give an integer") from None
        if not 0 <= number < 2**63:
            raise self._no_version(f"version {number}")
        return number

    def _no_version(self, wanted: str) -> VersionNotFoundError:
        head = self._lake.store.head(self.table_id)
        if head is None:
            return VersionNotFoundError(f"{self.name} has no {wanted}")
        first = self._lake.store.state(self.table_id, head.earliest_version)
        since = f" ({from_ms(first.in_commit_timestamp).isoformat()})" if first else ""
        return VersionNotFoundError(
            f"{self.name} has no {wanted}",
            cause=f"its versions are {head.earliest_version}{since} to {head.version} "
            f"({from_ms(head.last_ict).isoformat()})",
            remedy="ask for one of these",
        )
