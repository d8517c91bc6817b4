"""Filters of `files_at` as SQL text: numbers only, so that no user input gets in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from deltasql.log.pruning.ranges import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Everything,
    MayBeNotNull,
    MayBeNull,
    Nothing,
    Ranges,
)

_LARGEST = 1.7976931348623157e308
_EXACT_INTEGER = 2**53
_SLACK_ULPS = 16


class _Words(NamedTuple):
    """How a dialect writes the n-th item of a column, and a bound that is not rounded inwards."""

    item: Callable[[str, int], str]
    at_least: Callable[[float], str]
    at_most: Callable[[float], str]


def render(ranges: Ranges, dialect: str) -> str:
    """The condition equivalent to `ranges.holds` in a dialect."""
    return _render(ranges, _DIALECTS[dialect])


def partition_filter(keys: Iterable[int]) -> str:
    """The condition that a file is in one of these partitions."""
    listed = ", ".join(str(int(key)) for key in keys)
    return f"partition_key IN ({listed})" if listed else "FALSE"


def file_filter(partition_keys: Iterable[int] | None, ranges: Ranges | None, dialect: str) -> str:
    """Both conditions together, for the placeholder in `files_at`."""
    conditions = []
    if partition_keys is not None:
        conditions.append(partition_filter(partition_keys))
    if ranges is not None and not isinstance(ranges, Everything):
        conditions.append(render(ranges, dialect))
    return " AND ".join(conditions) or "TRUE"


def number_at_least(bound: float, dialect: str) -> str:
    """A lower bound as a dialect writes it, not rounded inwards."""
    return _DIALECTS[dialect].at_least(bound)


def number_at_most(bound: float, dialect: str) -> str:
    """An upper bound as a dialect writes it, not rounded inwards."""
    return _DIALECTS[dialect].at_most(bound)


def _render(ranges: Ranges, words: _Words) -> str:
    # COALESCE rather than OR: it extracts the item from its array only once per row.
    match ranges:
        case AtLeast(ordinal, key):
            item = words.item("max_keys", ordinal)
            return f"COALESCE({item} >= {words.at_least(key)}, TRUE)"
        case AtMost(ordinal, key):
            item = words.item("min_keys", ordinal)
            return f"COALESCE({item} <= {words.at_most(key)}, TRUE)"
        case MayBeNull(ordinal):
            return f"COALESCE({words.item('null_counts', ordinal)} > 0, TRUE)"
        case MayBeNotNull(ordinal):
            return f"COALESCE({words.item('null_counts', ordinal)} < num_records, TRUE)"
        case AllOf(parts):
            return "(" + " AND ".join(_render(part, words) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(_render(part, words) for part in parts) + ")"
        case Nothing():
            return "FALSE"
    return "TRUE"


# --- dialects -------------------------------------------------------------------------


def _array_item(column: str, ordinal: int) -> str:
    return f"{column}[{int(ordinal) + 1}]"


def _json_item(column: str, ordinal: int) -> str:
    return f"json_extract({column}, '$[{int(ordinal)}]')"


def _postgres_number(key: float) -> str:
    return f"'{_finite(key)!r}'::float8"


def _duckdb_number(key: float) -> str:
    # A bare 0.1 would be a DECIMAL, whose conversion to double is a division that rounds.
    return f"'{_finite(key)!r}'::DOUBLE"


def _sqlite_at_least(key: float) -> str:
    return _sqlite_number(key, direction=-1)


def _sqlite_at_most(key: float) -> str:
    return _sqlite_number(key, direction=1)


def _sqlite_number(key: float, *, direction: int) -> str:
    """SQLite reads decimals, in statements and in JSON, a unit or so off the nearest double.

    It reads integers exactly; other bounds are widened a little, because pruning must not lose a
    file.
    """
    key = _finite(key)
    if key.is_integer() and abs(key) < _EXACT_INTEGER:
        return str(int(key))
    return repr(_finite(key + direction * _SLACK_ULPS * math.ulp(key)))


def _finite(key: float) -> float:
    """A float without infinities, which have no literal; NaN can't be a bound."""
    if math.isnan(key):
        raise ValueError("NaN is not a bound")
    return max(-_LARGEST, min(_LARGEST, float(key)))


_DIALECTS = {
    "postgres": _Words(_array_item, _postgres_number, _postgres_number),
    "duckdb": _Words(_array_item, _duckdb_number, _duckdb_number),
    "sqlite": _Words(_json_item, _sqlite_at_least, _sqlite_at_most),
}
