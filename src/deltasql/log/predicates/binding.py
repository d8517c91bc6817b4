"""Binds a predicate to a schema: columns are resolved, literals converted to their types."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from deltasql.errors import LogFormatError, ValidationError
from deltasql.log.predicates.ast import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    WithExponent,
)
from deltasql.spec.partition_values import INTEGER_BITS, parse_value
from deltasql.spec.schema import DeltaType, Primitive, StructType

_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_FLOATS = ("float", "double")
# Beyond this, every long is on one side, however it is rounded.
_LARGEST = 2**64


def bind(predicate: Predicate, schema: StructType) -> Predicate:
    """The predicate with exact column paths and typed literals, or `ValidationError`."""
    match predicate:
        case Comparison(operator, left, right):
            return _bind_comparison(operator, resolve(left, schema), right, schema)
        case In(column, values):
            return _bind_in(resolve(column, schema), values)
        case Like(column, pattern):
            return Like(_text_column(resolve(column, schema)), pattern)
        case IsNull(column):
            return IsNull(resolve(column, schema))
        case Not(part):
            return Not(bind(part, schema))
        case And(parts):
            return And(tuple(bind(part, schema) for part in parts))
        case Or(parts):
            return Or(tuple(bind(part, schema) for part in parts))
    return predicate


def casts_column(predicate: Predicate, schema: StructType) -> bool:
    """Whether Spark casts a column to compare it, which `bind` refuses: texts to numbers, dates to
    timestamps, and one of two columns of different types.
    """
    match predicate:
        case Comparison(_, left, Literal(value)):
            return _is_cast(left, value, schema)
        case Comparison(_, left, Column() as right):
            return resolve(left, schema).type != resolve(right, schema).type
        case In(column, values):
            return any(_is_cast(column, value, schema) for value in values)
        case Not(part):
            return casts_column(part, schema)
        case And(parts) | Or(parts):
            return any(casts_column(part, schema) for part in parts)
    return False


def _is_cast(column: Column, value: Any, schema: StructType) -> bool:
    found = resolve(column, schema).type
    if found == Primitive("date"):
        return isinstance(value, datetime)
    if found == Primitive("timestamp_ntz"):
        return isinstance(value, datetime) or (isinstance(value, str) and _has_zone(value))
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return found == Primitive("string") and is_number


def _bind_comparison(
    operator: str, left: Column, right: Column | Literal, schema: StructType
) -> Predicate:
    if isinstance(right, Column):
        other = resolve(right, schema)
        if _family(left) != _family(other):
            raise ValidationError(
                f"columns {left} and {other} can't be compared",
                cause=f"one is {_type_name(left)}, the other {_type_name(other)}",
                remedy="compare columns of one kind of type",
            )
        return Comparison(operator, left, other)
    if right.value is None:
        return IsNull(left) if operator == "<=>" else Constant(None)
    if _rounds(right.value, left):
        return _as_doubles(operator, left, float(right.value))
    return Comparison(operator, left, Literal(_coerce(right.value, left)))


def _bind_in(column: Column, values: tuple[Any, ...]) -> Predicate:
    rounded = [value for value in values if _rounds(value, column)]
    exact = In(column, tuple(_coerce(item, column) for item in values if item not in rounded))
    if not rounded:
        return exact
    return Or((exact, *(_as_doubles("=", column, float(value)) for value in rounded)))


def _rounds(value: Any, column: Column) -> bool:
    """Whether longs lose digits next to a literal: as in Spark, a double makes them doubles."""
    is_long = isinstance(column.type, Primitive) and column.type.name == "long"
    is_double = isinstance(value, float | WithExponent)
    return is_long and is_double and 2**53 <= abs(value) <= _LARGEST


def _as_doubles(operator: str, column: Column, literal: float) -> Predicate:
    """A comparison of longs with a double, expressed by the longs that round to that double."""
    low = high = int(literal)
    step = int(math.ulp(literal))
    # There are `step` longs between one double and the next, and half of them round to it.
    while float(low - 1) == literal:
        low = _last(low, -step, literal)
    while float(high + 1) == literal:
        high = _last(high, step, literal)
    below, above = Comparison("<", column, Literal(low)), Comparison(">", column, Literal(high))
    match operator:
        case "<":
            return below
        case ">":
            return above
        case "<=":
            return Comparison("<=", column, Literal(high))
        case ">=":
            return Comparison(">=", column, Literal(low))
        case "<>":
            return Or((below, above))
    same = And((Comparison(">=", column, Literal(low)), Comparison("<=", column, Literal(high))))
    return same if operator == "=" else And((Not(IsNull(column)), same))


def _last(start: int, step: int, literal: float) -> int:
    """The farthest long in a direction that still rounds to this double."""
    found = start
    while step:
        if float(found + step) == literal:
            found += step
        else:
            step = int(step / 2)
    return found


# --- columns --------------------------------------------------------------------------


def resolve(column: Column, schema: StructType) -> Column:
    """The column by its exact logical path, in whatever case it was written."""
    found: DeltaType = schema
    path: list[str] = []
    for name in column.path:
        field = found.field(name) if isinstance(found, StructType) else None
        if field is None:
            raise _unknown(column, schema)
        path.append(field.name)
        found = field.type
    return Column(tuple(path), found)


def _unknown(column: Column, schema: StructType) -> ValidationError:
    known = list(_paths(schema, ""))
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(column).lower(), lowered, n=1, cutoff=0.5)
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    return ValidationError(
        f"the predicate names an unknown column {str(column)!r:.80}",
        cause=f"the table has {shown or 'no columns'}",
        remedy=f"did you mean {lowered[near[0]]}?" if near else "name one of the table's columns",
        column=str(column),
    )


def _paths(schema: StructType, prefix: str) -> Iterator[str]:
    for field in schema.fields:
        yield prefix + field.name
        if isinstance(field.type, StructType):
            yield from _paths(field.type, f"{prefix}{field.name}.")


def _type_name(column: Column) -> str:
    if isinstance(column.type, Primitive):
        return column.type.name
    return type(column.type).__name__.removesuffix("Type").lower()


def _family(column: Column) -> str:
    """What a column may be compared with: numbers with numbers, else its own type alone."""
    if isinstance(column.type, Primitive):
        name = column.type.name
        if name in INTEGER_BITS or name in _FLOATS or column.type.decimal is not None:
            return "number"
        if name in _COERCIONS:
            return name
    raise _not_comparable(column)


def _not_comparable(column: Column) -> ValidationError:
    return ValidationError(
        f"column {column} can't be compared",
        cause=f"it is of type {_type_name(column)}",
        remedy="compare scalar columns; a column of any type can be tested with IS NULL",
    )


def _text_column(column: Column) -> Column:
    if not isinstance(column.type, Primitive) or column.type.name != "string":
        raise ValidationError(
            f"LIKE can't be used on column {column}",
            cause=f"it is of type {_type_name(column)}",
            remedy="use LIKE on string columns only",
        )
    return column


# --- literals -------------------------------------------------------------------------


def _coerce(value: Any, column: Column) -> Any:
    family, kind = _family(column), column.type
    if value is None or not isinstance(kind, Primitive):
        return None
    coerced = _COERCIONS[family](value, kind)
    if coerced is None:
        raise ValidationError(
            f"{_shown(value)} can't be compared with column {column}",
            cause=f"the column is of type {kind.name}",
            remedy=f"write the value as {_EXAMPLES[family]}",
        )
    return coerced


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, date | Decimal) else repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _number(value: Any, kind: Primitive) -> int | Decimal | float | None:
    if kind.name in _FLOATS:
        return _float(value)
    number = value
    if isinstance(value, str) and kind.decimal is None and _WHOLE.fullmatch(value) is None:
        # As in Spark, which casts the text to the column's type.
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value) and len(value) <= 400:
        number = Decimal(value.strip())
    if isinstance(number, float) and math.isfinite(number):
        number = Decimal(number)
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        return None
    if not Decimal(number).is_finite():
        return None
    if kind.decimal is not None:
        return Decimal(number)
    return int(number) if number == int(number) else number


def _float(value: Any) -> float | None:
    """The nearest double; a number beyond its range is refused rather than made infinite."""
    if isinstance(value, str):
        if re.fullmatch(r"[+-]?(?:nan|inf|infinity)", value.strip(), re.IGNORECASE):
            return float(value)
        value = Decimal(value.strip()) if _NUMBER.fullmatch(value) else None
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = float(Decimal(value))
    return number if math.isfinite(number) else None


def _text(value: Any, _kind: Primitive) -> str | None:
    return value if isinstance(value, str) else None


def _boolean(value: Any, _kind: Primitive) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _binary(value: Any, _kind: Primitive) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else None


def _parsed(value: Any, kind: Primitive) -> Any:
    try:
        return parse_value(value.strip(), kind)
    except LogFormatError:
        return None


def _date(value: Any, kind: Primitive) -> date | None:
    if isinstance(value, str):
        day: date | None = _parsed(value, kind)
        return day if day is not None else _date(_parsed(value, Primitive("timestamp_ntz")), kind)
    if isinstance(value, datetime):
        # A day is not an instant: only a midnight without a zone certainly means that day.
        return value.date() if value.time() == time() and value.tzinfo is None else None
    return value if isinstance(value, date) else None


def _timestamp(value: Any, kind: Primitive) -> datetime | None:
    if isinstance(value, str):
        value = _parsed(value, kind)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        return None


def _has_zone(text: str) -> bool:
    return re.search(r":.*(?:z|utc|[+-][0-9:]+)\s*$", text, re.IGNORECASE) is not None


def _timestamp_ntz(value: Any, kind: Primitive) -> datetime | None:
    if isinstance(value, str):
        # Partition values ignore a zone, so a zone in the user's text is refused.
        value = None if _has_zone(value) else _parsed(value, kind)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    return value if isinstance(value, datetime) and value.tzinfo is None else None


_COERCIONS: dict[str, Callable[[Any, Primitive], Any]] = {
    "number": _number,
    "string": _text,
    "boolean": _boolean,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}
_EXAMPLES = {
    "number": "a number: 10, -2.5, 1e6",
    "string": "text in single quotes: 'north'",
    "boolean": "TRUE or FALSE",
    "binary": "X'00FF'",
    "date": "DATE '2026-11-01', in the years 1 to 9999",
    "timestamp": "TIMESTAMP '2026-11-01 12:30:00Z'",
    "timestamp_ntz": "TIMESTAMP '2026-11-01 12:30:00', without a zone",
}
