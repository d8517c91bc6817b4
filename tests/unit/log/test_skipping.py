"""Pruning prunes: what is skipped, what is kept, and what malformed stats do."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import may_match
from deltasql.log.pruning.range_predicates import to_ranges
from deltasql.log.pruning.ranges import holds
from deltasql.log.pruning.stats_keys import (
    LARGEST,
    FileKeys,
    KeyMaker,
    round_down,
    round_up,
    text_key,
)
from tests.unit.log.schemas import COLUMNS, SCHEMA

STATS = json.dumps(
    {
        "numRecords": 10,
        "minValues": {
            "i": 10,
            "s": "berlin",
            "d": 1.5,
            "m": 10.5,
            "day": "2026-01-10",
            "at": "2026-01-10T00:00:00.000Z",
            "wall": "2026-01-10T00:00:00.000",
            "b": True,
        },
        "maxValues": {
            "i": 20,
            "s": "hamburg",
            "d": 2.5,
            "m": 20.5,
            "day": "2026-01-20",
            "at": "2026-01-20T00:00:00.000Z",
            "wall": "2026-01-20T00:00:00.000",
            "b": True,
        },
        "nullCount": {
            "i": 0, "s": 3, "d": 0, "m": 0, "day": 0, "at": 0, "wall": 0, "empty": 10, "b": 0
        },
    }
)  # fmt: skip
KEYS = KeyMaker(COLUMNS).keys(STATS)

SKIPPED = [
    "i = 9",
    "i = 21",
    "i < 10",
    "i <= 9",
    "i > 20",
    "i >= 21",
    "i <=> 25",
    "i IN (1, 2, 30)",
    "i BETWEEN 21 AND 30",
    "i NOT BETWEEN 5 AND 25",
    "NOT i >= 10",
    "NOT (i <= 20 OR s = 'x')",
    "i IS NULL",
    "NOT i IS NOT NULL",
    "i < 5 OR i > 30",
    "i = 15 AND s > 'z'",
    "i < 9.5",
    "i > 1e30",
    "i NOT IN (1, NULL)",
    "s = 'aachen'",
    "s > 'i'",
    "s LIKE 'a%'",
    "s LIKE 'zz%'",
    "s LIKE 'aachen'",
    "d < 1.4",
    "d = 1",
    "m < 10.49",
    "m > 20.51",
    "day < '2026-01-10'",
    "day = '2026-01-21'",
    "at < '2026-01-10'",
    "at > '2026-01-20 00:00:00.001'",
    "wall = '2026-01-09 23:59:59.999999'",
    "empty = 'x'",
    "empty <> 'x'",
    "empty LIKE '%'",
    "empty NOT LIKE 'a'",
    "empty IN ('a')",
    "empty NOT IN ('a')",
    "empty IS NOT NULL",
    "b = FALSE",
    "NOT b",
    "b <> TRUE",
    "b NOT IN (TRUE)",
    "FALSE",
    "i = NULL",
]
KEPT = [
    "i = 10",
    "i = 20",
    "i <> 15",
    "i <= 10",
    "i >= 20",
    "i IN (1, 15)",
    "NOT i < 15",
    "i IS NOT NULL",
    "s IS NULL",
    "NOT s <=> 'x'",
    "s = 'cologne'",
    "s < 'berlina'",
    "s LIKE 'b%'",
    "s LIKE '%x'",
    "s NOT LIKE 'b%'",
    "d > 100",
    "d = 'NaN'",
    "d >= 1.5",
    "m >= 20.5",
    "day = '2026-01-15'",
    "at <= '2026-01-10'",
    "at > '2026-01-20 00:00:00.000998'",
    "empty IS NULL",
    "NOT empty <=> 'x'",
    "i = 99 OR s IS NULL",
    "i < i",
    "i = 15 AND TRUE",
    "b",
]


@pytest.mark.parametrize("text", SKIPPED)
def test_skipped(text):
    bound = bind(parse(text), SCHEMA)
    assert not may_match(bound, SCHEMA, partition_values={}, stats=STATS)
    assert not holds(to_ranges(bound, SCHEMA, COLUMNS), KEYS)


@pytest.mark.parametrize("text", KEPT)
def test_kept(text):
    bound = bind(parse(text), SCHEMA)
    assert may_match(bound, SCHEMA, partition_values={}, stats=STATS)
    assert holds(to_ranges(bound, SCHEMA, COLUMNS), KEYS)


def _stats_of(column, low, high):
    ends = {"minValues": {column: low}, "maxValues": {column: high}}
    return json.dumps({"numRecords": 2, "nullCount": {column: 0}, **ends})


def _is_kept(text, stats):
    bound = bind(parse(text), SCHEMA)
    found = may_match(bound, SCHEMA, partition_values={}, stats=stats)
    # The database never skips what the exact check keeps.
    assert holds(to_ranges(bound, SCHEMA, COLUMNS), KeyMaker(COLUMNS).keys(stats)) >= found
    return found


def test_offsets_may_have_seconds():
    """As in Spark's stats of times from before there were zones."""
    stats = _stats_of("at", "1880-01-01T12:17:30.000+00:17:30", "1880-01-01T12:17:30.000+00:17:30")
    assert _is_kept("at = TIMESTAMP '1880-01-01 12:00:00Z'", stats)
    assert not _is_kept("at = TIMESTAMP '1880-01-01 12:00:01Z'", stats)


