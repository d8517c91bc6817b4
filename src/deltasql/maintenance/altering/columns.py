"""Schemas with a column changed: added, renamed, dropped, moved, widened, described.

A column is named by its path: `address.zip` is a field of a struct, and backticks quote a name that
has dots. `element`, `key` and `value` lead into arrays and maps, and are names like any other in a
struct.
"""

from __future__ import annotations

import re
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
_QUOTED: Final = re.compile("`(?:[^`]|``)+`")
# What is not well quoted is a name as it stands.
_PART: Final = re.compile(rf"(?:^|(?<=\.))(?:{_QUOTED.pattern}(?=\.|$)|[^.]*)")


def path_of(schema: StructType, name: str) -> Path:
    """The path that a name means: a column of just that name, or the path into a struct."""
    return (name,) if schema.field(name) is not None else parts_of(name)


def parts_of(name: str) -> Path:
    """The parts of a name that dots separate; those in backticks are taken as they are."""
    return (
        tuple(plain(part) for part in _PART.findall(name))
        if "`" in name
        else (tuple(name.split(".")))
    )


def plain(name: str) -> str:
    """A single name without the backticks around it."""
    return name[1:-1].replace("``", "`") if _QUOTED.fullmatch(name) else name


def place_of(schema: StructType, name: str) -> tuple[Path | None, str]:
    """Where a new column of that name goes: the struct that it is to be in, and its own name."""
    *quoted, last = parts_of(name)
    if not quoted:
        return None, last
    inside = tuple(quoted) if "`" in name else path_of(schema, name.rpartition(".")[0])
    if schema.field(inside[0]) is not None:
        return inside, last
    if "`" in name:
        raise _missing(inside[0])
    # No column, so no struct either: the name itself has dots.
    return None, name


def find(schema: StructType, name: str) -> StructField:
    """The column of a name; `ValidationError` if there is none."""
    return fields_to(schema, name)[-1]


def fields_to(schema: StructType, name: str) -> list[StructField]:
    """The column of a name, last, after the columns that contain it."""
    path = path_of(schema, name)
    found = _fields_along(schema, path, name)
    if found[-1][0] != len(path):
        raise _missing(name)
    return [item for _, item in found]


def around(schema: StructType, name: str) -> StructField:
    """The column of a name; for what an array or a map holds, the column around it."""
    return _fields_along(schema, path_of(schema, name), name)[-1][1]


