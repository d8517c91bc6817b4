"""A table of the lake: commits, rows, snapshots and history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasql.adoption.released import must_be_current
from deltasql.adoption.releasing import release
from deltasql.commit import CommitRequest
from deltasql.commit.commit_logging import after_commit
from deltasql.commit.discarding import Abandon
from deltasql.commit.requirements import Done
from deltasql.data.conform import as_arrow
from deltasql.errors import (
    CommitStateUnknownError,
    DeltaSqlError,
    LogFormatError,
    MetadataChangedError,
    ProtocolChangedError,
    ValidationError,
    VersionNotFoundError,
)
from deltasql.lake import writing
from deltasql.lake.history import Change, HistoryEntry
from deltasql.lake.maintaining import TableUpkeep, gone, must_be_ready, writes
from deltasql.lake.mirror import TableMirror
from deltasql.lake.snapshot import Overlay, Scan, Snapshot
from deltasql.log.conflict import Reads
from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.retention import mirror_mode
from deltasql.log.state import TableState
from deltasql.log.timestamps import Timestamp, from_ms, to_ms
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
)
from deltasql.spec.features import features_of
from deltasql.spec.protocol import check_readable, upgraded
from deltasql.spec.schema import parse_schema
from deltasql.store.interface import TableRecord
from deltasql.telemetry import metrics

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

# A schema that changes under an append is read again; more often than this is no accident.
_SCHEMA_RETRIES = 5


class Table(TableUpkeep):
    """A table of the lake; cheap to make and safe to share between threads."""

    def __init__(self, lake: Lake, record: TableRecord) -> None:
        self._lake = lake
        self._record = record
        # Kept as long as the state that it comes from: every commit asks for it.
        self._target: tuple[TableState, Target] | None = None

    def __repr__(self) -> str:
        return f"<Table {self.name}>"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._record.name

    @property
    def table_id(self) -> int:
        """The table's id in SQL."""
        return self._record.table_id

    @property
    def location(self) -> str:
        """Where the table's files are."""
        return self._record.location

    @property
    def target(self) -> Target:
        """The table as the mirror knows it."""
        state, known = self._lake.states.current(self.table_id), self._target
        if known is None or known[0] is not state:
            target = Target(self.table_id, self.name, self.location, mirror_mode(state.properties))
            self._target = known = state, target
        return known[1]

    @property
    def mirror(self) -> TableMirror:
        """The table's mirror."""
        return TableMirror(self._lake, self)

    @property
    def objects(self) -> ObjectStore:
        """The object store at the table's location."""
        return self._lake.objects(self.location)

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
        """The versions, newest first."""
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

    def commit(
        self,
        actions: Iterable[Action | Mapping[str, Any]],
        operation: str = "WRITE",
        operation_params: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        read_version: int | None = None,
        reads: str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
    ) -> int:
        """Commit actions, ours or Delta's JSON objects; returns the version.

        `expected_version` is the version that the commit must become, else
        `VersionConflictError`. `read_version` is the version that the actions rest on and
        `reads` what was read of it: None for nothing, "all", or a WHERE text. A txn that was
        committed before is skipped, and the version that holds it returned.
        """
        # Files may be many, and validation looks at their types anyway.
        parsed = [
            action if isinstance(action, AddFile | RemoveFile) else codec.parse_action(action)
            for action in actions
        ]
        request = self.request(
            [*parsed, *writing.txn_actions(app_id, app_version), *self._upgrade(parsed)],
            operation=operation,
            operation_params=operation_params or {},
            expected_version=expected_version,
            read_version=read_version,
            reads=self.parse_reads(reads),
        )
        done = self.send(request)
        self.mirror_commit(request, done)
        return done.version

    def _upgrade(self, actions: Sequence[Action]) -> list[Action]:
        """The protocol that new metadata or domains need, if it is not there yet."""
        kinds = {type(action) for action in actions}
        if Protocol in kinds or not kinds & {Metadata, DomainMetadata}:
            return []
        state = self._lake.states.refresh(self.table_id)
        metadata = next((item for item in actions if isinstance(item, Metadata)), state.metadata)
        try:
            schema = parse_schema(metadata.schema_string)
        except LogFormatError:
            # Validation says it better.
            return []
        needed = upgraded(state.protocol, schema, metadata.configuration, also=features_of(actions))
        return [] if needed is None else [needed]

    def request(
        self, actions: Sequence[Action], *, operation: str, **details: Any
    ) -> CommitRequest:
        """A commit request to this table."""
        return CommitRequest(
            table_id=self.table_id,
            table_name=self.name,
            actions=actions,
            commit_id=writing.new_id(),
            operation=operation,
            committer=self._lake.committer,
            engine=self._lake.engine_info,
            **details,
        )

    def send(self, request: CommitRequest) -> Done:
        """Commit to SQL; `mirror_commit` is what comes after."""
        must_be_ready(self._lake, [self.target], [request])
        return self._lake.commits.commit(request)

    def mirror_commit(self, request: CommitRequest, done: Done) -> None:
        """Mirror what was committed; whatever fails here, the version stands."""
        if not done.is_new:
            return
        with after_commit("mirroring", self.name):
            if not request.is_blind_append and Metadata in map(type, request.actions):
                # It may say how the table is mirrored from now on.
                self._lake.states.forget(self.table_id)
            self._lake.engine.after_commit([(self.target, done.version)])

    def parse_reads(self, reads: str | None) -> Reads:
        """What a commit read, from the words of the low-level interface."""
        if reads is None:
            return Reads.nothing()
        if reads == "all":
            return Reads.all()
        # As the table is now: what this process remembers may lack a column.
        return Reads.where(bind(parse(reads), self._lake.states.refresh(self.table_id).schema))

    def commit_write(self, write: writing.Write, extra: Sequence[Action] = ()) -> int:
        """Commit what was written; its files are deleted when they surely don't count."""
        request = self.request(
            [*write.actions, *extra],
            operation=write.operation,
            operation_params=write.operation_params,
            reads=write.reads,
            read_version=write.read_version,
            is_ours=write.is_plain and not extra,
        )
        try:
            done = self.send(request)
        except CommitStateUnknownError:
            # The files may belong to a version: they stay. So they do on Ctrl-C.
            raise
        except DeltaSqlError:
            self._discard(write, request)
            raise
        if not done.is_new:
            self._discard(write, request)
        self.mirror_commit(request, done)
        return done.version

    def _discard(self, write: writing.Write, request: CommitRequest) -> None:
        if write.files:
            self._lake.discarder.discard(
                self.location,
                [file.path for file in write.files],
                after=-1 if write.read_version is None else write.read_version,
                table_id=self.table_id,
                request=request,
            )

    def abandon(self, after: int) -> Abandon:
        """What deletes new files, written after a version, for which no commit was sent."""
        return lambda paths: self._lake.discarder.discard(
            self.location, paths, after=after, table_id=self.table_id
        )

    def _version_at(self, timestamp: Timestamp) -> int:
        version = self._lake.store.version_at(self.table_id, to_ms(timestamp))
        if version is None:
            raise self._no_version(f"version as of {timestamp}")
        return version

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
