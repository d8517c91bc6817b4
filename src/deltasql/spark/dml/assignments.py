"""Values for the columns of a table, as set by an update or a merge clause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.spark.native.enforcement import ansi_cast, cast_to
from deltasql.spec.properties import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOWS_EXPLICIT,
    IDENTITY_START,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

    # Paths below a column, and their values.
    Fields = list[tuple[tuple[str, ...], Column]]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def as_column(given: str | Column) -> Column:
    """A Spark SQL expression as a column, or a column unchanged."""
    from pyspark.sql import functions as sql

    return sql.expr(given) if isinstance(given, str) else given


def quoted(name: str) -> str:
    """A quoted name, which may contain dots and backticks."""
    return "`" + name.replace("`", "``") + "`"


def name_parts(text: str) -> tuple[str, ...]:
    """The parts of a column's name, without backticks."""
    found = [
        match[1].replace("``", "`") if match[1] else match[2] for match in _PART.finditer(text)
    ]
    if not found:
        raise ValidationError(f"{text!r} is not a column name", remedy="name a column of the table")
    return tuple(found)


def column_names(
    given: Mapping[str, str | Column], alias: str, columns: Iterable[str]
) -> list[str]:
    """The columns that a clause sets, without their alias; `columns` are the table's own."""
    names = {name.lower() for name in columns}
    return [_without_alias(name_parts(key), alias, names)[0] for key in given]


def new_values(
    frame: DataFrame,
    schema: StructType,
    given: Mapping[str, str | Column],
    *,
    alias: str,
    old: Mapping[str, Column],
    numbers: Mapping[str, Column] | None = None,
    structs_first: bool = False,
) -> dict[str, Column]:
    """The value of each column after the clause; columns that it does not set keep theirs.

    `old` is empty if there was no row: then columns that are not set get their default, or null,
    and identity columns their number. With `structs_first`, a struct with the same name as the
    alias takes precedence over the table: for expressions that don't know the alias.
    """
    names = {name.lower() for name in schema.names}
    values = {key: as_column(value) for key, value in given.items()}
    have = _types(frame, values)
    found: dict[str, Column] = {}
    inside: dict[str, Fields] = {}
    for key, value in values.items():
        parts = name_parts(key)
        if not (structs_first and _is_inside(schema, parts)):
            parts = _without_alias(parts, alias, names)
        field = _field(schema, parts[0])
        _refuse_identity(field, is_update=bool(old))
        want = _nested(field.dataType, parts[1:], key)
        cast = cast_to(value, have[key], want, key)
        if len(parts) == 1:
            _refuse_twice(key, field.name in found or field.name in inside)
            found[field.name] = cast
        elif field.name in found or field.name in old:
            inside.setdefault(field.name, []).append((parts[1:], cast))
        else:
            raise _no_nested_insert(key)
    for name, fields in inside.items():
        found[name] = _with_fields(found.get(name, old.get(name)), _field(schema, name), fields)
    found = {**(numbers or {}), **found}
    return {field.name: _value(field, found, old) for field in schema.fields}


def completed(frame: DataFrame, schema: StructType, *more: str) -> DataFrame:
    """The frame, with generated columns computed if no clause has set them."""
    from pyspark.sql import functions as sql

    if not any(GENERATION_EXPRESSION in field.metadata for field in schema.fields):
        return frame
    columns = [
        ansi_cast(
            sql.coalesce(quoted(field.name), sql.expr(field.metadata[GENERATION_EXPRESSION])),
            field.dataType,
        ).alias(field.name)
        if GENERATION_EXPRESSION in field.metadata
        else sql.col(quoted(field.name))
        for field in schema.fields
    ]
    return frame.select(*columns, *map(quoted, more))


def _value(field: StructField, found: Mapping[str, Column], old: Mapping[str, Column]) -> Column:
    from pyspark.sql import functions as sql

    if field.name in found:
        return found[field.name]
    nothing = sql.lit(None).cast(field.dataType)
    if GENERATION_EXPRESSION in field.metadata:
        return nothing
    if field.name in old:
        return old[field.name]
    if CURRENT_DEFAULT in field.metadata:
        return ansi_cast(sql.expr(field.metadata[CURRENT_DEFAULT]), field.dataType)
    return nothing


def _types(frame: DataFrame, values: Mapping[str, Column]) -> dict[str, DataType]:
    chosen = [value.alias(str(number)) for number, value in enumerate(values.values())]
    types = [field.dataType for field in frame.select(*chosen).schema.fields]
    return dict(zip(values, types, strict=True))


def _without_alias(parts: tuple[str, ...], alias: str, names: Set[str]) -> tuple[str, ...]:
    """Resolve names as Spark does: a column of the table comes before a field of a struct."""
    if len(parts) == 1 or parts[0].lower() != alias.lower():
        return parts
    is_struct = parts[1].lower() not in names and alias.lower() in names
    return parts if is_struct else parts[1:]


def _is_inside(schema: StructType, parts: tuple[str, ...]) -> bool:
    """Whether a name of several parts names a struct's field."""
    for field in schema.fields:
        if len(parts) > 1 and field.name.lower() == parts[0].lower():
            inner = getattr(field.dataType, "names", ())
            return parts[1].lower() in {name.lower() for name in inner}
    return False


def _field(schema: StructType, name: str) -> StructField:
    for field in schema.fields:
        if field.name.lower() == name.lower():
            return field
    raise SchemaMismatchError(
        f"the table has no column {name!r}",
        cause=f"its columns are {', '.join(schema.names)}",
        remedy="name one of them; a merge with withSchemaEvolution() adds columns of its source",
        column=name,
    )


def _with_fields(base: Column | None, field: StructField, given: Fields) -> Column:
    """A struct with some fields set; if it is null, so are the others, as in stock Delta."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    whole = [value for path, value in given if not path]
    if whole:
        return whole[-1]
    assert base is not None
    if not given:
        return base
    assert isinstance(field.dataType, StructType)
    parts = []
    for item in field.dataType.fields:
        mine = [(path[1:], value) for path, value in given if path[0].lower() == item.name.lower()]
        parts.append(_with_fields(base.getField(item.name), item, mine).alias(item.name))
    return sql.struct(*parts)


def _nested(kind: DataType, path: Sequence[str], key: str) -> DataType:
    from pyspark.sql.types import StructType

    for name in path:
        if not isinstance(kind, StructType):
            raise SchemaMismatchError(
                f"{key!r} can't be set",
                cause=f"{name!r} would be inside a value that is not a struct",
                remedy="set the whole column",
            )
        kind = _field(kind, name).dataType
    return kind


def _refuse_identity(field: StructField, *, is_update: bool) -> None:
    if IDENTITY_START not in field.metadata:
        return
    if is_update or not field.metadata.get(IDENTITY_ALLOWS_EXPLICIT, True):
        raise ValidationError(
            f"the column {field.name!r} can't be set",
            cause="it is an identity column"
            + (", and rows keep their number" if is_update else ", GENERATED ALWAYS"),
            remedy="leave it out; the table numbers its rows",
        )


def _refuse_twice(key: str, is_set: bool) -> None:  # noqa: FBT001
    if is_set:
        raise ValidationError(f"{key!r} is set twice", remedy="set it once")


def _no_nested_insert(key: str) -> ValidationError:
    return ValidationError(
        f"an inserted row can't have {key!r} alone",
        cause="the struct that it belongs to does not exist yet",
        remedy="set the whole column",
    )
