"""Stats as order-preserving float8 keys, so that every SQL dialect prunes with numbers alone.

Keys are rounded outward: a min key is never above the key of the true minimum, a max key
never below that of the maximum. What can't be expressed is None, and the file is kept.

`tightBounds: false` changes nothing here. Deletion vectors only take rows away: min and max
still hold for the rest, a null count of zero still means no nulls, one that equals
numRecords (physical rows, by the spec) still means only nulls, and counts in between
are not used for either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from deltasql.log.pruning.stats_columns import StatsColumn

LARGEST = 1.7976931348623157e308
# All rows are null: an empty range, which no comparison can meet.
EMPTY_LOW, EMPTY_HIGH = LARGEST, -LARGEST

EXACT = 2**53
HUGE = 1e300
# Decimals arrive as the nearest double, or a few units in the last place off from writers that
# divided doubles themselves (delta-rs).
_DECIMAL_SLACK = 4e-15
# A 32-bit float is printed with just enough digits to tell it from other 32-bit floats: the double
# read from them is up to half a 32-bit unit off. Doubles get the same slack, because a column
# widened from float has the stats that were written before.
FLOAT_SLACK, FLOAT_TINY = 1.2e-7, 1.5e-45
# Stats hold milliseconds; the rest is cut off.
CUT_MICROS = 999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WALL = _EPOCH.replace(tzinfo=None)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_KEY_BYTES = 6
# Where older Deltas cut a text they put the first of these, above all others in UTF-16 alone.
_LAST_OF_OLDER, _LAST = "\ufffd", "\U0010ffff"
# On the hot path of large commits, so looked up once.
_integer, _parse_time = int.from_bytes, datetime.fromisoformat


class FileKeys(NamedTuple):
    """A file's keys by ordinal; ordinals beyond the end of a list are unknown."""

    num_records: int | None
    min_keys: list[float | None]
    max_keys: list[float | None]
    null_counts: list[int | None]


class KeyMaker:
    """Makes the keys of any number of files; `columns` are looked at once."""

    __slots__ = ("_plan",)

    def __init__(self, columns: Sequence[StatsColumn]) -> None:
        self._plan = [
            (column.path[0], column.path if len(column.path) > 1 else None, *_KEYS[column.kind])
            for column in columns
        ]

    def keys(self, stats: str | None) -> FileKeys:
        """The keys in a file's stats; anything malformed is unknown, never an error."""
        return self.of_parsed(load_stats(stats))

    def of_parsed(self, parsed: dict[str, Any]) -> FileKeys:
        """The keys in stats that were parsed already; an empty dict for a file without stats."""
        if not parsed:
            return FileKeys(None, [], [], [])
        records = record_count(parsed)
        lows, highs, counts = bounds(parsed)
        lowest, highest, null = lows.get, highs.get, counts.get
        min_keys: list[float | None] = []
        max_keys: list[float | None] = []
        null_counts: list[int | None] = []
        for name, path, low_key, high_key in self._plan:
            if path is None:
                low, high, nulls = lowest(name), highest(name), null(name)
            else:
                low, high, nulls = dig(lows, path), dig(highs, path), dig(counts, path)
            if records is None or type(nulls) is not int or not 0 <= nulls < records:
                nulls = null_count(nulls, records, empty=low is None and high is None)
                if nulls is not None and nulls == records:
                    null_counts.append(nulls)
                    min_keys.append(EMPTY_LOW)
                    max_keys.append(EMPTY_HIGH)
                    continue
            null_counts.append(nulls)
            min_keys.append(None if low is None else low_key(low))
            max_keys.append(None if high is None else high_key(high))
        for values in (min_keys, max_keys, null_counts):
            while values and values[-1] is None:
                values.pop()
        # Without the constructor, which is Python code and as slow as two keys.
        return tuple.__new__(FileKeys, (records, min_keys, max_keys, null_counts))


@lru_cache(maxsize=256)
def key_maker(columns: tuple[StatsColumn, ...]) -> KeyMaker:
    """The maker for these columns, cached: small commits come in thousands."""
    return KeyMaker(columns)


# --- reading stats --------------------------------------------------------------------


def load_stats(stats: str | None) -> dict[str, Any]:
    """The object in a stats text; empty if there is none."""
    if not stats:
        return {}
    try:
        parsed = orjson.loads(stats)
    except ValueError:
        return {}
    return parsed if type(parsed) is dict else {}


def record_count(parsed: dict[str, Any]) -> int | None:
    """The file's physical rows."""
    records = parsed.get("numRecords")
    return records if type(records) is int and 0 <= records < 2**63 else None


