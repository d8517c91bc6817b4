"""Schemas with a column changed: added, renamed, dropped, moved, widened, described.

A column is named by its path: `address.zip` is a field of a struct. `element`, `key` and `value`
lead into arrays and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from deltasql.errors import ValidationError
from deltasql.spec.properties import TYPE_CHANGES
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    Primitive,
    StructField,
    StructType,
)
from deltasql.spec.type_widening import is_widening

Path: TypeAlias = tuple[str, ...]
_COMMENT: Final = "comment"


def path_of(schema: StructType, name: str) -> Path:
    """The path that a name means: a column of just that name, or the way into a struct."""
    return (name,) if schema.field(name) is not None else tuple(name.split("."))


def find(schema: StructType, name: str) -> StructField:
    """The column of a name; `ValidationError` if there is none."""
    found: list[StructField] = []

    def take(item: StructField) -> StructField:
        found.append(item)
        return item

    _at(schema, path_of(schema, name), name, take)
    return found[0]


def add(
    schema: StructType,
    parent: str | None,
    fields: Iterable[StructField],
    *,
    first: bool = False,
    after: str | None = None,
) -> StructType:
    """With new fields, in the schema itself or in a struct of it."""
    new = tuple(fields)

    def join(inside: StructType) -> StructType:
        for item in new:
            if inside.field(item.name) is not None:
                raise ValidationError(
                    f"there is a column {item.name!r:.80} already",
                    cause="names are unique without regard to case",
                    remedy="choose another name",
                )
        names = [item.name.lower() for item in inside.fields]
        place = 0 if first else len(names)
        if after is not None:
            if after.lower() not in names:
                raise _missing(after)
            place = names.index(after.lower()) + 1
        return StructType((*inside.fields[:place], *new, *inside.fields[place:]))

    if parent is None:
        return join(schema)

    def inner(item: StructField) -> StructField:
        return replace(item, type=_in_struct(item.type, parent, join))

    return _at(schema, path_of(schema, parent), parent, inner)


def change(schema: StructType, name: str, how: Callable[[StructField], StructField]) -> StructType:
    """With one column as `how` makes it."""
    return _at(schema, path_of(schema, name), name, how)


def rename(schema: StructType, name: str, new_name: str) -> StructType:
    """With a column under another name."""
    *inside, old = path_of(schema, name)
    siblings = schema if not inside else _struct_of(find(schema, ".".join(inside)).type, name)
    other = siblings.field(new_name)
    if other is not None and other.name.lower() != old.lower():
        raise ValidationError(
            f"there is a column {new_name!r:.80} already", remedy="choose another name"
        )
    return change(schema, name, lambda item: replace(item, name=new_name))


def drop(schema: StructType, name: str) -> StructType:
    """Without a column."""
    find(schema, name)
    *inside, last = path_of(schema, name)

    def leave(struct: StructType) -> StructType:
        left = tuple(item for item in struct.fields if item.name.lower() != last.lower())
        if not left:
            raise ValidationError(
                f"{name!r:.80} is the only one there is",
                cause="a table, and a struct, has at least one column",
                remedy="drop the struct, or the table",
            )
        return StructType(left)

    if not inside:
        return leave(schema)
    parent = ".".join(inside)
    return change(
        schema, parent, lambda item: replace(item, type=_in_struct(item.type, parent, leave))
    )


def reorder(schema: StructType, names: Sequence[str]) -> StructType:
    """With these columns first, in this order; the others follow as they are."""
    first = []
    for name in names:
        found = schema.field(name)
        if found is None:
            raise _missing(name)
        first.append(found)
    if len(set(map(id, first))) != len(first):
        raise ValidationError("a column is named twice", remedy="name each column once")
    return StructType((*first, *(item for item in schema.fields if item not in first)))


def describe(schema: StructType, name: str, comment: str | None) -> StructType:
    """With a column's comment; None takes it away."""

    def told(item: StructField) -> StructField:
        metadata = {key: value for key, value in item.metadata.items() if key != _COMMENT}
        return replace(
            item, metadata=metadata if comment is None else {**metadata, _COMMENT: comment}
        )

    return change(schema, name, told)


