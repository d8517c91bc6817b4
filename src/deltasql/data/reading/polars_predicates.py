"""What a filter of Polars asks of a table, so that files without such rows stay shut.

Polars tells a filter as an expression, whose JSON has all that is needed. What is not known here is
left to Polars, which filters the rows again.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from deltasql.errors import DeltaSqlError
from deltasql.log.predicates.predicate import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    bind,
)
from deltasql.spec.schema import StructType

if TYPE_CHECKING:
    import polars as pl

Node = Any
_OPERATORS: Final = {
    "Eq": "=",
    "NotEq": "<>",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "EqValidity": "<=>",
}
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BOUNDS: Final = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
# Times count by their unit: Delta has none that is finer than a microsecond.
_UNITS: Final = ("Microseconds", "Milliseconds")
_SCALARS: Final = frozenset(
    {"Boolean", "String", "Binary", "Date", "Decimal", "Float32", "Float64", "List"}
    | {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
)


class _NotUnderstoodError(Exception):
    """The log can't express this part of a filter."""


def asked_by(expression: pl.Expr, schema: StructType) -> Predicate | None:
    """A bound predicate that holds for every row that the filter keeps; None if none is known."""
    import polars as pl

    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError):
        # Some expressions, such as calls of Python functions, can't be told as JSON.
        return None
    found = []
    for part in _conjuncts(tree):
        try:
            found.append(bind(_predicate(part), schema))
        except (_NotUnderstoodError, DeltaSqlError):
            continue
    return And(tuple(found)) if found else None


def _conjuncts(node: Node) -> list[Node]:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return [*_conjuncts(left), *_conjuncts(right)]
    return [node]


def _predicate(node: Node) -> Predicate:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return And((_predicate(left), _predicate(right)))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return Or((_predicate(left), _predicate(right)))
        case {"BinaryExpr": {"left": left, "op": str(name), "right": right}} if name in _OPERATORS:
            return _comparison(_OPERATORS[name], left, right)
        case {"Function": {"function": {"Boolean": name}, "input": [*given]}}:
            return _function(name, given)
        case {"Column": _}:
            return Comparison("=", _column(node), Literal(value=True))
    raise _NotUnderstoodError


def _function(name: Node, given: list[Node]) -> Predicate:
    match name, given:
        case "Not", [part]:
            return Not(_predicate(part))
        case "IsNull", [part]:
            return IsNull(_column(part))
        case "IsNotNull", [part]:
            return Not(IsNull(_column(part)))
        case {"IsIn": {"nulls_equal": False}}, [part, items]:
            values = _value(items)
            if isinstance(values, list) and None not in values:
                return In(_column(part), tuple(values))
        case {"IsBetween": {"closed": str(closed)}}, [part, low, high] if closed in _BOUNDS:
            above, below = _BOUNDS[closed]
            return And((_comparison(above, part, low), _comparison(below, part, high)))
    raise _NotUnderstoodError


def _comparison(operator: str, left: Node, right: Node) -> Predicate:
    if "Literal" in left:
        left, right, operator = right, left, _FLIPPED.get(operator, operator)
    if "Literal" in right:
        return Comparison(operator, _column(left), Literal(_value(right)))
    return Comparison(operator, _column(left), _column(right))


def _column(node: Node) -> Column:
    match node:
        case {"Column": str(name)}:
            return Column((name,))
        case {
            "Function": {"function": {"StructExpr": {"FieldByName": str(name)}}, "input": [part]}
        }:
            return Column((*_column(part).path, name))
    raise _NotUnderstoodError


def _value(node: Node) -> Any:
    """A literal's value, which Polars itself makes of its JSON."""
    import polars as pl

    match node:
        case {"Literal": {"Dyn": {"Int": _} | {"Float": _}}}:
            pass
        case {"Literal": {"Scalar": {"Datetime": [_, unit, _]}}} if unit in _UNITS:
            pass
        case {"Literal": {"Scalar": {**scalar}}} if _SCALARS.issuperset(scalar):
            pass
        case _:
            raise _NotUnderstoodError
    try:
        told = pl.Expr.deserialize(StringIO(json.dumps(node)), format="json")
    except pl.exceptions.PolarsError:
        # JSON has no word for NaN and the infinities: Polars writes null, and can't read it back.
        raise _NotUnderstoodError from None
    found = pl.select(told).item()
    return found.to_list() if isinstance(found, pl.Series) else found
