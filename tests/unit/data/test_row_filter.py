"""Rows are filtered as SQL would, whatever the types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.data.reading.row_filter import row_mask
from deltasql.errors import ValidationError
from deltasql.log.predicates.predicate import bind, parse
from deltasql.spec.schema import Primitive, StructField, StructType
from tests.unit.predicate_model import (
    NOTHING_BUT_NULLS,
    ROWS,
    SCHEMA,
    TYPES,
    VALUES,
    arrow,
    every_test,
    literals_for,
    predicates,
    sql,
    truth,
)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(list(TYPES)))
def test_every_test_of_one_column_is_what_brute_force_says(data, path):
    values = data.draw(st.lists(st.none() | VALUES[TYPES[path]], min_size=1, max_size=3))
    rows = [NOTHING_BUT_NULLS | {path: value} for value in values]
    literals = literals_for(path, rows)
    table = arrow(rows)
    for predicate in every_test(path, data.draw(literals), data.draw(literals)):
        expected = [truth(predicate, row) is True for row in rows]
        assert row_mask(bind(predicate, SCHEMA), table).to_pylist() == expected


@settings(max_examples=80, deadline=None)
@given(st.data(), ROWS)
def test_the_mask_is_what_brute_force_says(data, rows):
    predicate = data.draw(predicates(rows))
    bound = bind(parse(sql(predicate)), SCHEMA)
    table = arrow(rows)
    expected = [truth(predicate, row) is True for row in rows]
    batch = table.combine_chunks().to_batches()[0]
    halves = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert row_mask(bound, table).to_pylist() == expected
    assert row_mask(bound, halves).to_pylist() == expected
    assert row_mask(bound, batch).to_pylist() == expected
    assert row_mask(bound, batch.slice(1)).to_pylist() == expected[1:]


def keep(where, delta_type, values):
    schema = StructType((StructField("x", Primitive(delta_type)),))
    return row_mask(bind(parse(where), schema), pa.table({"x": values})).to_pylist()


INSTANT = datetime(2026, 1, 1, 12, tzinfo=UTC)
WALL = datetime(2026, 1, 1, 12)  # noqa: DTZ001


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit(unit):
    instants = pa.array([INSTANT, None], pa.timestamp(unit, "Europe/Rome"))
    walls = pa.array([WALL, None], pa.timestamp(unit))
    assert keep("x = '2026-01-01 13:00:00+01:00'", "timestamp", instants) == [True, False]
    assert keep("x < '2026-01-01 12:00:00.000001Z'", "timestamp", instants) == [True, False]
    assert keep("x >= '2026-01-01 12:00:00.000001Z'", "timestamp", instants) == [False, False]
    assert keep("x IN ('2026-01-01 12:00:00')", "timestamp_ntz", walls) == [True, False]
    assert keep("x <> TIMESTAMP '2026-01-01 12:00:00'", "timestamp_ntz", walls) == [False, False]


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.large_string(),
        pa.string_view(),
    ],
    ids=str,
)
def test_texts_of_every_type(arrow_type):
    values = pa.array(["a", "é😀", None]).cast(arrow_type)
    assert keep("x > 'a'", "string", values) == [False, True, False]
    assert keep("x IN ('a', 'b')", "string", values) == [True, False, False]
    assert keep("x LIKE '__'", "string", values) == [False, True, False]


def test_other_arrow_types():
    assert keep("x = '2026-01-02'", "date", pa.array([date(2026, 1, 2)], pa.date64())) == [True]
    assert keep("x = X'0aff'", "binary", pa.array([b"\x0a\xff"], pa.binary(2))) == [True]
    assert keep("x > 5", "long", pa.array([4, 6, 2**64 - 1], pa.uint64())) == [False, True, True]
    assert keep("x > 5 OR NOT x > 5 OR x IN (1)", "long", pa.nulls(2)) == [False, False]
    assert keep("x IS NULL AND NOT x <=> 5", "long", pa.nulls(2)) == [True, True]


def test_nan_is_the_greatest_and_equals_itself():
    values = pa.array([math.nan, math.inf, 1.0, None])
    assert keep("x > 1", "double", values) == [True, True, False, False]
    assert keep("NOT x > 1", "double", values) == [False, False, True, False]
    assert keep("x = 'NaN'", "double", values) == [True, False, False, False]
    assert keep("x IN ('NaN', 1)", "double", values) == [True, False, True, False]


def test_decimals_meet_literals_they_can_not_hold():
    values = pa.array([Decimal("1.10"), Decimal("1.11")], pa.decimal128(4, 2))
    assert keep("x > 1.105", "decimal(4,2)", values) == [False, True]
    assert keep("x = 1.105 OR x > 1e30 OR x <> 1.1", "decimal(4,2)", values) == [False, True]


def test_constants_fill_the_batch():
    assert keep("TRUE", "long", pa.array([1, 2])) == [True, True]
    assert keep("NULL OR 1 > 2", "long", pa.array([1, 2])) == [False, False]


def test_a_missing_column_is_an_error():
    schema = StructType((StructField("y", Primitive("long")),))
    with pytest.raises(ValidationError, match="no column y"):
        row_mask(bind(parse("y = 1"), schema), pa.table({"x": [1]}))
