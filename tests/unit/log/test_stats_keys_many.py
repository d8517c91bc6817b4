"""Keys made column by column are those made file by file, however odd the stats."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.log.pruning.stats_columns import StatsColumn
from deltasql.log.pruning.stats_keys import KeyMaker
from deltasql.log.pruning.stats_keys_many import ManyKeysMaker

_KINDS = ("number", "float", "text", "timestamp", "timestamp_ntz", "date", "boolean")
_COLUMNS = [StatsColumn(n, (kind,), kind) for n, kind in enumerate(_KINDS)]
_INSTANTS = st.datetimes(timezones=st.just(UTC)).map(lambda found: found.isoformat())
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-(2**54), 2**54),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text(st.characters(codec="utf-8"), max_size=8),
    "timestamp": _INSTANTS,
    "timestamp_ntz": st.datetimes().map(lambda found: found.isoformat()),
    "date": st.dates().map(lambda found: found.isoformat()),
    "boolean": st.booleans(),
}
_ODD = st.sampled_from([None, True, "", "2026-01-01T00:00:00", 2**70, 1e301, -1e301, [], {}, 3])


@st.composite
def _stats(draw: st.DrawFn, columns: list[StatsColumn], *, odd: bool) -> str | None:
    """Stats of a file; odd ones lack what others have, or have what nobody expects."""

    def bounds() -> dict[str, Any]:
        found = {}
        for column in columns:
            if odd and draw(st.integers(0, 9)) == 0:
                continue
            value = _PLAIN[column.kind]
            found[column.path[0]] = draw(_ODD | value if odd else value)
        return found

    records = draw(st.integers(3, 9))
    counts = {column.path[0]: draw(st.integers(0, 2)) for column in columns}
    parts = {"numRecords": records, "minValues": bounds(), "maxValues": bounds()}
    parts["nullCount"] = counts
    if odd:
        if counts:
            counts[draw(st.sampled_from(sorted(counts)))] = draw(_ODD | st.just(records))
        if draw(st.booleans()):
            parts[draw(st.sampled_from(sorted(parts)))] = draw(_ODD)
        return draw(st.sampled_from([json.dumps(parts), None, "", "[]", "{}", "{"]))
    return json.dumps(parts)


@st.composite
def _files(draw: st.DrawFn) -> tuple[list[StatsColumn], list[str | None]]:
    columns = draw(st.lists(st.sampled_from(_COLUMNS), unique=True, max_size=7))
    plain = draw(st.lists(_stats(columns, odd=False), min_size=1, max_size=5))
    strange = draw(st.lists(_stats(columns, odd=True), max_size=2))
    return columns, draw(st.permutations([*plain, *strange]))


@given(_files())
def test_they_are_those_of_each_file(case: tuple[list[StatsColumn], list[str | None]]) -> None:
    columns, texts = case
    one = KeyMaker(columns)

    assert ManyKeysMaker(columns).keys(texts) == [one.keys(text) for text in texts]


def test_plain_stats_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = _COLUMNS[:4]
    low = {"number": 1, "float": 0.5, "text": "a", "timestamp": "2026-01-01T00:00:00.000Z"}
    stats = {
        "numRecords": 3,
        "minValues": low,
        "maxValues": low,
        "nullCount": dict.fromkeys(low, 0),
    }
    texts = [json.dumps(stats)] * 3
    expected = [KeyMaker(columns).keys(text) for text in texts]
    monkeypatch.setattr(KeyMaker, "of_parsed", None)

    assert ManyKeysMaker(columns).keys(texts) == expected


def test_nested_columns_are_left_to_the_other_maker() -> None:
    columns = [StatsColumn(0, ("a", "b"), "number"), StatsColumn(1, ("c",), "number")]
    bounds = {"a": {"b": 1}, "c": 2}
    stats = {"numRecords": 3, "minValues": bounds, "maxValues": bounds, "nullCount": {}}

    (first, _) = ManyKeysMaker(columns).keys([json.dumps(stats)] * 2)

    assert first.min_keys == [1.0, 2.0]
