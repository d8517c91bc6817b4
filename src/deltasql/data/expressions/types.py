"""Delta's types in DuckDB's words, and casts between them as in ANSI Spark."""

from __future__ import annotations

from deltasql.data.expressions.engine import quoted
from deltasql.errors import UnsupportedFeatureError
from deltasql.spec.schema import ArrayType, DeltaType, MapType, Primitive, StructType

_SIMPLE = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "void": "INTEGER",
}
# Spark's names for types that DuckDB's parser does not know, or knows by another name.
SPARK_NAMES = {
    "byte": "TINYINT",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp_ltz": "TIMESTAMP WITH TIME ZONE",
}
INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"})
# The types that Spark can add to a date.
DAYS = frozenset({"TINYINT", "SMALLINT", "INTEGER", '"NULL"'})
FLOATS = frozenset({"FLOAT", "DOUBLE"})
# The type of NULL before it is cast.
UNTYPED = '"NULL"'
INSTANT = "TIMESTAMP WITH TIME ZONE"
_TIMES = frozenset({"DATE", "TIMESTAMP", INSTANT})
# DuckDB reads 2024/01/31 as well, epoch, infinity, and 24:00 as the next day.
_TIME = r"[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}(?:[ T](?:[01]?[0-9]|2[0-3])\b.*)?"
_TRUE = "'t', 'true', 'y', 'yes', '1'"
_FALSE = "'f', 'false', 'n', 'no', '0'"


def widened(one: str, other: str, kinds: tuple[str, str]) -> tuple[str, str]:
    """Two numbers as they meet: next to any other type, a FLOAT becomes a DOUBLE in Spark."""
    first, second = kinds
    if "FLOAT" not in kinds or first == second or not (is_number(first) and is_number(second)):
        return one, other
    return f"CAST({one} AS DOUBLE)", f"CAST({other} AS DOUBLE)"


def engine_type(kind: DeltaType) -> str:
    """The type in DuckDB that holds the values of a Delta type."""
    match kind:
        case StructType(fields):
            inner = ", ".join(f"{quoted(item.name)} {engine_type(item.type)}" for item in fields)
            return f"STRUCT({inner})"
        case ArrayType(element):
            return f"{engine_type(element)}[]"
        case MapType(key, value):
            return f"MAP({engine_type(key)}, {engine_type(value)})"
        case Primitive(name):
            if kind.decimal is not None:
                return f"DECIMAL({kind.decimal[0]},{kind.decimal[1]})"
            if name in _SIMPLE:
                return _SIMPLE[name]
    raise UnsupportedFeatureError(
        f"values of type {kind} can't be evaluated here",
        cause="the embedded engine has no such type",
        remedy="use Spark for this table",
    )


def is_nested(kind: str) -> bool:
    """Whether a DuckDB type has values inside its values."""
    return kind.startswith(("STRUCT", "MAP")) or kind.endswith("]")


def is_number(kind: str) -> bool:
    """Whether a DuckDB type is numeric."""
    return kind in INTEGERS or kind in FLOATS or kind.startswith("DECIMAL")


def cast(sql: str, have: str, want: str) -> str:
    """An expression cast to another type: what does not fit fails, fractions are cut off."""
    if have == want:
        return sql
    if have == UNTYPED:
        return f"CAST({sql} AS {want})"
    if want == "VARCHAR":
        return _as_text(sql, have)
    if have == "VARCHAR":
        return _from_text(sql, want)
    if want in INTEGERS and (have in FLOATS or have.startswith("DECIMAL")):
        return f"CAST(trunc({sql}) AS {want})"
    if want.startswith("DECIMAL") and have in FLOATS:
        return f"CASE WHEN isfinite({sql}) THEN CAST({sql} AS {want}) END"
    if want == "BOOLEAN" and is_number(have):
        return f"({sql} <> 0)"
    if {have, want} & {"BOOLEAN", "BLOB"} and not (have == "BOOLEAN" and is_number(want)):
        raise _refused(have, want)
    if is_number(have) != is_number(want) and have != "BOOLEAN":
        # Spark counts seconds since 1970 here; DuckDB does something else, or nothing.
        raise _refused(have, want)
    return f"CAST({sql} AS {want})"


def _as_text(sql: str, have: str) -> str:
    if have in FLOATS or is_nested(have) or have == "INTERVAL":
        # Spark writes 1.0E10, DuckDB 10000000000.0.
        raise _refused(have, "VARCHAR")
    if have == INSTANT:
        return f"CAST(CAST({sql} AS TIMESTAMP) AS VARCHAR)"
    if have == "BLOB":
        return f"decode({sql})"
    return f"CAST({sql} AS VARCHAR)"


def _from_text(sql: str, want: str) -> str:
    if want == "BLOB":
        return f"encode({sql})"
    if want == "BOOLEAN":
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL WHEN lower(trim({sql})) IN ({_TRUE}) THEN true "
            f"WHEN lower(trim({sql})) IN ({_FALSE}) THEN false "
            f"ELSE error('not a boolean: ' || {sql}) END"
        )
    if want in INTEGERS:
        # DuckDB would read '1.5' as 2.
        return (
            f"CASE WHEN {sql} IS NULL OR regexp_full_match(trim({sql}), '[+-]?[0-9]+') "
            f"THEN CAST(ltrim(trim({sql}), '+') AS {want}) "
            f"ELSE error('not a whole number: ' || {sql}) END"
        )
    if is_nested(want):
        raise _refused("VARCHAR", want)
    if is_number(want):
        # DuckDB would read '1_000' as 1000.
        return (
            f"CASE WHEN {sql} IS NULL OR NOT contains({sql}, '_') "
            f"THEN CAST(trim({sql}) AS {want}) ELSE error('not a number: ' || {sql}) END"
        )
    if want in _TIMES:
        return (
            f"CASE WHEN {sql} IS NULL OR regexp_full_match(trim({sql}), '{_TIME}') "
            f"THEN CAST(trim({sql}) AS {want}) ELSE error('not a day or time: ' || {sql}) END"
        )
    return f"CAST(trim({sql}) AS {want})"


def _refused(have: str, want: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"a value of type {have} can't be cast to {want} here",
        cause="the embedded engine would not give the same value as Spark",
        remedy="compute it beforehand, or use Spark for this operation",
    )
