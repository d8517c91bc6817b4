"""Typed stats are exact, or null; the fast way and the slow way say the same."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltasql.delta_log.checkpoint import stats as stats_parsed
from deltasql.delta_log.checkpoint.schema import stats_type
from deltasql.delta_log.checkpoint.stats import parse_stats
from deltasql.spec.schema import ArrayType, Primitive, StructField, StructType
from tests.unit import actions_model as model

KINDS = {
    "long": pa.int64(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(12,2)": pa.decimal128(12, 2),
    "decimal(38,10)": pa.decimal128(38, 10),
}
ZONELESS = datetime(2026, 2, 28, 1, 2, 3, 4000)  # noqa: DTZ001


def kind_of(kind: pa.DataType) -> pa.StructType:
    return pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("c", kind)]))])


@pytest.fixture(params=[1, 200], ids=["one by one", "at once"])
def rows(request):
    """Few rows are parsed one by one, many at once."""
    return request.param


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", "-9223372036854775808", -(2**63)),
        ("long", "9007199254740993", 2**53 + 1),
        ("byte", "-128", -128),
        ("float", "0.1", 0.10000000149011612),
        ("float", "-0.0", -0.0),
        ("double", "5e-324", 5e-324),
        ("double", "12345678901234567890", 12345678901234567890.0),
        ("string", '"\\u00e9\\ud83d\\ude00\\n"', "é😀\n"),
        ("string", '""', ""),
        ("date", '"2026-02-28"', date(2026, 2, 28)),
        ("date", '"0001-01-01"', date(1, 1, 1)),
        (
            "timestamp",
            '"2026-02-28T01:02:03.004Z"',
            datetime(2026, 2, 28, 1, 2, 3, 4000, tzinfo=UTC),
        ),
        (
            "timestamp",
            '"2026-02-28T01:02:03.004+02:00"',
            datetime(2026, 2, 27, 23, 2, 3, 4000, tzinfo=UTC),
        ),
        ("timestamp_ntz", '"2026-02-28T01:02:03.004"', ZONELESS),
        ("timestamp_ntz", '"2026-02-28T01:02:03.004Z"', ZONELESS),
        ("decimal(12,2)", "0.1", Decimal("0.10")),
        ("decimal(12,2)", "9999999999.99", Decimal("9999999999.99")),
        ("decimal(12,2)", "7", Decimal(7)),
        ("decimal(38,10)", "1234567890123456789012345678.0123456789",
         Decimal("1234567890123456789012345678.0123456789")),
    ],
)  # fmt: skip
def test_values_are_exact(rows, kind, text, value):
    stats = pa.array([f'{{"numRecords":1,"minValues":{{"c":{text}}}}}'] * rows)
    found = parse_stats(stats, kind_of(KINDS[kind])).to_pylist()
    assert found == [{"numRecords": 1, "minValues": {"c": value}}] * rows


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "1.5"),
        ("long", "9223372036854775808"),
        ("long", '"5"'),
        ("byte", "128"),
        ("float", "1e39"),
        ("double", "1e400"),
        ("double", '"NaN"'),
        ("double", "NaN"),
        ("double", "-Infinity"),
        ("string", "5"),
        ("string", '"\\ud83d"'),
        ("date", '"+10000-01-01"'),
        ("date", "5"),
        # Nobody knows which instant is meant.
        ("timestamp", '"2026-02-28T01:02:03"'),
        ("timestamp_ntz", '"2026-02-28T01:02:03+02:00"'),
        ("decimal(12,2)", "0.125"),
        ("decimal(12,2)", "10000000000"),
        ("decimal(12,2)", "true"),
        ("long", '{"deeper":1}'),
        ("long", "[1]"),
    ],
)
def test_what_the_type_cannot_say_is_unknown(rows, kind, text):
    stats = pa.array([f'{{"numRecords":1,"minValues":{{"c":{text}}}}}'] * rows)
    found = parse_stats(stats, kind_of(KINDS[kind])).to_pylist()
    assert found == [{"numRecords": 1, "minValues": {"c": None}}] * rows


def test_decimal_that_went_through_a_double_is_rounded():
    stats = pa.array(['{"numRecords":1,"minValues":{"c":10.290000000000001}}'])
    (found,) = parse_stats(stats, kind_of(pa.decimal128(12, 2))).to_pylist()
    assert found["minValues"]["c"] == Decimal("10.29")


@pytest.mark.parametrize("text", ["", " ", "null", "[]", "{", "{}{}", '{"numRecords":1}\n{}', "x"])
def test_malformed_texts_do_not_shift_rows(text):
    good = [f'{{"numRecords":{n}}}' for n in range(200)]
    stats = pa.array([*good[:77], text, None, *good[77:]])
    found = parse_stats(stats, kind_of(pa.int64())).to_pylist()
    records = [None if item is None else item["numRecords"] for item in found]
    assert records == [*range(77), None, None, *range(77, 200)]


def test_texts_with_line_breaks_and_unknown_fields():
    stats = pa.array(['{"numRecords":\n1,\r\n"other":[{"x":null}],"minValues":{"d":1}}'] * 100)
    found = parse_stats(stats, kind_of(pa.int64())).to_pylist()
    assert found == [{"numRecords": 1, "minValues": {"c": None}}] * 100


NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.sampled_from(
    ["2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123", "NaN", "0001-01-01"]
)  # fmt: skip


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(
        st.none() | st.dictionaries(st.sampled_from(["c", "d"]), LEAVES), min_size=1, max_size=8
    ),
)
@example("decimal(12,2)", [{"c": "NaN"}, {"c": 10**11}, {"c": 0.125}])
@example("decimal(38,10)", [{"c": 4.048170201643688e-54}])
@example("timestamp", [{"c": "2026-01-01T00:00:00Z"}, {"c": "2026-01-01T00:00:00.123"}])
def test_both_ways_agree(kind, bounds):
    stats = pa.array(
        [None if low is None else json.dumps({"minValues": low}) for low in bounds], pa.string()
    )
    wanted = kind_of(KINDS[kind])
    slow = stats_parsed._one_by_one(stats, wanted)
    fast = stats_parsed._at_once(stats, wanted)
    if fast is not None:
        assert fast.to_pylist() == slow.to_pylist()


def test_type_follows_the_schema_and_the_properties():
    inner = StructType((model.column("x", "decimal(5,2)"), model.column("b", "binary")))
    schema = StructType(
        (
            model.column("id"),
            StructField("s", inner),
            StructField("l", ArrayType(Primitive("long"))),
            model.column("flag", "boolean"),
            model.column("nothing", "void"),
            model.column("day", "date"),
        )
    )  # fmt: skip
    bounds = pa.struct([("id", pa.int64()), ("s", pa.struct([("x", pa.decimal128(5, 2))]))])
    long = pa.int64()
    counts = pa.struct(
        [("id", long), ("s", pa.struct([("x", long), ("b", long)])), ("l", long), ("flag", long)]
    )
    assert stats_type(model.state(schema, by=("day",))) == pa.struct(
        [
            ("numRecords", long),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", counts),
            ("tightBounds", pa.bool_()),
        ]
    )
    none = model.state(schema, delta_dataSkippingNumIndexedCols="0")
    assert stats_type(none) == pa.struct([("numRecords", long), ("tightBounds", pa.bool_())])
