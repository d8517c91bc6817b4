"""Conditions on partition values as SQL text; only digits of user input get in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from deltasql.log.pruning.partition_ranges import (
    Both,
    Days,
    Either,
    Null,
    Numbers,
    PartitionRanges,
    Texts,
)
from deltasql.store.range_sql import number_at_least, number_at_most


def partitions_query(
    text: Callable[[str], str], dialect: str, table_id: int, ranges: PartitionRanges
) -> str:
    """The statement for the partitions of a table that may contain what the ranges describe."""
    keys = _Rendering(text("partition_keys_in"), text("partition_keys_part"), dialect, table_id).of(
        ranges
    )
    return text("partitions_matching").format(table_id=int(table_id), keys=keys)


class _Rendering:
    """Each column is one lookup in `dl_partition_values`: `query` with its placeholders filled."""

    def __init__(self, query: str, in_part: str, dialect: str, table_id: int) -> None:
        self._query = query
        self._dialect = dialect
        self._table_id = int(table_id)
        self._text = _TEXTS[dialect]
        self._in_part = in_part

    def of(self, ranges: PartitionRanges) -> str:
        match ranges:
            case Both(parts):
                return " INTERSECT ".join(self._part(part) for part in parts)
            case Either(parts):
                return " UNION ".join(self._part(part) for part in parts)
        looks = [
            self._query.format(
                table_id=self._table_id, name=self._text(ranges.name), condition=condition
            )
            for condition in [*self._conditions(ranges)] or ["FALSE"]
        ]
        # One statement per index: an OR in a single one may use neither.
        return " UNION ".join(looks)

    def _part(self, ranges: PartitionRanges) -> str:
        # SQLite allows no parentheses around the parts of such a statement.
        return self._in_part.format(keys=self.of(ranges))

    def _conditions(self, ranges: Texts | Days | Numbers | Null) -> Iterator[str]:
        match ranges:
            case Texts(_, intervals):
                points = [low for low, high in intervals if low == high and low is not None]
                if points:
                    yield f"v.value IN ({', '.join(map(self._text, points))})"
                for low, high in intervals:
                    if low != high:
                        yield self._between(low, high)
            case Days(_, intervals):
                for low, high in intervals:
                    yield f"v.form = 'day' AND {self._between(low, high)}"
                yield "v.form IN ('number', 'other')"
            case Numbers(_, intervals):
                for low, high in intervals:
                    least = "" if low is None else number_at_least(low, self._dialect)
                    most = "" if high is None else number_at_most(high, self._dialect)
                    bounds = [f"v.number >= {least}"] * bool(least)
                    bounds += [f"v.number <= {most}"] * bool(most)
                    yield " AND ".join(["v.form = 'number'", *bounds])
                yield "v.form IN ('day', 'other')"
            case Null(_, form):
                kept = {"text": "'null'", "day": "'null', 'number', 'other'"}
                yield f"v.form IN ({kept.get(form, _NO_NUMBER)})"

    def _between(self, low: str | None, high: str | None) -> str:
        bounds = [] if low is None else [f"v.value >= {self._text(low)}"]
        if high is not None:
            bounds.append(f"v.value <= {self._text(high)}")
        return " AND ".join(bounds) or "v.value IS NOT NULL"


_NO_NUMBER = "'null', 'day', 'other'"


# --- dialects -------------------------------------------------------------------------


def _hex(text: str) -> str:
    return text.encode().hex()


def _postgres_text(text: str) -> str:
    # The planner sees a constant, unlike with a function call.
    return "U&'" + "".join(f"\\+{ord(letter):06x}" for letter in text) + "'"


def _sqlite_text(text: str) -> str:
    return f"CAST(x'{_hex(text)}' AS TEXT)"


def _duckdb_text(text: str) -> str:
    return f"decode(unhex('{_hex(text)}'))"


_TEXTS: Mapping[str, Callable[[str], str]] = {
    "postgres": _postgres_text,
    "sqlite": _sqlite_text,
    "duckdb": _duckdb_text,
}
