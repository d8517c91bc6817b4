"""Whether existing files can be read under the metadata that a commit brings.

Without files any change is possible, so these findings count only if files stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from deltasql.errors import ValidationError
from deltasql.log.state import TableState
from deltasql.spec.properties import TYPE_WIDENING, is_true
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    Primitive,
    StructField,
    StructType,
)
from deltasql.spec.type_widening import FEATURES, is_recorded, is_widening

Key: TypeAlias = Callable[[StructField], str]
_VOID = Primitive("void")


def breaking_change(after: TableState, before: TableState) -> ValidationError | None:
    """The error to raise if files of `before` stay under the metadata of `after`."""
    if after.metadata is before.metadata:
        return None
    cause = _other_partitions(after, before) or next(_Comparison(after, before).faults(), "")
    if not cause:
        return None
    return ValidationError(
        "the new metadata does not fit the files that the table has",
        cause=cause,
        remedy="keep what the files were written for, or remove them all in the same commit",
    )


def turns_on_row_ids(after: TableState, before: TableState) -> bool:
    """Whether readers may now ask for row ids that rows did not need to have so far."""
    return after.has_row_ids and not before.has_row_ids


def _other_partitions(after: TableState, before: TableState) -> str:
    # By the names that partition values use, which readers compare exactly.
    if before.partition_types.keys() == after.partition_types.keys():
        return ""
    was, now = (", ".join(state.partition_columns) or "nothing" for state in (before, after))
    return f"they are partitioned by {was}, and it says {now}"


class _Comparison:
    """Two schemas of a table, compared column by column, as its files name the columns."""

    def __init__(self, after: TableState, before: TableState) -> None:
        self._old, self._new = before.schema, after.schema
        self._widens = is_true(after.properties, TYPE_WIDENING) and not FEATURES.isdisjoint(
            after.writer_features
        )
        # When columns get physical names, existing files have only the plain ones.
        self._begins_mapping = before.column_mapping == "none" and after.column_mapping != "none"
        if self._begins_mapping:
            self._old_key: Key = _by_name
            self._new_key: Key = _by_physical_name
        else:
            is_mapped = before.column_mapping != "none"
            self._old_key = self._new_key = _by_id if is_mapped else _by_name

    def faults(self) -> Iterator[str]:
        """What is wrong, in one sentence for each column."""
        yield from self._struct(self._old, self._new, "")

    def _struct(self, old: StructType, new: StructType, inside: str) -> Iterator[str]:
        known = {self._old_key(item): item for item in old.fields}
        used = {item.physical_name for item in old.fields} if self._old_key is _by_id else set()
        for item in new.fields:
            there = known.pop(self._new_key(item), None)
            name = f"{inside}{item.name}"
            if there is not None:
                yield from self._field(there, item, name)
            elif item.physical_name in used:
                yield f"the new column {name!r:.80} has the physical name of another column in them"
            elif not item.nullable:
                yield f"the new column {name!r:.80} is NOT NULL, and their rows have no value in it"
        # A column with only nulls is in no file.
        lost = next((item for item in known.values() if item.type != _VOID), None)
        if lost is None or self._old_key is _by_id:
            return
        if self._begins_mapping:
            yield f"no column has the physical name {lost.name!r:.80}, which it has in them"
        else:
            # Its values would show up again under the next column of that name, whatever its type.
            gone = f"{inside}{lost.name}"
            yield f"column {gone!r:.80} is missing; without column mapping none can be dropped"

    def _field(self, old: StructField, new: StructField, name: str) -> Iterator[str]:
        if old.nullable and not new.nullable:
            yield f"column {name!r:.80} becomes NOT NULL, and their rows may have no value in it"
        if self._old_key is _by_id:
            if old.physical_name != new.physical_name:
                yield f"column {name!r:.80} has another physical name in them"
        elif old.name != (new.physical_name if self._begins_mapping else new.name):
            # Readers compare names exactly, and would find only nulls.
            yield f"column {name!r:.80} is written {old.name!r:.80} in them"
        yield from self._type(old.type, new.type, new, (), name)

    def _type(
        self,
        old: DeltaType,
        new: DeltaType,
        column: StructField,
        place: tuple[str, ...],
        name: str,
    ) -> Iterator[str]:
        """`column` is the field that records changes, `place` the path from it to the type."""
        if old in (new, _VOID):
            return
        match old, new:
            case StructType(), StructType():
                yield from self._struct(old, new, f"{name}.")
            case ArrayType(), ArrayType():
                if old.contains_null and not new.contains_null:
                    yield f"the elements of {name!r:.80} become NOT NULL"
                inner = (*place, "element")
                yield from self._type(old.element, new.element, column, inner, name)
            case MapType(), MapType():
                if old.value_contains_null and not new.value_contains_null:
                    yield f"the values of {name!r:.80} become NOT NULL"
                yield from self._type(old.key, new.key, column, (*place, "key"), name)
                yield from self._type(old.value, new.value, column, (*place, "value"), name)
            case Primitive(), Primitive() if is_widening(old, new):
                yield from self._widening(old, new, column, place, name)
            case _:
                yield f"column {name!r:.80} can't change from {_name(old)} to {_name(new)}"

    def _widening(
        self,
        old: Primitive,
        new: Primitive,
        column: StructField,
        place: tuple[str, ...],
        name: str,
    ) -> Iterator[str]:
        change = f"column {name!r:.80} changes from {old.name} to {new.name}"
        if not self._widens:
            yield f"{change}, and {TYPE_WIDENING} is not true"
        elif not is_recorded(column.metadata, place, new):
            yield f"{change}, and delta.typeChanges of the column does not say so"


def _by_name(item: StructField) -> str:
    return item.name.lower()


def _by_physical_name(item: StructField) -> str:
    return item.physical_name.lower()


def _by_id(item: StructField) -> str:
    return str(item.field_id) if item.field_id is not None else _by_physical_name(item)


def _name(kind: DeltaType) -> str:
    match kind:
        case Primitive(name):
            return name
        case ArrayType():
            return "an array"
        case MapType():
            return "a map"
        case StructType():
            return "a struct"
