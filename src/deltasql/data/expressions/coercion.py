"""The common type of values that meet in an expression, as ANSI Spark chooses it.

DuckDB has its own rules: next to a number it rounds a text, and turns a boolean into a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from deltasql.data.expressions import types
from deltasql.errors import UnsupportedFeatureError

_ORDER = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 20}
_TIMES = ("DATE", "TIMESTAMP", types.INSTANT)
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_MAX_PRECISION = 38


def alike(sql: Sequence[str], kinds: Sequence[str], where: str) -> list[str]:
    """Values cast to one type, like the branches of a choice or the elements of an array."""
    want = reduce(lambda one, other: _common(one, other, where), kinds, types.UNTYPED)
    if want == types.UNTYPED:
        return list(sql)
    return [types.cast(item, have, want) for item, have in zip(sql, kinds, strict=True)]


def beside_text(kind: str) -> str:
    """What a text is cast to next to a value of another type."""
    if kind in types.INTEGERS:
        return "BIGINT"
    return "DOUBLE" if types.is_number(kind) else kind


def must_be_comparable(kinds: tuple[str, str]) -> None:
    """Raise if Spark does not compare such values, or if DuckDB would cast what is inside them."""
    one, other = kinds
    if one == other or types.UNTYPED in kinds:
        return
    if types.is_nested(one) or types.is_nested(other):
        raise _apart(one, other, "a comparison")
    if "VARCHAR" not in kinds and _family(one) != _family(other):
        raise _apart(one, other, "a comparison")


def _family(kind: str) -> str:
    """What a type may be compared with: numbers with numbers, days with times, else itself."""
    if types.is_number(kind):
        return "number"
    return "time" if kind in _TIMES else kind


def _common(one: str, other: str, where: str) -> str:
    if other in (one, types.UNTYPED):
        return one
    if one == types.UNTYPED:
        return other
    if types.is_nested(one) or types.is_nested(other) or "INTERVAL" in (one, other):
        raise _apart(one, other, where)
    if "VARCHAR" in (one, other):
        return beside_text(other if one == "VARCHAR" else one)
    if types.is_number(one) and types.is_number(other):
        return _number(one, other, where)
    if one in _TIMES and other in _TIMES:
        return max(one, other, key=_TIMES.index)
    raise _apart(one, other, where)


def _number(one: str, other: str, where: str) -> str:
    if types.FLOATS & {one, other}:
        return "DOUBLE"
    if one in _ORDER and other in _ORDER:
        return max(one, other, key=_ORDER.index)
    if "HUGEINT" in (one, other):
        raise _apart(one, other, where)
    whole, scale = 0, 0
    for kind in (one, other):
        found = _DECIMAL.fullmatch(kind)
        precision, places = (int(found[1]), int(found[2])) if found else (_DIGITS[kind], 0)
        whole, scale = max(whole, precision - places), max(scale, places)
    if whole + scale > _MAX_PRECISION:
        # Spark would drop digits here.
        raise _apart(one, other, where)
    return f"DECIMAL({whole + scale},{scale})"


def _apart(one: str, other: str, where: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{where} can't mix values of type {one} and {other} here",
        cause="Spark refuses it, or converts them differently than the embedded engine",
        remedy="cast one of them to the other's type",
    )
