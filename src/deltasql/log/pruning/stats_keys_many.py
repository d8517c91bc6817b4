"""The keys of many files at once, column by column: a commit may have a hundred thousand.

Only for plain stats: numbers, texts and instants of the expected types, known for every
file and column. Anything odd is left to `KeyMaker`, one file at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from operator import sub
from typing import Any, TypeAlias

from deltasql.log.pruning.stats_columns import StatsColumn
from deltasql.log.pruning.stats_keys import (
    CUT_MICROS,
    EXACT,
    FLOAT_SLACK,
    FLOAT_TINY,
    HUGE,
    FileKeys,
    KeyMaker,
    load_stats,
    text_key,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_Column: TypeAlias = list[float] | list[None]
_Keys: TypeAlias = Callable[[list[Any]], _Column | None]


class ManyKeysMaker:
    """Makes the keys of files, many at a time; `columns` are looked at once."""

    __slots__ = ("_names", "_one")

    def __init__(self, columns: Sequence[StatsColumn]) -> None:
        self._one = KeyMaker(columns)
        names = [
            (column.path[0], *_KEYS[column.kind])
            for column in columns
            if len(column.path) == 1 and column.kind in _KEYS
        ]
        self._names = names if len(names) == len(columns) else []

    def keys(self, texts: Sequence[str | None]) -> list[FileKeys]:
        """The keys in the stats of files, the same as `KeyMaker` makes."""
        parsed = [load_stats(text) for text in texts]
        plain = self._plain(parsed) if self._names and len(parsed) > 1 else None
        return [self._one.of_parsed(item) for item in parsed] if plain is None else plain

    def _plain(self, parsed: Sequence[dict[str, Any]]) -> list[FileKeys] | None:
        try:
            records = [item["numRecords"] for item in parsed]
            lows = [item["minValues"] for item in parsed]
            highs = [item["maxValues"] for item in parsed]
            counts = [item["nullCount"] for item in parsed]
            if not _are(int, records) or max(records) >= 2**63:
                return None
            if not (_are(dict, lows) and _are(dict, highs) and _are(dict, counts)):
                return None
            columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
            for name, low_keys, high_keys in self._names:
                nulls = [item[name] for item in counts]
                # A column with only nulls has other keys.
                if not _are(int, nulls) or min(nulls) < 0 or min(map(sub, records, nulls)) <= 0:
                    return None
                columns[0].append(low_keys([item[name] for item in lows]))
                columns[1].append(high_keys([item[name] for item in highs]))
                columns[2].append(nulls)
        except KeyError:
            return None
        if None in columns[0] or None in columns[1]:
            return None
        by_file = zip(records, *map(_by_file, columns), strict=True)
        return [tuple.__new__(FileKeys, item) for item in by_file]


def _by_file(columns: list[list[Any]]) -> list[list[Any]]:
    """The values file by file, without trailing columns of which nothing is known."""
    known = len(columns)
    while known and columns[known - 1][0] is None:
        known -= 1
    if not known:
        return [[] for _ in columns[0]]
    return list(map(list, zip(*columns[:known], strict=True)))


def _are(kind: type, values: list[Any]) -> bool:
    return {type(value) for value in values} == {kind}


# --- keys of a column; None when any of its values is odd -------------------------------


def _numbers(values: list[Any]) -> list[float] | None:
    if not _are(int, values) or min(values) < -EXACT or max(values) > EXACT:
        return None
    return [float(value) for value in values]


def _low_floats(values: list[Any]) -> list[float] | None:
    if not _are(float, values) or min(values) <= -HUGE or max(values) >= HUGE:
        return None
    return [value - abs(value) * FLOAT_SLACK - FLOAT_TINY for value in values]


def _high_floats(values: list[Any]) -> list[None]:
    return [None] * len(values)


def _low_texts(values: list[Any]) -> list[float] | None:
    return [text_key(value) for value in values] if _are(str, values) else None


def _high_texts(values: list[Any]) -> list[float] | None:
    return [text_key(value) + 1.0 for value in values] if _are(str, values) else None


def _low_instants(values: list[Any]) -> list[float] | None:
    return _numbers(_micros(values))


def _high_instants(values: list[Any]) -> list[float] | None:
    return _numbers([value + CUT_MICROS for value in _micros(values)])


def _micros(values: list[Any]) -> list[int]:
    """Microseconds since 1970; empty if any is not an instant, such as one without an offset."""
    try:
        return [(datetime.fromisoformat(value) - _EPOCH) // _MICROSECOND for value in values]
    except (TypeError, ValueError):
        return []


_KEYS: dict[str, tuple[_Keys, _Keys]] = {
    "number": (_numbers, _numbers),
    "float": (_low_floats, _high_floats),
    "text": (_low_texts, _high_texts),
    "timestamp": (_low_instants, _high_instants),
}
