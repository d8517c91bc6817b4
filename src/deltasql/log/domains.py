"""What a column may hold in a file: by its partition value, which is exact, or by its stats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from deltasql.errors import LogFormatError
from deltasql.log.predicates.ast import compare
from deltasql.log.pruning.stats_columns import kind_of
from deltasql.log.pruning.stats_keys import (
    CUT_MICROS,
    bounds,
    dig,
    high_text,
    low_float,
    null_count,
    record_count,
    stats_date,
    stats_instant,
    stats_wall_clock,
)
from deltasql.spec.partition_values import UnrepresentableValueError, parse_value
from deltasql.spec.schema import Leaf, Primitive

# A double preserves this many decimal digits exactly.
_SAFE_DIGITS = 15
_SLACK = Decimal("4e-15")
_WIDE = Context(prec=60)


class Domain(NamedTuple):
    """What a column may hold in a file: None for an unknown bound."""

    low: Any = None
    high: Any = None
    may_be_null: bool = True
    may_be_value: bool = True

    @property
    def is_point(self) -> bool:
        """Whether there is only one value."""
        return self.low is not None and self.high is not None and compare(self.low, self.high) == 0

    def reaches(self, value: Any) -> bool:
        """Whether the column may hold the value."""
        return (self.low is None or compare(self.low, value) <= 0) and (
            self.high is None or compare(self.high, value) >= 0
        )


_Reader: TypeAlias = Callable[[Any], Any]
UNKNOWN = Domain()
_ONLY_NULL = Domain(may_be_value=False)
_YEAR = re.compile(r"[+-]?[0-9]+")
# The first and the last value that Python can hold, for types whose values may lie beyond.
_EDGES: dict[str, tuple[Any, Any]] = {
    "date": (date.min, date.max),
    "timestamp": (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
    "timestamp_ntz": (datetime.min, datetime.max),  # noqa: DTZ901 - a wall clock has no zone
}


class Source(NamedTuple):
    """A leaf of the schema, and how its bounds are read from stats."""

    leaf: Leaf
    low: _Reader
    high: _Reader

    @classmethod
    def of(cls, leaf: Leaf) -> Source:
        """The leaf with the readers of its type."""
        return cls(leaf, *_readers(leaf.type))


def partition_domain(values: Mapping[str, str | None], leaf: Leaf) -> Domain:
    """One value for the whole file; if its text can't be read, nothing is known."""
    text = values[leaf.physical_path[0]]
    try:
        value = parse_value(text, leaf.type)
    except UnrepresentableValueError:
        return _beyond(str(text), leaf.type)
    except LogFormatError:
        return UNKNOWN
    return _ONLY_NULL if value is None else Domain(value, value, may_be_null=False)


def _beyond(text: str, kind: Primitive) -> Domain:
    """A date before the year 1 or after 9999: beyond everything that it is compared with."""
    year = _YEAR.match(text)
    if year is None or kind.name not in _EDGES:
        return UNKNOWN
    first, last = _EDGES[kind.name]
    if int(year[0]) > 1:
        return Domain(low=last, may_be_null=False)
    return Domain(high=first, may_be_null=False)


def stats_domain(parsed: dict[str, Any], source: Source) -> Domain:
    """What a file's stats leave possible: bounds that hold, whether or not they are reached."""
    path = source.leaf.physical_path
    lows, highs, counts = bounds(parsed)
    low, high, records = dig(lows, path), dig(highs, path), record_count(parsed)
    nulls = null_count(dig(counts, path), records, empty=low is None and high is None)
    if nulls is not None and nulls == records:
        return Domain(may_be_null=nulls > 0, may_be_value=False)
    return Domain(source.low(low), source.high(high), may_be_null=nulls != 0)


# --- bounds in stats ------------------------------------------------------------------


def _readers(column_type: Primitive) -> tuple[_Reader, _Reader]:
    """The functions that turn the stats' minimum and maximum into bounds that surely hold."""
    kind = kind_of(column_type)
    if kind != "number":
        return _READERS.get(kind or "", (_unknown, _unknown))
    precision, _ = column_type.decimal or (0, 0)
    exact = 0 < precision <= _SAFE_DIGITS
    low, high = (None, None) if exact else (_SLACK.copy_negate(), _SLACK)
    return partial(_number, slack=low), partial(_number, slack=high)


def _number(raw: Any, *, slack: Decimal | None) -> Any:
    """Integers as they are; longer decimals have lost digits as doubles, and get some slack."""
    if type(raw) is int:
        return raw
    if type(raw) is not float:
        return None
    if slack is None:
        return Decimal(repr(raw))
    exact = Decimal(raw)
    return _WIDE.add(exact, _WIDE.multiply(exact.copy_abs(), slack))


def _unknown(_raw: Any) -> None:
    """For maxima of floats: NaN is greater than all others, and writers may leave it out."""


def _text(raw: Any) -> Any:
    return raw if type(raw) is str else None


def _boolean(raw: Any) -> Any:
    return raw if type(raw) is bool else None


def _high_instant(raw: Any) -> datetime | None:
    return _last_of_milli(stats_instant(raw))


def _high_wall_clock(raw: Any) -> datetime | None:
    return _last_of_milli(stats_wall_clock(raw))


def _last_of_milli(cut: datetime | None) -> datetime | None:
    try:
        return None if cut is None else cut + timedelta(microseconds=CUT_MICROS)
    except OverflowError:
        return None


_READERS: dict[str, tuple[_Reader, _Reader]] = {
    "float": (low_float, _unknown),
    "text": (_text, high_text),
    "boolean": (_boolean, _boolean),
    "date": (stats_date, stats_date),
    "timestamp": (stats_instant, _high_instant),
    "timestamp_ntz": (stats_wall_clock, _high_wall_clock),
}