def bounds(parsed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The objects of minima, maxima and null counts."""
    lows, highs = parsed.get("minValues"), parsed.get("maxValues")
    counts = parsed.get("nullCount")
    return (
        lows if type(lows) is dict else {},
        highs if type(highs) is dict else {},
        counts if type(counts) is dict else {},
    )


def dig(found: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of nested objects."""
    for name in path:
        if type(found) is not dict:
            return None
        found = found.get(name)
    return found


def null_count(nulls: Any, records: int | None, *, empty: bool) -> int | None:
    """The null count if it is plausible: "all null" next to a min or max is not."""
    if type(nulls) is not int or nulls < 0:
        return None
    if records is not None and (nulls > records or (nulls == records and not empty)):
        return None
    return nulls


# --- keys of stats --------------------------------------------------------------------


def round_down(number: Any) -> float:
    """The greatest finite double that is not above a number (NaN excepted)."""
    key = _nearest(number)
    return _finite(math.nextafter(key, -math.inf) if key > number else key)


def round_up(number: Any) -> float:
    """The least finite double that is not below a number (NaN excepted)."""
    key = _nearest(number)
    return _finite(math.nextafter(key, math.inf) if key < number else key)


def _nearest(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _finite(key: float) -> float:
    return max(-LARGEST, min(LARGEST, key))


def _low_number(raw: Any) -> float | None:
    if type(raw) is int:
        return float(raw) if -EXACT <= raw <= EXACT else round_down(raw)
    if type(raw) is float and -HUGE < raw < HUGE:
        return raw - abs(raw) * _DECIMAL_SLACK
    return None


def _high_number(raw: Any) -> float | None:
    if type(raw) is int:
        return float(raw) if -EXACT <= raw <= EXACT else round_up(raw)
    if type(raw) is float and -HUGE < raw < HUGE:
        return raw + abs(raw) * _DECIMAL_SLACK
    return None


def low_float(raw: Any) -> float | None:
    """A bound below every value of a float column whose stats give `raw` as the minimum."""
    if type(raw) in (int, float) and -HUGE < raw < HUGE:
        return float(raw - abs(raw) * FLOAT_SLACK - FLOAT_TINY)
    return None


def _high_float(_raw: Any) -> None:
    """Nothing: NaN is the greatest value, and writers may leave it out of the maximum."""


def text_key(text: str) -> float:
    """The first bytes of the text's UTF-8, whose order is that of the code points."""
    # A character has at least one byte: the rest of a long text need not be encoded.
    start = text[:_KEY_BYTES].encode()
    if len(start) != _KEY_BYTES:
        start = start[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0")
    return float(_integer(start, "big"))


def text_key_after(prefix: str) -> float:
    """The greatest key of any text that starts with the prefix."""
    return float(int.from_bytes(prefix.encode()[:_KEY_BYTES].ljust(_KEY_BYTES, b"\xff")))


def _low_text(raw: Any) -> float | None:
    return text_key(raw) if type(raw) is str else None


def _high_text(raw: Any) -> float | None:
    """One step up: where a maximum was cut, the data may go on."""
    return text_key(raw) + 1.0 if type(raw) is str else None


def high_text(raw: Any) -> str | None:
    """A text that none exceeds whose stats give `raw` as the maximum."""
    if type(raw) is not str:
        return None
    return raw[:-1] + _LAST if raw.endswith(_LAST_OF_OLDER) else raw


def stats_date(raw: Any) -> date | None:
    """A day in the stats."""
    try:
        return date.fromisoformat(raw) if type(raw) is str else None
    except ValueError:
        return None


def stats_instant(raw: Any) -> datetime | None:
    """An instant in the stats; without an offset it is ambiguous, so None."""
    try:
        found = _parse_time(raw) if type(raw) is str else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def stats_wall_clock(raw: Any) -> datetime | None:
    """A time without a zone; some writers append a Z, which means nothing."""
    try:
        found = datetime.fromisoformat(raw) if type(raw) is str else None
    except ValueError:
        return None
    if found is None or found.utcoffset():
        return None
    return found.replace(tzinfo=None)


def days(value: date) -> int:
    """Days since 1970."""
    return value.toordinal() - _EPOCH_DAY


def micros(value: datetime) -> int:
    """Microseconds since 1970, in UTC or by the wall clock."""
    return (value - (_EPOCH_WALL if value.tzinfo is None else _EPOCH)) // _MICROSECOND


def _day_key(raw: Any) -> float | None:
    found = stats_date(raw)
    return None if found is None else float(days(found))


def _low_instant(raw: Any) -> float | None:
    found = stats_instant(raw)
    if found is None:
        return None
    key = (found - _EPOCH) // _MICROSECOND
    return float(key) if -EXACT <= key <= EXACT else round_down(key)


def _high_instant(raw: Any) -> float | None:
    found = stats_instant(raw)
    if found is None:
        return None
    key = (found - _EPOCH) // _MICROSECOND + CUT_MICROS
    return float(key) if -EXACT <= key <= EXACT else round_up(key)


def _low_wall_clock(raw: Any) -> float | None:
    found = stats_wall_clock(raw)
    return None if found is None else _low_number(micros(found))


def _high_wall_clock(raw: Any) -> float | None:
    found = stats_wall_clock(raw)
    return None if found is None else _high_number(micros(found) + CUT_MICROS)


def _boolean_key(raw: Any) -> float | None:
    return float(raw) if type(raw) is bool else None


_Key = Callable[[Any], float | None]
_KEYS: dict[str, tuple[_Key, _Key]] = {
    "number": (_low_number, _high_number),
    "float": (low_float, _high_float),
    "text": (_low_text, _high_text),
    "date": (_day_key, _day_key),
    "timestamp": (_low_instant, _high_instant),
    "timestamp_ntz": (_low_wall_clock, _high_wall_clock),
    "boolean": (_boolean_key, _boolean_key),
}
