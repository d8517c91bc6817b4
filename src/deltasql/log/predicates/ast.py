"""Predicates as frozen values, and the logic that all of their users share.

Truth has three values, as in SQL: a comparison with null is neither true nor false. Floats are
totally ordered, as in Spark, PostgreSQL and DuckDB: NaN equals NaN and is greater than every other
number, so `NOT x < 5` is `x >= 5` for them, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from deltasql.errors import ValidationError
from deltasql.spec.schema import DeltaType


class WithExponent(Decimal):
    """A number that was written with an exponent: a double in Spark, here with all its digits."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its logical path; `type` is known once the predicate is bound."""

    path: tuple[str, ...]
    type: DeltaType | None = None

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: None, bool, int, float, Decimal, str, bytes, date or datetime."""

    value: Any


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; the operator is a key of `NEGATED`, or `<=>`."""

    operator: str
    left: Column
    right: Column | Literal


@dataclass(frozen=True, slots=True)
class In:
    """The column equals one of the values; a None among them makes every miss unknown."""

    column: Column
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """The whole text matches the pattern: `%` any run, `_` one character, `\\` escapes."""

    column: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column has no value."""

    column: Column


@dataclass(frozen=True, slots=True)
class Constant:
    """True, False, or None for unknown."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | In | Like | IsNull | Constant | Not | And | Or

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<=", "<=>": "<=>"}
_BY_ORDER: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<=>": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def columns(predicate: Predicate) -> frozenset[tuple[str, ...]]:
    """The paths of the columns that the predicate uses."""
    return frozenset(column.path for column in _columns(predicate))


def _columns(predicate: Predicate) -> Iterator[Column]:
    match predicate:
        case Comparison(_, left, right):
            yield left
            if isinstance(right, Column):
                yield right
        case In(column) | Like(column) | IsNull(column):
            yield column
        case Not(part):
            yield from _columns(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _columns(part)


def push_not(predicate: Predicate, *, negated: bool = False) -> Predicate:
    """The same predicate with NOT only around `<=>`, IN, LIKE and IS NULL."""
    match predicate:
        case Not(part):
            return push_not(part, negated=not negated)
        case And(parts):
            pushed = tuple(push_not(part, negated=negated) for part in parts)
            return Or(pushed) if negated else And(pushed)
        case Or(parts):
            pushed = tuple(push_not(part, negated=negated) for part in parts)
            return And(pushed) if negated else Or(pushed)
        case Constant(value):
            return Constant(not value) if negated and value is not None else predicate
        case Comparison(operator, left, right) if negated and operator in NEGATED:
            return Comparison(NEGATED[operator], left, right)
    return Not(predicate) if negated else predicate


def compare(left: Any, right: Any) -> int:
    """Below zero, zero or above, for two values of one type; NaN is the greatest."""
    # Only NaN differs from itself.
    left_nan, right_nan = left != left, right != right
    if left_nan or right_nan:
        return int(left_nan) - int(right_nan)
    return int(left > right) - int(left < right)


def satisfies(operator: str, left: Any, right: Any) -> bool:
    """Whether `left operator right`, for two values that are not null."""
    return _BY_ORDER[operator](compare(left, right))


def like_parts(pattern: str) -> list[str]:
    """The pattern in parts: `%`, `_`, or a literal character as `=c`."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in {"%", "_", "\\"}:
                raise ValidationError(
                    f"LIKE pattern {pattern!r:.80} is malformed",
                    cause=f"a backslash comes before {escaped or 'the end'!r}",
                    remedy="escape only %, _ and the backslash itself",
                )
            parts.append("=" + escaped)
        else:
            parts.append(character if character in "%_" else "=" + character)
    return parts


@lru_cache(maxsize=256)
def like_prefix(pattern: str) -> tuple[str, bool]:
    """What every match starts with, and whether that is the whole match."""
    parts = like_parts(pattern)
    length = next((n for n, part in enumerate(parts) if part[0] != "="), len(parts))
    return "".join(part[1] for part in parts[:length]), length == len(parts)


@lru_cache(maxsize=256)
def like_regex(pattern: str) -> str:
    """The pattern as a regular expression, the same for Python and for RE2."""
    wild = {"%": "(?s:.*)", "_": "(?s:.)"}
    return "".join(wild.get(part) or re.escape(part[1]) for part in like_parts(pattern))


def like_matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches."""
    return re.fullmatch(like_regex(pattern), text) is not None