def widen(schema: StructType, name: str, new: Primitive) -> StructType:
    """With a column of a wider type, and the change written down as the spec wants it."""
    path = path_of(schema, name)
    # Changes inside arrays and maps are told by the field around them.
    depth = len(path)
    while depth > 1 and path[depth - 1] in ("element", "key", "value"):
        depth -= 1
    place = path[depth:]

    def wider(item: StructField) -> StructField:
        kind, old = _replaced(item.type, place, new, name)
        if not is_widening(old, new):
            raise ValidationError(
                f"{name!r:.80} can't change from {old.name} to {new.name}",
                cause="that is no widening of Delta's: some values would not fit, or change",
                remedy="add a column of the new type and fill it",
            )
        entry: dict[str, Any] = {"fromType": old.name, "toType": new.name}
        if place:
            entry["fieldPath"] = ".".join(place)
        known = item.metadata.get(TYPE_CHANGES)
        changes = [*(known if isinstance(known, list) else ()), entry]
        return replace(item, type=kind, metadata={**item.metadata, TYPE_CHANGES: changes})

    return _at(schema, path[:depth], name, wider)


def _replaced(
    kind: DeltaType, place: Path, new: Primitive, name: str
) -> tuple[DeltaType, Primitive]:
    match kind, place:
        case Primitive(), ():
            return new, kind
        case ArrayType(element, null), ("element", *rest):
            inner, old = _replaced(element, tuple(rest), new, name)
            return ArrayType(inner, null), old
        case MapType(key, value, null), ("key", *rest):
            inner, old = _replaced(key, tuple(rest), new, name)
            return MapType(inner, value, null), old
        case MapType(key, value, null), ("value", *rest):
            inner, old = _replaced(value, tuple(rest), new, name)
            return MapType(key, inner, null), old
    raise ValidationError(
        f"{name!r:.80} has no type that can be widened",
        cause="only scalars are widened",
        remedy="name a scalar column, or the way to one: items.element",
    )


# --- the way to a column ------------------------------------------------------------------


def _at(
    schema: StructType, path: Path, name: str, do: Callable[[StructField], StructField]
) -> StructType:
    """The schema with the field at the end of a path as `do` makes it."""
    first, rest = path[0].lower(), path[1:]
    if not any(item.name.lower() == first for item in schema.fields):
        raise _missing(name)
    return StructType(
        tuple(
            _into(item, rest, name, do) if item.name.lower() == first else item
            for item in schema.fields
        )
    )


def _into(
    item: StructField, path: Path, name: str, do: Callable[[StructField], StructField]
) -> StructField:
    if not path or (path[0] in ("element", "key", "value") and len(path) == 1):
        return do(item)
    return replace(item, type=_inside(item.type, path, name, do))


def _inside(
    kind: DeltaType, path: Path, name: str, do: Callable[[StructField], StructField]
) -> DeltaType:
    match kind, path:
        case StructType(), _:
            return _at(kind, path, name, do)
        case ArrayType(element, null), ("element", *rest):
            return ArrayType(_inside(element, tuple(rest), name, do), null)
        case MapType(key, value, null), ("key", *rest):
            return MapType(_inside(key, tuple(rest), name, do), value, null)
        case MapType(key, value, null), ("value", *rest):
            return MapType(key, _inside(value, tuple(rest), name, do), null)
    raise _missing(name)


def _in_struct(kind: DeltaType, name: str, do: Callable[[StructType], StructType]) -> DeltaType:
    """The struct that a column is, or has as its elements, as `do` makes it."""
    match kind:
        case StructType():
            return do(kind)
        case ArrayType(StructType() as inner, null):
            return ArrayType(do(inner), null)
        case MapType(key, StructType() as inner, null):
            return MapType(key, do(inner), null)
    raise ValidationError(f"{name!r:.80} is no struct", remedy="name a column that has fields")


def _struct_of(kind: DeltaType, name: str) -> StructType:
    found: list[StructType] = []

    def take(struct: StructType) -> StructType:
        found.append(struct)
        return struct

    _in_struct(kind, name, take)
    return found[0]


def _missing(name: str) -> ValidationError:
    return ValidationError(
        f"there is no column {name!r:.80}", remedy="table.snapshot().schema tells the columns"
    )
