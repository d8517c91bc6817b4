"""Whether the versions of a change feed have a schema in common, to show their rows in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.reading.file_columns import column_rules
from deltasql.data.reshape import ReshapeError, reshape
from deltasql.errors import ValidationError, VersionNotFoundError
from deltasql.lake.history import Change
from deltasql.log.state import TableState
from deltasql.spec.actions import Action, AddFile, CdcFile, Metadata, RemoveFile
from deltasql.spec.schema import StructType, parse_schema

if TYPE_CHECKING:
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table


def shown_in(table: Table, first: Snapshot, changes: Sequence[Change]) -> TableState:
    """The state in whose schema the rows of changes are shown; `first` is after the first of them.

    The table's present one, or that of the last version: with column mapping, since columns may
    have been renamed or dropped, and where the rows don't fit. `ValidationError` if they fit in
    neither.
    """
    last, newest = changes[-1].version, table.snapshot()
    if newest.state.column_mapping != "none":
        return table.snapshot(version=last).state
    before = first.metadata if changes[0].version == 0 else _before(table, first)
    if misfit(before, changes, newest.state) is None:
        return newest.state
    state = table.snapshot(version=last).state
    found = misfit(before, changes, state)
    if found is not None:
        raise no_common_schema(table.name, changes, found)
    return state


def _before(table: Table, first: Snapshot) -> Metadata:
    """The metadata before a version; if that has expired, as of the version."""
    try:
        return table.snapshot(version=first.version - 1).metadata
    except VersionNotFoundError:
        return first.metadata


@dataclass(frozen=True, slots=True)
class Misfit:
    """Rows that can't be shown: why, and the version since which all can."""

    reason: str
    since: int


def misfit(before: Metadata, changes: Sequence[Change], shown: TableState) -> Misfit | None:
    """Whether a row of the changes does not fit the schema `shown`, by the reader's own rules.

    `before` is the metadata before the first of them.
    """
    if shown.column_mapping != "none":
        # Columns are found by their ids, whatever they are called by now.
        return None
    known, reason = before, _why_not(before, shown)
    first, since = None, changes[-1].version
    for change in changes:
        moved = [action for action in change.actions if _moves_rows(action)]
        if reason and any(isinstance(action, RemoveFile) for action in moved):
            first = first or reason
        for action in change.actions:
            if isinstance(action, Metadata) and _shape(action) != _shape(known):
                had, known, reason = reason, action, _why_not(action, shown)
                since = change.version if had and not reason else since
        if reason and any(not isinstance(action, RemoveFile) for action in moved):
            first = first or reason
    return None if first is None else Misfit(first, since)


def no_common_schema(table: str, changes: Sequence[Change], found: Misfit) -> ValidationError:
    """The error for such changes; it says which of them can be read together."""
    first, last, since = changes[0].version, changes[-1].version, found.since
    parts = []
    if first < since:
        parts.append(f"those from {first} to {since - 1}")
    if since < last:
        parts.append(f"those from {since + 1} to {last}")
    apart = f"read {' and '.join(parts)} by themselves; " if parts else ""
    return ValidationError(
        f"the changes of {table} from version {first} to {last} have no schema in common",
        cause=f"version {since} replaced the schema: {found.reason}",
        remedy=f"{apart}the rows that version {since} replaced are in "
        f"snapshot(version={since - 1}).scan()",
    )


def _moves_rows(action: Action) -> bool:
    if isinstance(action, AddFile | RemoveFile):
        return action.data_change
    return isinstance(action, CdcFile)


def _shape(metadata: Metadata) -> tuple[object, ...]:
    return metadata.schema_string, metadata.partition_columns


def _why_not(metadata: Metadata, shown: TableState) -> str | None:
    """Why files of a table with such metadata can't be read as `shown`."""
    if _shape(metadata) == _shape(shown.metadata):
        return None
    had, has = metadata.partition_columns, shown.partition_columns
    by = {name.lower() for name in has}
    if {name.lower() for name in had} != by:
        told, now = (", ".join(names) or "nothing" for names in (had, has))
        return f"it was partitioned by {told}, and then by {now}"
    before = parse_schema(metadata.schema_string)
    old, new = _in_files(before, by), _in_files(shown.schema, by)
    there, wanted = (pa.struct(list(to_arrow(kind))) for kind in (old, new))
    try:
        rules = column_rules("none", (), "")
        reshape(pa.array([], there), new, wanted, rules=rules, where="")
    except ReshapeError as error:
        return f"of the column {error.where.lstrip('.')}, {error.reason}"
    return None


def _in_files(schema: StructType, partitions: set[str]) -> StructType:
    return StructType(tuple(item for item in schema.fields if item.name.lower() not in partitions))
