"""A predicate weakened to ranges over stats keys: for pruning in the database."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

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
    like_prefix,
    push_not,
)
from deltasql.log.pruning.ranges import (
    EVERYTHING,
    NOTHING,
    AtLeast,
    AtMost,
    MayBeNotNull,
    MayBeNull,
    Ranges,
    all_of,
    any_of,
    bounded,
)
from deltasql.log.pruning.stats_columns import StatsColumn, kind_of
from deltasql.log.pruning.stats_keys import (
    LARGEST,
    days,
    micros,
    round_down,
    round_up,
    text_key,
    text_key_after,
)
from deltasql.spec.schema import StructType

# More conditions cost the database more than they save, and parameters are limited.
MAX_CONDITIONS = 256
MAX_INTERVALS = 16

_Places = Mapping[tuple[str, ...], StatsColumn]


def to_ranges(
    bound_predicate: Predicate, schema: StructType, columns: Sequence[StatsColumn]
) -> Ranges:
    """What a file's keys must satisfy if any of its rows may match the predicate."""
    known = {(column.path, column.kind): column for column in columns}
    places = {
        leaf.path: known[leaf.physical_path, kind]
        for leaf in schema.leaves()
        if (kind := kind_of(leaf.type)) is not None and (leaf.physical_path, kind) in known
    }
    return bounded(_ranges(push_not(bound_predicate), places), MAX_CONDITIONS)


def _ranges(predicate: Predicate, places: _Places) -> Ranges:
    match predicate:
        case And(parts):
            return all_of(_ranges(part, places) for part in parts)
        case Or(parts):
            return any_of(_ranges(part, places) for part in parts)
        case Constant(value):
            return EVERYTHING if value else NOTHING
        case Comparison(operator, left, Literal(value)):
            place = places.get(left.path)
            return EVERYTHING if place is None else _comparison(operator, place, value)
        case In(column) | IsNull(column) | Like(column):
            place = places.get(column.path)
            return EVERYTHING if place is None else _test(predicate, place)
        case Not(In(column) | IsNull(column) | Like(column) as part):
            return _negated_test(part, column, places)
    return EVERYTHING


def _negated_test(part: In | IsNull | Like, column: Column, places: _Places) -> Ranges:
    if isinstance(part, In) and None in part.values:
        return NOTHING
    place = places.get(column.path)
    if place is None:
        return EVERYTHING
    if isinstance(part, In) and len(part.values) <= MAX_INTERVALS:
        return all_of(_comparison("<>", place, value) for value in part.values)
    return MayBeNotNull(place.ordinal)


def _test(test: In | IsNull | Like, place: StatsColumn) -> Ranges:
    match test:
        case IsNull():
            return MayBeNull(place.ordinal)
        case Like(_, pattern):
            prefix, whole = like_prefix(pattern)
            high = text_key(prefix) if whole else text_key_after(prefix)
            return all_of((AtLeast(place.ordinal, text_key(prefix)), AtMost(place.ordinal, high)))
        case In(_, values):
            return _in(place, [value for value in values if value is not None])


def _in(place: StatsColumn, values: Sequence[Any]) -> Ranges:
    """One interval for each value, or for neighbouring values if there are many."""
    intervals = sorted({(_low(place.kind, value), _high(place.kind, value)) for value in values})
    gaps = sorted(
        (before[1] - after[0], n) for n, (before, after) in enumerate(pairwise(intervals), start=1)
    )
    cuts = sorted(n for _, n in gaps[: MAX_INTERVALS - 1])
    return any_of(
        all_of(
            (
                AtLeast(place.ordinal, intervals[start][0]),
                AtMost(place.ordinal, max(high for _, high in intervals[start:end])),
            )
        )
        for start, end in zip([0, *cuts], [*cuts, len(intervals)], strict=True)
        if start < end
    )


def _comparison(operator: str, place: StatsColumn, value: Any) -> Ranges:
    ordinal = place.ordinal
    low, high = _low(place.kind, value), _high(place.kind, value)
    match operator:
        case "=" | "<=>":
            return all_of((AtLeast(ordinal, low), AtMost(ordinal, high)))
        case "<=":
            return AtMost(ordinal, high)
        case ">=":
            return AtLeast(ordinal, low)
        case "<":
            return AtMost(ordinal, _before(place.kind, high))
        case ">":
            return AtLeast(ordinal, -_before(place.kind, -low))
    if place.kind == "text":
        return MayBeNotNull(ordinal)
    return any_of((_comparison("<", place, value), _comparison(">", place, value)))


def _before(kind: str, key: float) -> float:
    """A step down, for strict comparisons: min key <= minimum < value <= key.

    Not for texts, since many share a key, nor at the ends, where infinity and NaN are.
    """
    return key if kind == "text" or abs(key) == LARGEST else math.nextafter(key, -math.inf)


def _low(kind: str, value: Any) -> float:
    number = _number(kind, value)
    return LARGEST if number != number else round_down(number)


def _high(kind: str, value: Any) -> float:
    number = _number(kind, value)
    return LARGEST if number != number else round_up(number)


def _number(kind: str, value: Any) -> Any:
    """The value's exact place on the number line."""
    match kind:
        case "text":
            return text_key(value)
        case "date":
            return days(value)
        case "timestamp" | "timestamp_ntz":
            return micros(value)
        case "boolean":
            return int(value)
    return value
