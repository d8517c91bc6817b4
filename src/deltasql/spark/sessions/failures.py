"""Errors of Spark and Delta as our own: problem, cause, remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deltasql.errors import ConfigError, DeltaSqlError, SchemaMismatchError

# Errors in the rows themselves, by the names that Spark and Delta give to conditions.
_ROW_CONDITIONS = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "CAST_OVERFLOW_IN_TABLE_INSERT",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "EXCEED_LIMIT_LENGTH",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
    "NOT_NULL_ASSERT_VIOLATION",
)
_ROW_CLASSES = ("InvariantViolationException", "ArithmeticException", "NumberFormatException")
_DEEPEST = 20


@contextmanager
def explained() -> Iterator[None]:
    """Raise what the table's own rules refused as `SchemaMismatchError`; pass on the rest."""
    try:
        yield
    except DeltaSqlError:
        raise
    except Exception as error:
        told = _broken_rule(error)
        if told is None:
            raise
        raise SchemaMismatchError(
            "the rows do not fit the table",
            cause=told,
            remedy="correct the rows, or leave them out; nothing was committed",
        ) from error


def _broken_rule(error: BaseException) -> str | None:
    """The message of the first cause that concerns a row, on either side of the gateway."""
    java: Any = getattr(error, "java_exception", None)
    if java is None:
        java = getattr(error, "_origin", None)
    for _ in range(_DEEPEST):
        if java is None:
            break
        message = str(java.getMessage() or "")
        kind = str(java.getClass().getName())
        condition = message[1:].partition("]")[0].partition(".")[0]
        if condition in _ROW_CONDITIONS or kind.endswith(_ROW_CLASSES):
            return message.splitlines()[0]
        java = java.getCause()
    text = str(error)
    for condition in _ROW_CONDITIONS:
        start = text.find(f"[{condition}")
        if start >= 0:
            return text[start:].splitlines()[0]
    return None


def no_native_route(cause: str, remedy: str) -> ConfigError:
    """Why Delta's reader and writer can't be used here."""
    return ConfigError("this session can't use the native route", cause=cause, remedy=remedy)


def natively(verb: str) -> str:
    """The remedy for what the data source route can't do."""
    return f"use the native route: db = deltasql.spark.attach(…); db.{verb}(…)"
