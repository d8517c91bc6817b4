"""Pruning prunes: what is skipped, what is kept, and what malformed stats do."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import LogFormatError
from deltasql.log.predicate import bind, parse
from deltasql.log.ranges import bounded, size
from deltasql.log.skipping import (
    MAX,
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Everything,
    FileKeys,
    MayBeNotNull,
    MayBeNull,
    Nothing,
    StatsColumn,
    dump_stats_columns,
    file_keys,
    holds,
    is_partition_only,
    load_stats_columns,
    matching_partitions,
    may_match,
    stats_columns,
    to_ranges,
)
from deltasql.log.stats_keys import LARGEST, round_down, round_up, text_key
from deltasql.spec.schema import PHYSICAL_NAME, Primitive, StructField, StructType


def schema_of(**types):
    return StructType(tuple(StructField(name, Primitive(kind)) for name, kind in types.items()))


SCHEMA = schema_of(
    i="integer",
    s="string",
    d="double",
    m="decimal(10,2)",
    day="date",
    at="timestamp",
    wall="timestamp_ntz",
    empty="string",
    b="boolean",
)
COLUMNS = stats_columns(SCHEMA, [])
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
KEYS = file_keys(STATS, COLUMNS)

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
        assert holds(to_ranges(bound, SCHEMA, COLUMNS), file_keys(stats, COLUMNS))


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
    keys = file_keys(stats, COLUMNS)
    assert all(key is None or math.isfinite(key) for key in (*keys.min_keys, *keys.max_keys))
    may_match(bind(parse("i = 1 AND s = 'a'"), SCHEMA), SCHEMA, partition_values={}, stats=stats)


def test_keys():
    assert KEYS.num_records == 10
    assert KEYS.null_counts == [0, 3, 0, 0, 0, 0, 0, 10, 0]
    assert (KEYS.min_keys[0], KEYS.max_keys[0]) == (10.0, 20.0)
    assert KEYS.max_keys[2] is None
    assert KEYS.min_keys[7] == LARGEST == -KEYS.max_keys[7]
    assert file_keys('{"numRecords":1,"minValues":{"i":3}}', COLUMNS) == FileKeys(1, [3.0], [], [])


def test_all_null_beside_a_minimum_is_not_believed():
    stats = '{"numRecords": 2, "nullCount": {"i": 2}, "minValues": {"i": 1}}'
    assert file_keys(stats, COLUMNS) == FileKeys(2, [1.0], [], [])
    bound = bind(parse("i = 5"), SCHEMA)
    assert may_match(bound, SCHEMA, partition_values={}, stats=stats)


def test_empty_files_match_nothing():
    stats = '{"numRecords": 0, "nullCount": {"i": 0}}'
    for text in ("i = 1", "i IS NULL", "i IS NOT NULL"):
        bound = bind(parse(text), SCHEMA)
        assert not may_match(bound, SCHEMA, partition_values={}, stats=stats)
        assert not holds(to_ranges(bound, SCHEMA, COLUMNS), file_keys(stats, COLUMNS))


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


# --- ranges ---------------------------------------------------------------------------


def ranges(text):
    return to_ranges(bind(parse(text), SCHEMA), SCHEMA, COLUMNS)


def test_ranges_are_simplified():
    assert ranges("i >= 5") == AtLeast(0, 5.0)
    assert ranges("i <= 5 AND i <= 7 AND i <= 6") == AtMost(0, 5.0)
    assert ranges("i <= 5 OR i <= 7") == AtMost(0, 7.0)
    assert ranges("i = 5") == AllOf((AtLeast(0, 5.0), AtMost(0, 5.0)))
    assert ranges("i IS NULL") == MayBeNull(0)
    assert ranges("i IS NOT NULL") == MayBeNotNull(0)
    assert ranges("i < 5 OR i < i") == Everything()
    assert ranges("i < 5 AND FALSE") == Nothing()
    assert ranges("i <= 5 OR FALSE") == AtMost(0, 5.0)
    assert ranges("TRUE AND (i <= 5 AND (i >= 2 AND TRUE))") == AllOf(
        (AtMost(0, 5.0), AtLeast(0, 2.0))
    )


def test_long_lists_become_few_intervals():
    found = ranges(f"i IN ({', '.join(str(n) for n in [*range(100), *range(1000, 1100)])})")
    assert isinstance(found, AnyOf)
    assert size(found) <= 32
    between = FileKeys(1, [500.0], [600.0], [0])
    assert not holds(found, between)


def test_huge_predicates_are_weakened():
    many = " OR ".join(f"(i = {n} AND s = '{n}')" for n in range(500))
    assert ranges(many) == Everything()
    assert ranges(f"i >= 5 AND ({many})") == AtLeast(0, 5.0)
    assert bounded(AllOf((AtLeast(0, 1.0), AtMost(1, 1.0))), 1) == AtLeast(0, 1.0)


@pytest.mark.parametrize("value", [2**53 + 1, 2**53 + 3, 2**63 - 1, -(2**53) - 1, -(2**53) - 3])
def test_numbers_beyond_doubles_are_still_right(value):
    schema = schema_of(n="long")
    columns = stats_columns(schema, [])
    stats = f'{{"numRecords":1,"minValues":{{"n":{value}}},"maxValues":{{"n":{value}}}}}'
    for text, kept in (
        (f"n = {value}", True),
        (f"n < {value + 1}", True),
        (f"n > {value - 1}", True),
        (f"n <> {value + 1}", True),
        (f"n > {value}", False),
        (f"n < {value}", False),
    ):
        bound = bind(parse(text), schema)
        assert may_match(bound, schema, partition_values={}, stats=stats) is kept
        assert kept <= holds(to_ranges(bound, schema, columns), file_keys(stats, columns))


# --- columns --------------------------------------------------------------------------


def test_stats_columns_keep_their_places():
    first = stats_columns(schema_of(day="date", a="long", b="string", c="binary"), ["DAY"])
    assert first == (StatsColumn(0, ("a",), "number"), StatsColumn(1, ("b",), "text"))
    changed = stats_columns(
        schema_of(day="date", x="double", a="string", b="string"), ["day"], first
    )
    assert changed == (*first, StatsColumn(2, ("x",), "float"), StatsColumn(3, ("a",), "text"))
    assert stats_columns(schema_of(a="long"), [], changed) == changed
    assert load_stats_columns(dump_stats_columns(changed)) == changed


def test_stats_columns_are_physical_nested_and_limited():
    inner = StructField("x", Primitive("long"), metadata={PHYSICAL_NAME: "col-2"})
    outer = StructField("n", StructType((inner,)), metadata={PHYSICAL_NAME: "col-1"})
    schema = StructType((outer, *schema_of(**{f"c{n}": "long" for n in range(40)}).fields))
    columns = stats_columns(schema, [])
    assert len(columns) == MAX
    assert columns[0].path == ("col-1", "col-2")
    stats = '{"numRecords":1,"minValues":{"col-1":{"col-2":5}},"maxValues":{"col-1":{"col-2":6}}}'
    assert file_keys(stats, columns).min_keys == [5.0]
    bound = bind(parse("n.x < 5 OR c39 < 5 AND n.x > 6"), schema)
    assert not holds(to_ranges(bound, schema, columns), file_keys(stats, columns))
    assert not may_match(bound, schema, partition_values={}, stats=stats)


@pytest.mark.parametrize(
    "text", ["", "{}", "5", '[["number"]]', '[["odd","a"]]', '[["text",5]]', "[5]"]
)
def test_malformed_lists_of_columns_are_told(text):
    if text == "{}":
        assert load_stats_columns(text) == ()
        return
    with pytest.raises(LogFormatError, match="stats columns"):
        load_stats_columns(text)


# --- partitions -----------------------------------------------------------------------


def test_partitions_are_matched_by_value():
    day = StructField("day", Primitive("date"), metadata={PHYSICAL_NAME: "p"})
    schema = StructType((day, *schema_of(i="long", r="string").fields))
    partitions = [
        (1, {"p": "2026-01-01", "r": "eu"}),
        (2, {"p": "2026-01-02", "r": "us"}),
        (3, {"p": None, "r": ""}),
        (4, {"p": "12026-01-01", "r": "eu"}),
        (5, {"p": "garbage", "r": "eu"}),
    ]

    def kept(text):
        return matching_partitions(bind(parse(text), schema), schema, ["day", "r"], partitions)

    assert kept("day = '2026-01-01'") == [1, 4, 5]
    assert kept("day IS NULL") == [3, 4, 5]
    assert kept("day <> '2026-01-01'") == [2, 4, 5]
    assert kept("r LIKE '%u' AND i = 5") == [1, 4, 5]
    assert kept("r NOT IN ('eu') OR i = 5") == [1, 2, 3, 4, 5]
    assert kept("r NOT IN ('eu')") == [2]
    assert kept("r IS NULL") == [3]


def test_a_file_is_pruned_by_partition_and_stats_together():
    schema = schema_of(p="string", m="decimal(20,2)")
    bound = bind(parse("p = 'a' AND m = 5 OR p = 'b'"), schema)

    def kept(value, low):
        stats = f'{{"numRecords":1,"minValues":{{"m":{low}}}}}'
        return may_match(bound, schema, partition_values={"p": value}, stats=stats)

    assert [kept("a", Decimal("4.99")), kept("a", 6.0), kept("b", 6), kept("c", 1)] == [
        True, False, True, False
    ]  # fmt: skip


def test_partition_only():
    assert is_partition_only(parse("DAY = '2026-01-01' OR region IN ('eu')"), ["day", "Region"])
    assert not is_partition_only(parse("day = '2026-01-01' OR i = 5"), ["day"])
    assert not is_partition_only(parse("day.x = 5"), ["day"])
    assert is_partition_only(parse("TRUE"), [])