def test_texts_that_older_deltas_cut():
    """They put U+FFFD at the end, which is above a surrogate in UTF-16 but below it in UTF-8."""
    start = "p" * 32
    stats = _stats_of("s", start, start + "\ufffd")
    assert _is_kept(f"s = '{start}\U0001f600'", stats)
    assert not _is_kept(f"s = '{start[1:]}q'", stats)


@pytest.mark.parametrize("text", ["m > 20.5", "s > 'hamburgx'"])
def test_skipped_only_with_full_precision(text):
    bound = bind(parse(text), SCHEMA)
    assert not may_match(bound, SCHEMA, partition_values={}, stats=STATS)
    assert holds(to_ranges(bound, SCHEMA, COLUMNS), KEYS)


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "",
        "{",
        "[]",
        "null",
        "5",
        "{}",
        '{"numRecords": "10", "minValues": [], "maxValues": 5, "nullCount": null}',
        '{"numRecords": -1, "minValues": {"i": {}, "s": 5, "d": "NaN", "at": 3, "day": []}}',
        '{"minValues": {"i": "30", "m": "99", "day": "soon", "at": "2026-01-10T00:00:00"}}',
        '{"numRecords": 10, "nullCount": {"i": 11, "s": -1, "d": true, "m": "10", "b": 1.5}}',
        '{"numRecords": 1e400}',
        '{"minValues": {"wall": "2027-01-01T00:00:00+05:00", "day": "+12026-01-01"}}',
    ],
)
def test_malformed_stats_keep_the_file(stats):
    for text in [*SKIPPED[:-3], *KEPT]:
        if "NULL)" in text:
            continue
        bound = bind(parse(text), SCHEMA)
        assert may_match(bound, SCHEMA, partition_values={}, stats=stats)
        assert holds(to_ranges(bound, SCHEMA, COLUMNS), KeyMaker(COLUMNS).keys(stats))


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["numRecords", "minValues", "maxValues", "nullCount", "i", "s", "at"]
                ),
                inner,
            )
        ),
    )
)
def test_any_json_gives_keys(value):
    stats = json.dumps(value)
    keys = KeyMaker(COLUMNS).keys(stats)
    assert all(key is None or math.isfinite(key) for key in (*keys.min_keys, *keys.max_keys))
    may_match(bind(parse("i = 1 AND s = 'a'"), SCHEMA), SCHEMA, partition_values={}, stats=stats)


def test_keys():
    assert KEYS.num_records == 10
    assert KEYS.null_counts == [0, 3, 0, 0, 0, 0, 0, 10, 0]
    assert (KEYS.min_keys[0], KEYS.max_keys[0]) == (10.0, 20.0)
    assert KEYS.max_keys[2] is None
    assert KEYS.min_keys[7] == LARGEST == -KEYS.max_keys[7]
    assert KeyMaker(COLUMNS).keys('{"numRecords":1,"minValues":{"i":3}}') == FileKeys(
        1, [3.0], [], []
    )


def test_all_null_beside_a_minimum_is_not_believed():
    stats = '{"numRecords": 2, "nullCount": {"i": 2}, "minValues": {"i": 1}}'
    assert KeyMaker(COLUMNS).keys(stats) == FileKeys(2, [1.0], [], [])
    bound = bind(parse("i = 5"), SCHEMA)
    assert may_match(bound, SCHEMA, partition_values={}, stats=stats)


def test_empty_files_match_nothing():
    stats = '{"numRecords": 0, "nullCount": {"i": 0}}'
    for text in ("i = 1", "i IS NULL", "i IS NOT NULL"):
        bound = bind(parse(text), SCHEMA)
        assert not may_match(bound, SCHEMA, partition_values={}, stats=stats)
        assert not holds(to_ranges(bound, SCHEMA, COLUMNS), KeyMaker(COLUMNS).keys(stats))


@given(st.integers(-(2**70), 2**70) | st.decimals(allow_nan=False, allow_infinity=False))
def test_rounding_goes_outward(number):
    low, high = round_down(number), round_up(number)
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low <= number or low == -LARGEST
    assert high >= number or high == LARGEST
    assert low == high or math.nextafter(low, math.inf) >= high


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_text_keys_keep_the_order_of_code_points(left, right):
    if left <= right:
        assert text_key(left) <= text_key(right)
