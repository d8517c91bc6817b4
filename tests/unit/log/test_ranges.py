"""Conditions as ranges of keys: simple, few, and right beyond doubles."""

from __future__ import annotations

import pytest

from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import may_match
from deltasql.log.pruning.range_predicates import to_ranges
from deltasql.log.pruning.ranges import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Everything,
    MayBeNotNull,
    MayBeNull,
    Nothing,
    bounded,
    holds,
    size,
)
from deltasql.log.pruning.stats_columns import stats_columns
from deltasql.log.pruning.stats_keys import FileKeys, KeyMaker
from tests.unit.log.schemas import COLUMNS, SCHEMA, schema_of


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
        assert kept <= holds(to_ranges(bound, schema, columns), KeyMaker(columns).keys(stats))
