"""Rows made to fit a table's schema: by name, cast as stock Delta casts, or refused.

Delta's writer does not check types: a string written to a long column gives a file that nobody can
read. So every frame goes through `fit` first. The rules are those of stock Delta for tables with a
name: column names match case-insensitively, missing ones are left to the writer (null, default,
generated), and values are cast as in ANSI SQL: text that is not a number and numbers that don't fit
fail the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltasql.errors import SchemaMismatchError
from deltasql.spec.properties import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOWS_EXPLICIT,
    IDENTITY_START,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
# A missing column with one of these gets its values from the writer.
_FILLED = frozenset({GENERATION_EXPRESSION, IDENTITY_START, CURRENT_DEFAULT})


def fit(frame: DataFrame, schema: StructType, *, change_feed: bool = False) -> DataFrame:
    """The frame with the table's names, order and types; unknown columns are refused."""
    there = _by_name(frame.schema)
    _refuse_strangers(there, schema)
    _refuse_reserved(there, schema, change_feed=change_feed)
    columns = []
    for wanted in schema.fields:
        have = there.get(wanted.name.lower())
        if have is not None:
            columns.append((have, wanted))
        elif not wanted.nullable and not _FILLED.intersection(wanted.metadata):
            raise SchemaMismatchError(
                f"the column {wanted.name!r} must have a value in every row",
                cause="it is NOT NULL and the rows lack it",
                remedy="fill it before writing",
                column=wanted.name,
            )
    if all(_same(have.dataType, wanted.dataType) for have, wanted in columns) and [
        have.name for have, _ in columns
    ] == frame.columns == [wanted.name for _, wanted in columns]:
        return frame
    return _selected(frame, columns)


def _selected(frame: DataFrame, columns: list[tuple[StructField, StructField]]) -> DataFrame:
    from pyspark.errors import AnalysisException

    chosen = [
        cast_to(frame[_quoted(have.name)], have.dataType, wanted.dataType, wanted.name).alias(
            wanted.name
        )
        for have, wanted in columns
    ]
    try:
        return frame.select(*chosen)
    except AnalysisException as error:
        raise SchemaMismatchError(
            "the rows do not fit the table's schema",
            cause=str(error).splitlines()[0],
            remedy="cast the columns before writing",
        ) from None


def cast_to(column: Column, have: DataType, want: DataType, where: str) -> Column:
    """A value cast to another type: structs by name, the rest as in ANSI SQL."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StructType

    if _same(have, want):
        return column
    if isinstance(have, StructType) and isinstance(want, StructType):
        return _cast_struct(column, have, want, where)
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return sql.transform(
            column, lambda item: cast_to(item, have.elementType, want.elementType, f"{where}[]")
        )
    if isinstance(have, MapType) and isinstance(want, MapType):
        entries = sql.transform(
            sql.map_entries(column),
            lambda entry: sql.struct(
                cast_to(entry["key"], have.keyType, want.keyType, f"{where}[key]").alias("key"),
                cast_to(entry["value"], have.valueType, want.valueType, f"{where}[value]").alias(
                    "value"
                ),
            ),
        )
        return sql.map_from_entries(entries)
    return ansi_cast(column, want)


def _cast_struct(column: Column, have: StructType, want: StructType, where: str) -> Column:
    from pyspark.sql import functions as sql

    there = _by_name(have)
    _refuse_strangers(there, want, where)
    parts = []
    for item in want.fields:
        found = there.get(item.name.lower())
        part = (
            sql.lit(None).cast(item.dataType)
            if found is None
            else cast_to(column[found.name], found.dataType, item.dataType, f"{where}.{item.name}")
        )
        parts.append(part.alias(item.name))
    return sql.when(column.isNotNull(), sql.struct(*parts))


def _same(have: DataType, want: DataType) -> bool:
    """Whether the values need no change, apart from nullability and comments."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(have, StructType) and isinstance(want, StructType):
        return have.names == want.names and all(
            _same(a.dataType, b.dataType) for a, b in zip(have.fields, want.fields, strict=True)
        )
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return _same(have.elementType, want.elementType)
    if isinstance(have, MapType) and isinstance(want, MapType):
        return _same(have.keyType, want.keyType) and _same(have.valueType, want.valueType)
    return have == want


def _by_name(schema: StructType) -> dict[str, StructField]:
    found: dict[str, StructField] = {}
    for item in schema.fields:
        if found.setdefault(item.name.lower(), item) is not item:
            raise SchemaMismatchError(
                f"the rows have two columns {item.name!r}",
                cause="column names in Delta are case-insensitive",
                remedy="rename or drop one of them",
            )
    return found


def _refuse_strangers(there: dict[str, StructField], schema: StructType, where: str = "") -> None:
    known = {item.name.lower() for item in schema.fields}
    strangers = [item.name for name, item in there.items() if name not in known]
    if strangers:
        inside = f" inside {where!r}" if where else ""
        raise SchemaMismatchError(
            f"the table has no column {', '.join(sorted(strangers))}{inside}",
            cause="the rows hold columns that the schema lacks",
            remedy="drop them, or let the schema grow with merge_schema=True",
        )


def _refuse_reserved(
    there: dict[str, StructField], schema: StructType, *, change_feed: bool
) -> None:
    for item in schema.fields:
        allowed = item.metadata.get(IDENTITY_ALLOWS_EXPLICIT)
        if allowed is False and item.name.lower() in there:
            raise SchemaMismatchError(
                f"the column {item.name!r} can't be written",
                cause="it is GENERATED ALWAYS AS IDENTITY",
                remedy="drop it from the rows; the table numbers them",
            )
    if change_feed:
        reserved = [name for name in _CHANGE_COLUMNS if name in there]
        if reserved:
            raise SchemaMismatchError(
                f"the column {reserved[0]!r} can't be written",
                cause="the change data feed, which the table has, uses that name",
                remedy="rename or drop the column",
            )


def ansi_cast(column: Column, want: DataType) -> Column:
    """A cast that fails on values that don't fit, whatever the session's setting.

    The cast itself says so: changing the session's setting for a moment would affect its other
    threads.
    """
    from pyspark import SparkContext
    from pyspark.sql.classic.column import Column as ClassicColumn

    context: Any = SparkContext._active_spark_context
    internal = context._jvm.org.apache.spark.sql.internal
    mode = context._jvm.scala.Option.apply(getattr(getattr(internal, "Cast$Ansi$"), "MODULE$"))
    plain: Any = column.cast(want)
    node = plain._jc.node()
    made = internal.Cast(node.child(), node.dataType(), mode, node.origin())
    return ClassicColumn(context._jvm.org.apache.spark.sql.Column(made))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
