"""Compares Arrow columns with literals and with each other, as SQL does.

Numbers, days and times are compared as whole units of the column's own type, with the literal
rounded in the direction that keeps the comparison's meaning: no cast can overflow or lose a digit,
whatever the literal. NaN equals NaN and is greater than every other float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.log.predicates.ast import satisfies

# pyarrow has no types: an Array or a ChunkedArray, with booleans for a mask.
Values: TypeAlias = Any
Mask: TypeAlias = Any

_KERNELS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MILLIS_A_DAY = 86_400_000
# Not `pa.scalar`: its first call imports pandas, if installed, which takes a quarter of a second.
_NULL = pa.nulls(1, pa.bool_())[0]


def compare_literal(values: Values, operator: str, literal: Any) -> Mask:
    """`values operator literal`; null where the value is null."""
    values = plain(values)
    kind = values.type
    if pa.types.is_null(kind):
        return constant(values, value=False)
    if pa.types.is_floating(kind):
        return _compare_float(values, operator, literal)
    if _is_textual(kind):
        return _KERNELS[operator](values, pa.scalar(literal, kind))
    return _compare_units(values, operator, _units(literal, kind))


def is_one_of(values: Values, literals: Sequence[Any]) -> Mask:
    """Whether each value equals one of the literals; null where the value is null."""
    values = plain(values)
    kind = values.type
    if pa.types.is_null(kind):
        return constant(values, value=False)
    if pa.types.is_floating(kind):
        # Hashing distinguishes the two zeros, which are equal.
        zeros = [0.0, -0.0] if 0.0 in literals else []
        found = pc.is_in(values, pa.array([*literals, *zeros], kind))
    elif _is_textual(kind):
        found = pc.is_in(values, pa.array(literals, kind))
    else:
        low, high = _limits(kind)
        units = [_units(literal, kind) for literal in literals]
        whole = [int(unit) for unit in units if unit.denominator == 1 and low <= unit <= high]
        found = pc.is_in(values, pa.array([_value(unit, kind) for unit in whole], kind))
    return pc.if_else(pc.is_valid(values), found, _NULL)


def compare_columns(left: Values, operator: str, right: Values) -> Mask:
    """`left operator right`; null where either is null."""
    left, right = plain(left), plain(right)
    for side, other in ((left, right), (right, left)):
        if pa.types.is_null(side.type):
            return pc.and_kleene(constant(side, value=False), constant(other, value=True))
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        # As in Spark, a long next to a double becomes the nearest double.
        left, right = left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
        return _compare_floats(left, operator, right)
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        # Room for 38 digits on either side of the point.
        wide = pa.decimal256(76, max(_scale(left.type), _scale(right.type)))
        left, right = left.cast(wide), right.cast(wide)
    return _KERNELS[operator](left, right)


def constant(values: Values, *, value: bool) -> Mask:
    """The same answer for every value, and null for nulls."""
    return pc.if_else(pc.is_valid(values), pa.scalar(value), _NULL)


# --- shapes of columns ----------------------------------------------------------------


def plain(values: Values) -> Values:
    """The values in a type that every kernel used here knows."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return plain(values.cast(kind.value_type))
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8())
    if pa.types.is_floating(kind):
        return values.cast(pa.float64())
    if pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.large_binary())
    return values


def _is_textual(kind: Any) -> bool:
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(test(kind) for test in tests)


def _scale(kind: Any) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


# --- whole units ----------------------------------------------------------------------


def _units(literal: Any, kind: Any) -> Fraction:
    """The literal in the column's units, exactly."""
    if isinstance(literal, datetime):
        aware = literal if literal.tzinfo is not None else literal.replace(tzinfo=UTC)
        micros = (aware - _EPOCH) // timedelta(microseconds=1)
        return Fraction(micros * _UNITS_A_SECOND[kind.unit], 10**6)
    if isinstance(literal, date):
        days = (literal - _EPOCH.date()).days
        return Fraction(days * _MILLIS_A_DAY if pa.types.is_date64(kind) else days)
    scaled: Fraction = Fraction(literal) * 10 ** _scale(kind)
    return scaled


def _limits(kind: Any) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def _value(unit: int, kind: Any) -> Any:
    if not pa.types.is_decimal(kind):
        return unit
    digits = tuple(int(digit) for digit in str(abs(unit)))
    return Decimal((int(unit < 0), digits, -kind.scale))


def _compare_units(values: Values, operator: str, literal: Fraction) -> Mask:
    kind = values.type
    if literal.denominator != 1 and operator in ("=", "<>"):
        return constant(values, value=operator == "<>")
    unit = math.ceil(literal) if operator in ("<", ">=") else math.floor(literal)
    low, high = _limits(kind)
    if not low <= unit <= high:
        # Every value is on the same side of the literal, so any one of them will do.
        return constant(values, value=satisfies(operator, 0, unit))
    if pa.types.is_decimal(kind) or pa.types.is_integer(kind):
        return _KERNELS[operator](values, pa.scalar(_value(unit, kind), kind))
    storage = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return _KERNELS[operator](values.cast(storage), pa.scalar(unit, storage))


# --- floats ---------------------------------------------------------------------------


def _compare_float(values: Values, operator: str, literal: float) -> Mask:
    nan = pc.is_nan(values)
    if math.isnan(literal):
        match operator:
            case "=" | ">=":
                return nan
            case "<>" | "<":
                return pc.invert(nan)
        return constant(values, value=operator == "<=")
    plain = _KERNELS[operator](values, pa.scalar(literal, pa.float64()))
    return pc.or_kleene(plain, nan) if operator in (">", ">=") else plain


def _compare_floats(left: Values, operator: str, right: Values) -> Mask:
    """A comparison with NaN in its proper place; the kernels compare the other numbers."""
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    both = pc.and_(left_nan, right_nan)
    plain = _KERNELS[operator](left, right)
    match operator:
        case "=":
            return pc.or_(plain, both)
        case "<>":
            return pc.and_not(plain, both)
        case "<":
            return pc.or_(plain, pc.and_not(right_nan, left_nan))
        case "<=":
            return pc.or_(plain, right_nan)
        case ">":
            return pc.or_(plain, pc.and_not(left_nan, right_nan))
    return pc.or_(plain, left_nan)