def add(
    schema: StructType,
    parent: Path | str | None,
    fields: Iterable[StructField],
    *,
    first: bool = False,
    after: str | None = None,
) -> StructType:
    """The schema with new fields, in itself or in one of its structs."""
    new = tuple(fields)
    after = None if after is None else plain(after)

    def join(inside: StructType) -> StructType:
        for item in new:
            if inside.field(item.name) is not None:
                raise ValidationError(
                    f"there is already a column {item.name!r:.80}",
                    cause="names are case-insensitive",
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
    path = path_of(schema, parent) if isinstance(parent, str) else parent
    name = ".".join(path)
    return _changed(schema, path, name, lambda kind: _in_struct(kind, name, join))


def change(schema: StructType, name: str, how: Callable[[StructField], StructField]) -> StructType:
    """The schema with one column as `how` makes it."""
    return _at(schema, path_of(schema, name), name, how)


def rename(schema: StructType, name: str, new_name: str) -> StructType:
    """The schema with a column under another name."""
    *inside, old = path_of(schema, name)

    def renamed(struct: StructType) -> StructType:
        item, other = struct.field(old), struct.field(new_name)
        if item is None:
            raise _missing(name)
        if other is not None and other is not item:
            raise ValidationError(
                f"there is already a column {new_name!r:.80}", remedy="choose another name"
            )
        return _with(struct, item, replace(item, name=new_name))

    return _changed(schema, inside, name, _of_struct(renamed, name))


def drop(schema: StructType, name: str) -> StructType:
    """The schema without a column."""
    *inside, last = path_of(schema, name)

    def leave(struct: StructType) -> StructType:
        left = tuple(item for item in struct.fields if item.name.lower() != last.lower())
        if len(left) == len(struct.fields):
            raise _missing(name)
        if not left:
            raise ValidationError(
                f"{name!r:.80} is the only one left",
                cause="a table or a struct needs at least one column",
                remedy="drop the struct, or the table",
            )
        return StructType(left)

    return _changed(schema, inside, name, _of_struct(leave, name))


def reorder(schema: StructType, names: Sequence[str]) -> StructType:
    """The schema with these columns first, in this order; the others follow as they are."""
    first = []
    for name in names:
        found = schema.field(plain(name))
        if found is None:
            raise _missing(name)
        first.append(found)
    if len(set(map(id, first))) != len(first):
        raise ValidationError("a column is named twice", remedy="name each column once")
    return StructType((*first, *(item for item in schema.fields if item not in first)))


def describe(schema: StructType, name: str, comment: str | None) -> StructType:
    """The schema with a column's comment; None removes it."""

    def told(item: StructField) -> StructField:
        metadata = {key: value for key, value in item.metadata.items() if key != _COMMENT}
        return replace(
            item, metadata=metadata if comment is None else {**metadata, _COMMENT: comment}
        )

    return change(schema, name, told)


def widen(schema: StructType, name: str, new: Primitive) -> StructType:
    """The schema with a column of a wider type, and the change recorded as the spec requires."""
    path = path_of(schema, name)
    # Changes inside arrays and maps are recorded in the field around them.
    depth, _ = _fields_along(schema, path, name)[-1]
    place = tuple(step.lower() for step in path[depth:])

    def wider(item: StructField) -> StructField:
        kind, old = _replaced(item.type, place, new, name)
        if not is_widening(old, new):
            raise ValidationError(
                f"{name!r:.80} can't change from {old.name} to {new.name}",
                cause="Delta does not widen it that way: some values would not fit, or would "
                "change",
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
        cause="only scalar types can be widened",
        remedy="name a scalar column, or the way to one: items.element",
    )


# --- the way to a column ------------------------------------------------------------------


def _at(
    schema: StructType, path: Path, name: str, do: Callable[[StructField], StructField]
) -> StructType:
    """The schema with the field at the end of a path as `do` makes it."""
    *inside, last = path

    def done(struct: StructType) -> StructType:
        item = struct.field(last)
        if item is None:
            raise _missing(name)
        return _with(struct, item, do(item))

    return _changed(schema, inside, name, _of_struct(done, name))


def _changed(
    schema: StructType, path: Sequence[str], name: str, do: Callable[[DeltaType], DeltaType]
) -> StructType:
    """The schema with the type at the end of a path as `do` makes it."""
    found = _inside(schema, path, name, do)
    assert isinstance(found, StructType), "a struct stays one"
    return found


def _inside(
    kind: DeltaType, path: Sequence[str], name: str, do: Callable[[DeltaType], DeltaType]
) -> DeltaType:
    if not path:
        return do(kind)
    step, rest = path[0].lower(), path[1:]
    match kind:
        case StructType():
            item = kind.field(step)
            if item is None:
                raise _missing(name)
            return _with(kind, item, replace(item, type=_inside(item.type, rest, name, do)))
        case ArrayType(element, null) if step == "element":
            return ArrayType(_inside(element, rest, name, do), null)
        case MapType(key, value, null) if step == "key":
            return MapType(_inside(key, rest, name, do), value, null)
        case MapType(key, value, null) if step == "value":
            return MapType(key, _inside(value, rest, name, do), null)
    raise _missing(name)


def _fields_along(schema: StructType, path: Path, name: str) -> list[tuple[int, StructField]]:
    """The fields on a path, each with the number of steps that lead to it."""
    found: list[tuple[int, StructField]] = []
    kind: DeltaType = schema
    for number, step in enumerate(path, 1):
        match kind, step.lower():
            case StructType(), _:
                item = kind.field(step)
                if item is None:
                    raise _missing(name)
                found.append((number, item))
                kind = item.type
            case ArrayType(), "element":
                kind = kind.element
            case MapType(), "key":
                kind = kind.key
            case MapType(), "value":
                kind = kind.value
            case _:
                raise _missing(name)
    return found


def _with(struct: StructType, old: StructField, new: StructField) -> StructType:
    return StructType(tuple(new if item is old else item for item in struct.fields))


def _of_struct(
    do: Callable[[StructType], StructType], name: str
) -> Callable[[DeltaType], DeltaType]:
    def done(kind: DeltaType) -> DeltaType:
        if not isinstance(kind, StructType):
            raise _missing(name)
        return do(kind)

    return done


def _in_struct(kind: DeltaType, name: str, do: Callable[[StructType], StructType]) -> DeltaType:
    """The struct that a column is, or has as its elements, as `do` makes it."""
    match kind:
        case StructType():
            return do(kind)
        case ArrayType(StructType() as inner, null):
            return ArrayType(do(inner), null)
        case MapType(key, StructType() as inner, null):
            return MapType(key, do(inner), null)
    raise ValidationError(f"{name!r:.80} is not a struct", remedy="name a column that has fields")


def _missing(name: str) -> ValidationError:
    return ValidationError(
        f"there is no column {name!r:.80}", remedy="table.snapshot().schema lists the columns"
    )
