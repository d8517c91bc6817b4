"""The change data feed as rows: what each version inserted, updated and deleted."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.reading.deletion import deleted_in
from deltasql.data.reading.placed import PlacedRows
from deltasql.data.reading.reader import read_files
from deltasql.errors import ValidationError, VersionNotFoundError
from deltasql.lake.feed.schemas import shown_in
from deltasql.lake.history import Change
from deltasql.log.feed import CHANGE_TYPE, as_add
from deltasql.log.state import TableState
from deltasql.log.timestamps import Timestamp, to_ms
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile, CdcFile, Metadata, RemoveFile
from deltasql.spec.properties import CHANGE_FEED, FIELD_ID, PHYSICAL_NAME, is_true
from deltasql.spec.schema import Primitive, StructField, StructType

if TYPE_CHECKING:
    from deltasql.lake.table import Table

_STAMP = pa.timestamp("us", "UTC")
# Field id of the one column that is in no schema, as in our own change files.
_ID = 1 << 30


def feed_range(
    table: Table,
    from_version: int | None,
    to_version: int | None,
    from_timestamp: Timestamp | None,
    to_timestamp: Timestamp | None,
) -> tuple[int, int]:
    """The first and the last version that is meant, by number or by time."""
    newest = table.version
    start = from_version or 0
    if from_timestamp is not None:
        start = version_since(table, from_timestamp)
    last = newest if to_version is None else to_version
    if to_timestamp is not None:
        last = table.snapshot(timestamp=to_timestamp).version
    if not 0 <= start <= last <= newest:
        raise table._no_version(f"changes from version {start} to {last}")
    return start, last


def version_since(table: Table, moment: Timestamp) -> int:
    """The first version that is not older than a given time."""
    try:
        before = table.snapshot(timestamp=moment)
    except VersionNotFoundError:
        return 0
    same = to_ms(before.timestamp) == to_ms(moment)
    return before.version if same else before.version + 1


def changed_rows(table: Table, start: int, last: int) -> pa.RecordBatchReader:
    """The rows of some versions, with the kind of their change, its version and its time."""
    first = table.snapshot(version=start)
    if not first.state.has_change_feed:
        raise _no_feed(table.name, f"{CHANGE_FEED} is not true")
    changes = table.changes(start, last)
    state = shown_in(table, first, changes)
    return feed_rows(table.objects, state, changes, table=table.name)


def feed_rows(
    objects: ObjectStore, state: TableState, changes: Sequence[Change], *, table: str
) -> pa.RecordBatchReader:
    """The rows of some changes in the schema of a state that they fit."""
    if not state.has_change_feed:
        raise _no_feed(table, f"{CHANGE_FEED} is not true")
    schema = pa.schema(
        [
            *to_arrow(state.schema),
            (CHANGE_TYPE, pa.string()),
            ("_commit_version", pa.int64()),
            ("_commit_timestamp", _STAMP),
        ]
    )
    return pa.RecordBatchReader.from_batches(schema, _rows(objects, state, changes, schema, table))


def _rows(
    objects: ObjectStore,
    state: TableState,
    changes: Sequence[Change],
    schema: pa.Schema,
    table: str,
) -> Iterator[pa.RecordBatch]:
    for change in changes:
        _must_say_feed(change, table)
        for kind, batch in _of_version(objects, state, change):
            columns = batch.columns
            if kind is not None:
                columns = [*columns, pa.repeat(pa.scalar(kind), batch.num_rows)]
            stamped = [*columns, *_commit(change.version, change.timestamp, batch.num_rows)]
            yield pa.RecordBatch.from_arrays(stamped, schema=schema)


def _of_version(
    objects: ObjectStore, state: TableState, change: Change
) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """A version's changes: from its change files alone, if it has some."""
    told = [action for action in change.actions if isinstance(action, CdcFile)]
    for cdc in told:
        for batch in _in_change_file(objects, state, cdc):
            yield None, batch
    if told:
        return
    rows = PlacedRows(objects, state)
    width = list(range(len(state.schema.fields)))
    for kind, add, places in _moved(objects, state, change):
        only = None if places is None else {0: places}
        for batch in rows.read([add], only=only):
            yield kind, batch.select(width)


def _moved(
    objects: ObjectStore, state: TableState, change: Change
) -> Iterator[tuple[str, AddFile, array[int] | None]]:
    """Files added or removed; of a file with a new deletion vector, the rows that it changed."""
    adds = {a.path: a for a in change.actions if isinstance(a, AddFile) and a.data_change}
    names = state.partition_types
    removes = {
        action.path: as_add(action, names)
        for action in change.actions
        if isinstance(action, RemoveFile) and action.data_change
    }
    for path in sorted(adds.keys() & removes.keys()):
        before, after = removes.pop(path), adds.pop(path)
        old, new = _deleted(objects, before), _deleted(objects, after)
        for kind, rows in (("delete", new - old), ("insert", old - new)):
            if rows:
                yield kind, after, array("Q", sorted(rows))
    for add in adds.values():
        yield "insert", add, None
    for add in removes.values():
        yield "delete", add, None


def _deleted(objects: ObjectStore, add: AddFile) -> set[int]:
    return set(deleted_in(objects, add))


def _in_change_file(
    objects: ObjectStore, state: TableState, cdc: CdcFile
) -> Iterator[pa.RecordBatch]:
    mapped = {} if state.column_mapping == "none" else {FIELD_ID: _ID, PHYSICAL_NAME: CHANGE_TYPE}
    kind = StructField(CHANGE_TYPE, Primitive("string"), metadata=mapped)
    file = AddFile(
        path=cdc.path, size=cdc.size, modification_time=0, partition_values=cdc.partition_values
    )
    return read_files(
        objects,
        [file],
        schema=StructType((*state.schema.fields, kind)),
        partition_columns=state.partition_columns,
        column_mapping=state.column_mapping,
    )


def _commit(version: int, moment: datetime, count: int) -> list[pa.Array]:
    return [
        pa.repeat(pa.scalar(version, pa.int64()), count),
        pa.repeat(pa.scalar(moment, _STAMP), count),
    ]


def _must_say_feed(change: Change, table: str) -> None:
    for action in change.actions:
        if isinstance(action, Metadata) and not is_true(action.configuration, CHANGE_FEED):
            raise _no_feed(table, f"version {change.version} turned it off")


def _no_feed(table: str, cause: str) -> ValidationError:
    return ValidationError(
        f"{table} has no change feed for these versions",
        cause=cause,
        remedy=f"ask for versions since {CHANGE_FEED} is true",
    )
