"""The change data feed: every row that versions inserted, updated or deleted.

If a version has change files, they contain everything. Otherwise, added files contain inserted rows
and removed ones deleted rows; a file that only got another deletion vector lost, or got back, the
rows in which the two vectors differ. Version, time and kind travel as partition values, so that
Spark scans at most a handful of frames, however many versions there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import reduce
from typing import TYPE_CHECKING

from deltasql.data.reading.deletion import deleted_in
from deltasql.errors import ValidationError
from deltasql.lake.feed.schemas import shown_in
from deltasql.lake.history import Change
from deltasql.lake.table import Table
from deltasql.log.feed import CHANGE_TYPE, as_add
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spark.native.reading import Reader
from deltasql.spec.actions import Action, AddFile, CdcFile, Metadata, RemoveFile
from deltasql.spec.deletion_vectors import inline
from deltasql.spec.properties import CHANGE_FEED, FIELD_ID, PHYSICAL_NAME, is_true
from deltasql.spec.schema import Primitive, StructField, StructType, parse_schema, render_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION = "_commit_version"
TIMESTAMP = "_commit_timestamp"
# Beyond every id that a table has given to its columns.
_FIRST_ID = 1 << 30


@dataclass(slots=True)
class ChangedFiles:
    """The files to read for a range of versions, each with its version and time."""

    changes: list[AddFile] = field(default_factory=list)
    inserts: list[AddFile] = field(default_factory=list)
    deletes: list[AddFile] = field(default_factory=list)

    def take(self, change: Change, objects: ObjectStore) -> None:
        """Sort the files of one version."""
        # With its time zone, whatever the session's is.
        stamp = change.timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        extra = {VERSION: str(change.version), TIMESTAMP: stamp}

        def stamped(add: AddFile, kind: str | None = None) -> AddFile:
            values = {**add.partition_values, **extra}
            if kind is not None:
                values[CHANGE_TYPE] = kind
            return replace(add, partition_values=values)

        cdc = [action for action in change.actions if isinstance(action, CdcFile)]
        if cdc:
            self.changes += [stamped(_readable(item)) for item in cdc]
            return
        adds, removes = _moved(change.actions)
        for path in sorted(adds.keys() & removes.keys()):
            before, after = removes.pop(path), adds.pop(path)
            lost, found = _difference(objects, before, after)
            self.deletes += [stamped(add, "delete") for add in lost]
            self.inserts += [stamped(add, "insert") for add in found]
        self.inserts += [stamped(add, "insert") for add in adds.values()]
        self.deletes += [stamped(add, "delete") for add in removes.values()]


def feed(reader: Reader, table: Table, start: int, last: int) -> DataFrame:
    """The changes of the versions from `start` up to and including `last`."""
    first = table.snapshot(version=start)
    must_have_feed(table.name, first.state)
    changes, found = table.changes(start, last), ChangedFiles()
    for change in changes:
        for action in change.actions:
            if isinstance(action, Metadata):
                _must_say_feed(table.name, action.configuration, change.version)
        found.take(change, table.objects)
    return frame_of(reader, table.location, shown_in(table, first, changes), found)


def must_have_feed(name: str, state: TableState) -> None:
    """Raise unless changes were recorded at this version."""
    _must_say_feed(name, state.properties, state.version)


def _must_say_feed(name: str, properties: Mapping[str, str], version: int) -> None:
    if not is_true(properties, CHANGE_FEED):
        raise ValidationError(
            f"{name} has no change feed at version {version}",
            cause=f"{CHANGE_FEED} is not true there",
            remedy="ask for later versions, or set the property and write again",
        )


def frame_of(reader: Reader, location: str, state: TableState, found: ChangedFiles) -> DataFrame:
    """The rows of changed files, with what happened to them, and when."""
    in_files = feed_state(state, in_files=(CHANGE_TYPE,), beside=(VERSION, TIMESTAMP))
    beside = feed_state(state, beside=(CHANGE_TYPE, VERSION, TIMESTAMP))
    parts = []
    if found.changes or not (found.inserts or found.deletes):
        parts.append(reader.of_adds(location, in_files, found.changes))
    if found.inserts:
        parts.append(reader.of_adds(location, beside, found.inserts))
    if found.deletes:
        parts.append(reader.of_adds(location, beside, found.deletes))
    names = [item.name for item in state.schema.fields]
    columns = [*(f"`{name}`" for name in names), CHANGE_TYPE, VERSION, TIMESTAMP]
    return reduce(lambda a, b: a.unionByName(b), (part.select(*columns) for part in parts))


def _moved(actions: Iterable[Action]) -> tuple[dict[str, AddFile], dict[str, AddFile]]:
    adds = {a.path: a for a in actions if isinstance(a, AddFile) and a.data_change}
    removes = {a.path: as_add(a) for a in actions if isinstance(a, RemoveFile) and a.data_change}
    return adds, removes


def _readable(cdc: CdcFile) -> AddFile:
    return AddFile(
        path=cdc.path,
        size=cdc.size,
        modification_time=0,
        partition_values=cdc.partition_values,
        data_change=False,
    )


def _difference(
    objects: ObjectStore, before: AddFile, after: AddFile
) -> tuple[list[AddFile], list[AddFile]]:
    """A file that got another deletion vector, as two: the rows it lost, and those it got back."""
    old = set(_deleted(objects, before))
    new = set(_deleted(objects, after))
    rows = record_count(load_stats(after.stats))
    if rows is None:
        rows = max(new | old, default=-1) + 1

    def only(wanted: set[int]) -> list[AddFile]:
        hidden = inline(row for row in range(rows) if row not in wanted)
        return [replace(after, deletion_vector=hidden)] if wanted else []

    return only(new - old), only(old - new)


def _deleted(objects: ObjectStore, add: AddFile) -> Iterable[int]:
    return deleted_in(objects, add)


def feed_state(
    state: TableState, *, beside: Sequence[str], in_files: Sequence[str] = ()
) -> TableState:
    """The table with the feed's columns, in its files or beside them as partition values."""
    schema = parse_schema(state.metadata.schema_string)
    added = tuple(_fields((*in_files, *beside), state))
    metadata = replace(
        state.metadata,
        schema_string=render_schema(StructType((*schema.fields, *added))),
        partition_columns=(*state.metadata.partition_columns, *beside),
    )
    return replace(state, metadata=metadata)


def _fields(names: Sequence[str], state: TableState) -> Iterator[StructField]:
    types = {CHANGE_TYPE: "string", VERSION: "long", TIMESTAMP: "timestamp"}
    for number, name in enumerate(names):
        mapped = {FIELD_ID: _FIRST_ID + number, PHYSICAL_NAME: name}
        metadata = {} if state.column_mapping == "none" else mapped
        yield StructField(name, Primitive(types[name]), metadata=metadata)
