"""Filters that Spark pushes to a data source, as our predicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltasql.errors import DeltaSqlError
from deltasql.log.predicates.predicate import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Predicate,
    bind,
)
from deltasql.spec.schema import Primitive, StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_COMPARISONS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_LIKE = {"StringStartsWith": ("", "%"), "StringEndsWith": ("%", ""), "StringContains": ("%", "%")}


def understood(filters: Sequence[Filter], schema: StructType) -> Predicate | None:
    """All filters that we can decide, joined; Spark applies each of them again."""
    found = [_bound(item, schema) for item in filters]
    parts = tuple(item for item in found if item is not None)
    return And(parts) if len(parts) > 1 else next(iter(parts), None)


def _bound(item: Filter, schema: StructType) -> Predicate | None:
    try:
        predicate = bind(_predicate(item), schema)
    except (DeltaSqlError, KeyError):
        return None
    column = _column_of(predicate)
    # Spark compares floats as doubles, with digits that stats don't show.
    return None if column is not None and column.type == Primitive("float") else predicate


def _predicate(item: Any) -> Predicate:
    kind = type(item).__name__
    if kind == "Not":
        return Not(_predicate(item.child))
    column = Column(tuple(item.attribute))
    if kind == "IsNull":
        return IsNull(column)
    if kind == "IsNotNull":
        return Not(IsNull(column))
    if kind == "In":
        return In(column, tuple(item.value))
    if kind in _LIKE:
        before, after = _LIKE[kind]
        return Like(column, before + _escaped(item.value) + after)
    return Comparison(_COMPARISONS[kind], column, Literal(item.value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _column_of(predicate: Predicate) -> Column | None:
    match predicate:
        case Not(part):
            return _column_of(part)
        case Comparison(_, column, _) | In(column) | Like(column) | IsNull(column):
            return column
    return None
