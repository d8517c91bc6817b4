"""A predicate weakened to ranges of partition values: for an index in the database.

The result holds for every partition that may match, and for some that don't: the caller decides
about those with `matching_partitions`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from deltasql.log.predicates.ast import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Or,
    Predicate,
    like_prefix,
    push_not,
)
from deltasql.log.pruning.stats_columns import kind_of
from deltasql.log.pruning.stats_keys import FLOAT_SLACK, FLOAT_TINY
from deltasql.spec.schema import Primitive, StructType

# Texts are compared by this many characters: an index has no room for long ones.
PREFIX: Final = 100
# More intervals for a column cost the database more than they save.
MAX_INTERVALS: Final = 1000
# The form that values of a kind must have in the index, whose query decides which form a value
# has (`functions.sql`, `schema.sql`); a text may have any form.
FORMS: Final = {
    "text": "text",
    "date": "day",
    "timestamp": "day",
    "timestamp_ntz": "day",
    "number": "number",
    "float": "number",
}
_INTEGER_SLACK: Final = 1e-15
_LAST_CHARACTER: Final = chr(0x10FFFF)

Interval: TypeAlias = "tuple[Any, Any]"


@dataclass(frozen=True, slots=True)
class Texts:
    """The value's first characters lie in one of the intervals, ends included; None is open."""

    name: str
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Days:
    """The same for the first characters of a date, year first; other forms are kept."""

    name: str
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The text's number lies in one of the intervals; what is not a number is kept."""

    name: str
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Null:
    """There is no value, or its text is not of the column's type: neither day nor number."""

    name: str
    form: str


