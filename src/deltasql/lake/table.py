"""A table of the lake: rows, snapshots and history."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from deltasql.adoption.released import must_be_current
from deltasql.adoption.releasing import release
from deltasql.data.conform import as_arrow
from deltasql.data.gathering import gathered
from deltasql.data.writing.properties import FileOptions, WriterProperties
from deltasql.errors import (
    CommitError,
    CommitStateUnknownError,
    DeltaSqlError,
    MetadataChangedError,
    ProtocolChangedError,
    ValidationError,
    VersionNotFoundError,
)
from deltasql.lake import writing
from deltasql.lake.appending import Appender
from deltasql.lake.appending.appender import MAX_DELAY, MAX_ROWS
from deltasql.lake.arguments import checked
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.dml.verbs import TableVerbs, retries_of
from deltasql.lake.dml.words import names_of, one_of, schema_mode_of
from deltasql.lake.feed.rows import changed_rows, feed_range
from deltasql.lake.history import Change, HistoryEntry
from deltasql.lake.looking.table import TableLooks
from deltasql.lake.mirror import TableMirror
from deltasql.lake.scan import Scan
from deltasql.lake.snapshot import Overlay, Snapshot
from deltasql.lake.table_commits import TableCommits
from deltasql.lake.upkeep.maintaining import TableUpkeep, gone, writes
from deltasql.log.state import TableState
from deltasql.log.timestamps import Timestamp, from_ms, to_ms, written
from deltasql.showing.html import Listing
from deltasql.spec import codec
from deltasql.spec.protocol import check_readable
from deltasql.store.expiring.expired import has_expired
from deltasql.store.interface import TxnLogReader
from deltasql.telemetry import metrics

# An append is retried if the schema changes, or if identity values must be handed out again.
_SCHEMA_RETRIES = 15
# From this many rows on, the commit of an append records metrics.
_TOLD_ROWS = 1000


@checked
class Table(TableCommits, TableVerbs, TableUpkeep, TableLooks):
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

        Everything is mirrored, then the fence is removed. In-commit timestamps are turned off again
        if adoption turned them on; `keep_timestamps` overrides that.
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

        Of a released table that others have written since, only versions by number can be read;
        anything else raises `TableError`.
        """
        return self.snapshot_with(version=version, timestamp=timestamp, from_replica=True)

    def base(self, version: int | None = None, timestamp: Timestamp | None = None) -> Snapshot:
        """A snapshot for a write to begin with, which no replica makes any older."""
        return self.snapshot_with(version=version, timestamp=timestamp)

    def snapshot_with(
        self,
        *,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        overlay: Overlay | None = None,
        from_replica: bool = False,
    ) -> Snapshot:
        """A snapshot that includes the uncommitted writes of a transaction; a replica is asked only
        if the caller says so.
        """
        reader = self._lake.store.reads if from_replica else self._lake.store
        if version is not None and timestamp is not None:
            raise ValidationError(
                "version and timestamp were both given", remedy="give one of the two"
            )
        is_given = version is not None
        if timestamp is not None:
            version = self._version_at(timestamp, reader)
        started = time.monotonic()
        record = reader.state(self.table_id, version)
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
        return Snapshot(reader, self.objects, self.table_id, state, overlay, hold)

    def must_be_current(self, state: TableState, timestamp: Timestamp | None = None) -> None:
        """Raise `TableError` if the table was released and others have written it since."""
        at_ms = None if timestamp is None else to_ms(timestamp)
        must_be_current(self._lake.store, self.objects, self.target, state, at_ms=at_ms)

    def scan(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """The rows of the newest version, lazily: `.to_arrow()`, `.to_batches()`, …

        `limit` is how many rows at most; which ones is not promised.
        """
        return self.snapshot().scan(where, columns, limit)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The versions, newest first; `limit` is how many at most."""
        if limit is not None and limit < 0:
            raise ValidationError(
                f"the limit of a history can't be {limit}",
                cause="it is how many versions to return at most",
                remedy="give 0 or more, or leave it out for all of them",
            )
        found = self._lake.store.reads.history(self.table_id, limit=limit)
        return Listing(HistoryEntry.of(record) for record in found)

    def changes(
        self, from_version: int, to_version: int | None = None, *, limit: int | None = None
    ) -> list[Change]:
        """What the versions from `from_version` up to and including `to_version` did.

        `limit` is how many versions at most; the next page begins after the last one.
        """
        if limit is not None and limit < 1:
            raise ValidationError(
                f"the limit of changes can't be {limit}",
                remedy="leave it out, or give a number from 1",
            )
        store, first = self._lake.store.reads, max(from_version, 0)
        # No further than the page: the store reads ahead.
        ends = [end for end in (to_version, limit and first + limit - 1) if end is not None]
        found: list[Change] = []
        # One by one: the bytes of a commit are not needed once its actions are read.
        for record in store.commits(self.table_id, after=first - 1, upto=min(ends, default=None)):
            actions = tuple(codec.decode_commit(record.body, source=f"{record.version}.json"))
            found.append(Change(record.version, from_ms(record.in_commit_timestamp), actions))
        if not found or found[0].version > first:
            head = store.head(self.table_id)
            if head is not None and head.earliest_version > from_version >= 0:
                raise has_expired(from_version)
        return found

    def change_rows(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_timestamp: Timestamp | None = None,
        to_timestamp: Timestamp | None = None,
    ) -> pa.RecordBatchReader:
        """The change feed as rows: with `_change_type`, `_commit_version`, `_commit_timestamp`.

        Covers the versions from the first up to and including the last, by number or by time. The
        table needs `delta.enableChangeDataFeed`. Versions on both sides of an overwrite of the
        schema have to be read apart, if their types differ.
        """
        ends = feed_range(self, from_version, to_version, from_timestamp, to_timestamp)
        return changed_rows(self, *ends)

    # --- writing ----------------------------------------------------------------------

    @writes
    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        merge_schema: bool = False,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int = _SCHEMA_RETRIES,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> WriteResult:
        """Add rows; returns the version. `merge_schema=True` adds their new columns too.

        With `app_id` and `app_version` the append happens once, however often it is called. Appends
        don't conflict with each other; rows are written again, up to `max_commit_retries` times, if
        the schema has changed, or if another writer has taken identity values meanwhile. `writer`
        and `target_file_size` (in bytes) say how files are written. `schema_mode="merge"` is the
        same as `merge_schema`.
        """
        mode = schema_mode_of(schema_mode, merge_schema=merge_schema)
        options = FileOptions(writer, target_file_size)
        extra = writing.txn_actions(app_id, app_version)
        if not isinstance(data, pa.Table):
            data = gathered(data, self._lake.states.current(self.table_id).schema)
        retries = retries_of(max_commit_retries, None)
        if not isinstance(data, pa.Table):
            # A stream can be read only once, so the schema must not change under it.
            retries = 0
            self._lake.states.refresh(self.table_id)
        for attempt in range(retries + 1):
            write = self._appending(data, mode, options)
            told = writing.written(write.files, writing.rows_in(data, write.files))
            if told["numOutputRows"] >= _TOLD_ROWS:
                # For a small append, metrics would be a tenth of the work.
                write.metrics = told
            try:
                done = self.commit_write(write, extra, commit_metadata)
                return WriteResult(done, told)
            except (MetadataChangedError, ProtocolChangedError):
                if attempt == retries:
                    raise
                self._lake.states.refresh(self.table_id)
        raise AssertionError("unreachable")

    def appender(
        self, max_delay: timedelta | str | float = MAX_DELAY, max_rows: int = MAX_ROWS
    ) -> Appender:
        """Collects the appends of many threads into one file and one commit.

        `with table.appender() as a:`, then `a.append(rows)` from any thread: it returns when the
        rows are durable; `a.submit(rows)` returns a future. Rows that nobody waits for are held for
        at most `max_delay` (a duration, a text such as `200ms`, or seconds), or until there are
        `max_rows`.
        """
        return Appender(self, max_delay=max_delay, max_rows=max_rows)

    @writes
    def overwrite(  # noqa: PLR0913 - the public names
        self,
        data: Any,
        where: str | None = None,
        *,
        predicate: str | None = None,
        replace_where: str | None = None,
        schema_mode: str | None = None,
        merge_schema: bool = False,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int = 0,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> WriteResult:
        """Replace the rows that satisfy `where`, by default all, with new ones.

        `schema_mode="merge"`, or `merge_schema`, adds their new columns; `"overwrite"`, or
        `overwrite_schema`, gives the table their schema, and with `partition_by` other partitions.
        `replace_where` and `predicate` are Spark's and delta-rs' names for `where`. After a
        conflict with another writer it is run again on the newer version, up to
        `max_commit_retries` times. `app_id`, `app_version`, `writer` and `target_file_size` are
        those of `append`.
        """
        condition = one_of(where, replace_where, predicate)
        mode = schema_mode_of(
            schema_mode, merge_schema=merge_schema, overwrite_schema=overwrite_schema
        )
        options = FileOptions(writer, target_file_size)
        extra = writing.txn_actions(app_id, app_version)
        if retries_of(max_commit_retries, None) and not isinstance(data, pa.Table):
            # A stream can be read only once.
            rows = as_arrow(data)
            data = rows if isinstance(rows, pa.Table) else rows.read_all()
        for attempt in range(max_commit_retries + 1):
            snapshot = self.base()
            write = writing.overwrite(
                self.objects,
                snapshot,
                data,
                where=condition,
                schema_mode=mode,
                partition_by=None if partition_by is None else names_of(partition_by),
                memory_limit=self.memory_limit,
                options=options,
                abandon=self.abandon(snapshot.version),
            )
            try:
                return self.commit_write(write, extra, commit_metadata)
            except CommitStateUnknownError:
                raise
            except CommitError:
                if attempt == max_commit_retries:
                    raise
        raise AssertionError("unreachable")

    def _appending(self, data: Any, mode: str | None, options: FileOptions) -> writing.Write:
        def written(state: TableState) -> writing.Write:
            return writing.append(
                self.objects,
                state,
                data,
                schema_mode=mode,
                memory_limit=self.memory_limit,
                options=options,
                abandon=self.abandon(state.version),
            )

        known = self._lake.states.current(self.table_id)
        try:
            return written(known)
        except DeltaSqlError:
            # What refused the rows may be long gone.
            state = self._lake.states.refresh(self.table_id)
            if isinstance(data, pa.Table) and state.metadata != known.metadata:
                return written(state)
            raise

    def _version_at(self, timestamp: Timestamp, reader: TxnLogReader) -> int:
        """The version that was current at a time, by what a reader knows."""
        version = reader.version_at(self.table_id, to_ms(timestamp))
        if version is None:
            raise self._no_version(f"version as of {timestamp}")
        return version

    def _no_version(self, wanted: str) -> VersionNotFoundError:
        """The error for a version that is not there; it says which are."""
        head = self._lake.store.head(self.table_id)
        if head is None:
            return VersionNotFoundError(f"{self.name} has no {wanted}")
        first = self._lake.store.state(self.table_id, head.earliest_version)
        since = f" ({written(first.in_commit_timestamp)})" if first else ""
        older = "older ones have expired, or were not adopted: " if head.earliest_version else ""
        return VersionNotFoundError(
            f"{self.name} has no {wanted}",
            cause=f"{older}its versions are {head.earliest_version}{since} to {head.version} "
            f"({written(head.last_ict)})",
            remedy="ask for one of these",
        )
