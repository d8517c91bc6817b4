"""Longs beyond 2^53 beside a double: as in Spark they are rounded to doubles first."""

from __future__ import annotations

import operator

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltasql.data.reading.row_compare import compare_columns
from deltasql.data.reading.row_filter import row_mask
from deltasql.log.predicates.predicate import bind, parse
from deltasql.spec.schema import Primitive, StructField, StructType

SCHEMA = StructType((StructField("l", Primitive("long")), StructField("f", Primitive("double"))))
OPERATORS = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "<=>": operator.eq,
}  # fmt: skip
longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(2**53, 2**63) | st.floats(-(2**63), -(2**53))


@given(longs, doubles, st.sampled_from(sorted(OPERATORS)))
@example(2**53 + 1, 2.0**53, "=")
@example(2**63 - 1, 2.0**63, "=")
@example(-(2**63), -(2.0**63), "<=")
def test_a_literal_with_an_exponent(value, literal, sign):
    near = [value, int(literal) - 1, int(literal), int(literal) + 1]
    near = [item for item in near if -(2**63) <= item < 2**63]
    rows = pa.table({"l": pa.array([*near, None], pa.int64())})
    predicate = bind(parse(f"l {sign} {literal:.17e}"), SCHEMA)
    expected = [OPERATORS[sign](float(item), literal) for item in near]
    assert row_mask(predicate, rows).to_pylist() == [*expected, False]
    inside = bind(parse(f"l IN (7, {literal:.17e})"), SCHEMA)
    equal = [float(item) in (7.0, literal) for item in near]
    assert row_mask(inside, rows).to_pylist() == [*equal, False]


def test_literals_without_an_exponent_are_exact():
    rows = pa.table({"l": [2**53, 2**53 + 1]})
    assert row_mask(bind(parse(f"l = {2**53}.0"), SCHEMA), rows).to_pylist() == [True, False]


@pytest.mark.parametrize("sign", [name for name in OPERATORS if name != "<=>"])
def test_columns(sign):
    values, others = [2**53 + 1, 2**53, 5, -(2**63)], [2.0**53, 2.0**53, 5.5, -(2.0**63)]
    found = compare_columns(pa.array(values), sign, pa.array(others)).to_pylist()
    pairs = zip(values, others, strict=True)
    assert found == [OPERATORS[sign](float(one), other) for one, other in pairs]