@dataclass(frozen=True, slots=True)
class Both:
    """Every part holds; there are at least two."""

    parts: tuple[PartitionRanges, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Some part holds; there are at least two."""

    parts: tuple[PartitionRanges, ...]


PartitionRanges: TypeAlias = Texts | Days | Numbers | Null | Both | Either
_Ranged: TypeAlias = Texts | Days | Numbers


def partition_ranges(
    bound_predicate: Predicate, schema: StructType, partition_columns: Collection[str]
) -> PartitionRanges | None:
    """What the partitions of matching rows have in common; None if nothing."""
    wanted = {name.lower() for name in partition_columns}
    places: _Places = {
        (item.name,): (item.physical_name, item.type)
        for item in schema.fields
        if item.name.lower() in wanted and isinstance(item.type, Primitive)
    }
    return _ranges(push_not(bound_predicate), places)


_Places: TypeAlias = Mapping[tuple[str, ...], tuple[str, Primitive]]


def _ranges(predicate: Predicate, places: _Places) -> PartitionRanges | None:
    match predicate:
        case And(parts):
            return _both(_ranges(part, places) for part in parts)
        case Or(parts):
            return _either([_ranges(part, places) for part in parts])
        case Comparison(operator, column, Literal(value)) if column.path in places:
            return _comparison(*places[column.path], operator, value)
        case In(column) | IsNull(column) | Like(column) if column.path in places:
            return _test(*places[column.path], predicate)
    return None


def _test(name: str, kind: Primitive, test: In | IsNull | Like) -> PartitionRanges | None:
    match test:
        case In(_, values):
            return _any(name, kind, values)
        case IsNull():
            form = FORMS.get(kind_of(kind) or "")
            return None if form is None else Null(name, form)
        case Like(_, pattern) if kind_of(kind) == "text":
            prefix, whole = like_prefix(pattern)
            return _text(name, prefix, prefix if whole else _after(prefix))
    return None


def _comparison(name: str, kind: Primitive, operator: str, value: Any) -> PartitionRanges | None:
    if value is None:
        return None
    match operator:
        case "=" | "<=>":
            return _ranged(name, kind, value, value)
        case "<" | "<=":
            return _ranged(name, kind, None, value)
        case ">" | ">=":
            return _ranged(name, kind, value, None)
    return None


def _any(name: str, kind: Primitive, values: Collection[Any]) -> PartitionRanges | None:
    known = [value for value in values if value is not None]
    return _either([_ranged(name, kind, value, value) for value in known]) if known else None


def _ranged(name: str, kind: Primitive, low: Any, high: Any) -> PartitionRanges | None:
    """The interval of a column between two values, rounded outward."""
    match kind_of(kind):
        case "text":
            return _text(name, low, high)
        case "date":
            return _days(name, low, high, slack=0)
        case "timestamp" | "timestamp_ntz":
            # A text may have a zone of its own, and be another day by the clock.
            return _days(name, low, high, slack=1)
        case "number" | "float":
            return _numbers(name, low, high, is_float=kind_of(kind) == "float")
    return None


def _text(name: str, low: str | None, high: str | None) -> PartitionRanges | None:
    if not all(_is_plain(text) for text in (low, high) if text is not None):
        return None
    least = low[:PREFIX] if low else None
    most = high[:PREFIX] if high is not None else None
    return None if least is None and most is None else Texts(name, ((least, most),))


def _is_plain(text: str) -> bool:
    """Whether every database can hold it."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)


def _after(prefix: str) -> str | None:
    """A text that no text with the prefix exceeds in its first characters."""
    return prefix[:PREFIX].ljust(PREFIX, _LAST_CHARACTER) if prefix else None


def _days(name: str, low: Any, high: Any, *, slack: int) -> PartitionRanges | None:
    try:
        least = None if low is None else (_day(low) - timedelta(days=slack)).isoformat()
        # Whatever follows the day of the month sorts before "~", which no text has there.
        most = None if high is None else (_day(high) + timedelta(days=slack)).isoformat() + "~"
    except OverflowError:
        return None
    return Days(name, ((least, most),))


def _day(value: date) -> date:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date() if value.tzinfo is not None else value.date()
    return value


def _numbers(name: str, low: Any, high: Any, *, is_float: bool) -> PartitionRanges | None:
    try:
        least = None if low is None else float(low)
        most = None if high is None else float(high)
    except OverflowError:
        return None
    if any(bound is not None and not math.isfinite(bound) for bound in (least, most)):
        return None
    slack = FLOAT_SLACK if is_float else _INTEGER_SLACK
    if least is not None:
        least = max(-1e300, least - abs(least) * slack - FLOAT_TINY)
    if most is not None:
        most = min(1e300, most + abs(most) * slack + FLOAT_TINY)
    return Numbers(name, ((least, most),))


# --- together -------------------------------------------------------------------------


def _both(parts: Iterable[PartitionRanges | None]) -> PartitionRanges | None:
    """All parts; those of one column are merged, so that an index gets both ends."""
    columns: dict[tuple[type, str], _Ranged] = {}
    others: list[PartitionRanges] = []
    for part in _flat(parts, Both):
        if part is None:
            continue
        if not isinstance(part, Texts | Days | Numbers):
            others.append(part)
            continue
        key = (type(part), part.name)
        before = columns.get(key)
        columns[key] = part if before is None else _meet(before, part)
    kept = [*columns.values(), *others]
    return Both(tuple(kept)) if len(kept) > 1 else kept[0] if kept else None


def _either(parts: Iterable[PartitionRanges | None]) -> PartitionRanges | None:
    """Any of the parts; None as soon as one says nothing."""
    columns: dict[tuple[type, str], _Ranged] = {}
    others: list[PartitionRanges] = []
    for part in _flat(parts, Either):
        if part is None:
            return None
        if not isinstance(part, Texts | Days | Numbers):
            others.append(part)
            continue
        key = (type(part), part.name)
        before = columns.get(key)
        intervals = part.intervals if before is None else (*before.intervals, *part.intervals)
        columns[key] = type(part)(part.name, intervals)
    kept = [*map(_bounded, columns.values()), *others]
    return Either(tuple(kept)) if len(kept) > 1 else kept[0] if kept else None


def _flat(
    parts: Iterable[PartitionRanges | None], kind: type[Both] | type[Either]
) -> Iterable[PartitionRanges | None]:
    for part in parts:
        if isinstance(part, Both | Either) and isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def _meet(a: _Ranged, b: _Ranged) -> _Ranged:
    """What lies in intervals of both."""
    if len(a.intervals) * len(b.intervals) > MAX_INTERVALS:
        return min(a, b, key=lambda item: len(item.intervals))
    found = tuple(
        (_most(low, other_low), _least(high, other_high))
        for low, high in a.intervals
        for other_low, other_high in b.intervals
    )
    return type(a)(a.name, tuple(item for item in found if _is_possible(item)))


def _bounded(ranged: _Ranged) -> _Ranged:
    """The same, or what surrounds it if it has too many intervals."""
    intervals = tuple(dict.fromkeys(ranged.intervals))
    if len(intervals) > MAX_INTERVALS:
        lows = [low for low, _ in intervals]
        highs = [high for _, high in intervals]
        intervals = ((None if None in lows else min(lows), None if None in highs else max(highs)),)
    return type(ranged)(ranged.name, intervals)


def _most(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else max(a, b)


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _is_possible(interval: Interval) -> bool:
    low, high = interval
    return low is None or high is None or bool(low <= high)
