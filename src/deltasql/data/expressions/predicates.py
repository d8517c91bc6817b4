"""What the log understands of a condition, so that SQL skips files that can't hold its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from deltasql.errors import DeltaSqlError, LogFormatError
from deltasql.log.predicates.ast import (
    FLIPPED,
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
)
from deltasql.log.predicates.binding import bind
from deltasql.spec.partition_values import parse_value
from deltasql.spec.schema import Primitive, StructType

Node = dict[str, Any]
# The path of one of the table's own columns, from a dotted name; None for any other.
OwnColumn = Callable[[list[str]], tuple[str, ...] | None]

_OPERATORS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_NOT_DISTINCT_FROM": "<=>",
}
_TYPED = {"DATE": "date", "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp_ntz"}
# Literals of any other type are compared in Spark's own way: left to the engine.
_SAME_KIND: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "date": (date, str),
    "timestamp": (datetime, date, str),
    "timestamp_ntz": (datetime, date, str),
}


# A time with a zone: left to the engine.
_ZONE = re.compile(r":.*(?:[a-zA-Z]|[+-][0-9:]+)\s*$")


class _NotUnderstoodError(Exception):
    """The log can't express this part of a condition."""


def conjuncts(node: Node) -> Iterator[Node]:
    """The parts of a condition that must all hold."""
    if node["type"] == "CONJUNCTION_AND":
        for child in node["children"]:
            yield from conjuncts(child)
    else:
        yield node


def understood(node: Node, schema: StructType, own: OwnColumn) -> tuple[Predicate | None, bool]:
    """What the log understands of a condition, bound, and whether that is all of it."""
    found, whole = [], True
    for part in conjuncts(node):
        try:
            found.append(bind(_predicate(part, schema, own), schema))
        except (_NotUnderstoodError, DeltaSqlError):
            whole = False
    if not found:
        return None, False
    return (found[0] if len(found) == 1 else And(tuple(found))), whole


def _predicate(node: Node, schema: StructType, own: OwnColumn) -> Predicate:
    kind = node["type"]
    match node["class"]:
        case "CONJUNCTION":
            parts = tuple(_predicate(child, schema, own) for child in node["children"])
            return And(parts) if kind == "CONJUNCTION_AND" else Or(parts)
        case "COMPARISON" if kind in _OPERATORS:
            return _comparison(_OPERATORS[kind], node["left"], node["right"], schema, own)
        case "FUNCTION" if node["function_name"] == "<=>":
            return _comparison("<=>", node["children"][0], node["children"][1], schema, own)
        case "OPERATOR":
            return _operator(kind, node["children"], schema, own)
        case "BETWEEN":
            low = _comparison(">=", node["input"], node["lower"], schema, own)
            return And((low, _comparison("<=", node["input"], node["upper"], schema, own)))
        case "COLUMN_REF":
            return Comparison("=", _column(node, own), Literal(value=True))
        case "CAST" | "CONSTANT":
            value = _literal(node)
            if value is None or isinstance(value, bool):
                return Constant(value)
    raise _NotUnderstoodError


def _operator(kind: str, children: list[Node], schema: StructType, own: OwnColumn) -> Predicate:
    match kind:
        case "OPERATOR_NOT":
            return Not(_predicate(children[0], schema, own))
        case "OPERATOR_IS_NULL":
            return IsNull(_column(children[0], own))
        case "OPERATOR_IS_NOT_NULL":
            return Not(IsNull(_column(children[0], own)))
        case "COMPARE_IN" | "COMPARE_NOT_IN":
            column = _column(children[0], own)
            values = tuple(_fitting(column, item, schema) for item in children[1:])
            found = In(column, values)
            return found if kind == "COMPARE_IN" else Not(found)
    raise _NotUnderstoodError


def _comparison(
    operator: str, left: Node, right: Node, schema: StructType, own: OwnColumn
) -> Predicate:
    if left["class"] != "COLUMN_REF":
        left, right, operator = right, left, FLIPPED[operator]
    column = _column(left, own)
    if right["class"] == "COLUMN_REF":
        return Comparison(operator, column, _column(right, own))
    return Comparison(operator, column, Literal(_fitting(column, right, schema)))


def _column(node: Node, own: OwnColumn) -> Column:
    path = own(node["column_names"]) if node["class"] == "COLUMN_REF" else None
    if path is None:
        raise _NotUnderstoodError
    return Column(path)


def _fitting(column: Column, node: Node, schema: StructType) -> Any:
    """A literal that can be compared with the column without casting the column."""
    value = _literal(node)
    if value is None:
        return None
    item = schema.field(column.path[0])
    kind = item.type if item is not None and len(column.path) == 1 else None
    if not isinstance(kind, Primitive) or isinstance(value, bool) != (kind.name == "boolean"):
        raise _NotUnderstoodError
    is_float = kind.name in ("float", "double")
    # Next to a double, any other number would become a double.
    wanted = _SAME_KIND.get(kind.name, (int, float, Decimal) if is_float else (int, Decimal))
    if not isinstance(value, wanted):
        raise _NotUnderstoodError
    return value


def _literal(node: Node) -> Any:
    if node["class"] == "CAST":
        return _typed(node)
    if node["class"] != "CONSTANT":
        raise _NotUnderstoodError
    value = node["value"]
    if value["is_null"]:
        return None
    found, kind = value["value"], value["type"]["id"]
    if kind == "DECIMAL" and isinstance(found, int):
        return Decimal(found).scaleb(-value["type"]["type_info"]["scale"])
    if kind in ("INTEGER", "BIGINT", "DOUBLE", "VARCHAR") and isinstance(found, int | float | str):
        return found
    raise _NotUnderstoodError


def _typed(node: Node) -> Any:
    child, kind = node["child"], node["cast_type"]["id"]
    if child["class"] != "CONSTANT" or child["value"]["is_null"]:
        raise _NotUnderstoodError
    text = child["value"]["value"]
    if kind == "BOOLEAN" and text in ("t", "f"):
        return text == "t"
    if kind not in _TYPED or not isinstance(text, str) or _ZONE.search(text):
        raise _NotUnderstoodError
    try:
        return parse_value(text.strip(), Primitive(_TYPED[kind]))
    except LogFormatError:
        raise _NotUnderstoodError from None
