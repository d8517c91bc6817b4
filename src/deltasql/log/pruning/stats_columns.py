"""Which columns of a table have stats keys in the database, and at which ordinal.

A file's keys are kept in arrays; a column's ordinal is its index there. Rows written long ago are
read with today's list, so an ordinal is never given to another column.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from deltasql.errors import LogFormatError
from deltasql.spec import codec
from deltasql.spec.partition_values import INTEGER_BITS
from deltasql.spec.schema import Primitive, StructType

MAX = 32

# Floats are separate from numbers because of NaN and 32-bit rounding, and times without a zone from
# instants because a stats text without an offset has a meaning only for the former.
KINDS = ("number", "float", "text", "date", "timestamp", "timestamp_ntz", "boolean")
_KIND_OF = {
    **dict.fromkeys(INTEGER_BITS, "number"),
    "float": "float",
    "double": "float",
    "string": "text",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "boolean": "boolean",
}


# A tuple, because lists of them are looked up for every commit.
class StatsColumn(NamedTuple):
    """A column with keys: its ordinal, its physical path, and how values become keys."""

    ordinal: int
    path: tuple[str, ...]
    kind: str


def kind_of(column_type: Primitive) -> str | None:
    """The kind of keys that a type has; None if it has no order worth keeping."""
    return "number" if column_type.decimal is not None else _KIND_OF.get(column_type.name)


def stats_columns(
    schema: StructType, partition_columns: Collection[str], previous: Sequence[StatsColumn] = ()
) -> tuple[StatsColumn, ...]:
    """The columns to keep keys for: `previous` as they are, then new ones of the first MAX leaves.

    Columns that the schema no longer has stay listed, so that their ordinals are not reused.
    """
    partitions = {name.lower() for name in partition_columns}
    wanted = [
        (leaf.physical_path, kind)
        for leaf in schema.leaves()
        if leaf.path[0].lower() not in partitions and (kind := kind_of(leaf.type)) is not None
    ]
    found = list(previous)
    known = {(column.path, column.kind) for column in previous}
    for path, kind in wanted[:MAX]:
        if (path, kind) not in known:
            found.append(StatsColumn(len(found), path, kind))
    return tuple(found)


def dump_stats_columns(columns: Sequence[StatsColumn]) -> str:
    """A JSON list of `[kind, name, …]`; the position in the list is the ordinal."""
    return codec.dumps([[column.kind, *column.path] for column in columns]).decode()


def load_stats_columns(text: str) -> tuple[StatsColumn, ...]:
    """What `dump_stats_columns` wrote."""
    try:
        rows = json.loads(text)
        found = tuple(
            StatsColumn(ordinal, tuple(path), kind) for ordinal, (kind, *path) in enumerate(rows)
        )
    except (ValueError, TypeError) as error:
        raise _malformed(text, str(error)) from None
    for column in found:
        if column.kind not in KINDS or not column.path:
            raise _malformed(text, f"{column.kind!r:.80} is not a kind, or the path is empty")
        if not all(isinstance(name, str) for name in column.path):
            raise _malformed(text, "a path has something other than names")
    return found


def _malformed(text: str, cause: str) -> LogFormatError:
    return LogFormatError(
        f"the list of stats columns {text!r:.80} is malformed",
        cause=cause,
        remedy="restore the table's row from a copy of the database",
    )
