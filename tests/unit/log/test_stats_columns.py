"""Which columns have keys, and at which place."""

from __future__ import annotations

import pytest

from deltasql.errors import LogFormatError
from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import may_match
from deltasql.log.pruning.range_predicates import to_ranges
from deltasql.log.pruning.ranges import holds
from deltasql.log.pruning.stats_columns import (
    MAX,
    StatsColumn,
    dump_stats_columns,
    load_stats_columns,
    stats_columns,
)
from deltasql.log.pruning.stats_keys import KeyMaker
from deltasql.spec.properties import PHYSICAL_NAME
from deltasql.spec.schema import Primitive, StructField, StructType
from tests.unit.log.schemas import schema_of


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
    assert KeyMaker(columns).keys(stats).min_keys == [5.0]
    bound = bind(parse("n.x < 5 OR c39 < 5 AND n.x > 6"), schema)
    assert not holds(to_ranges(bound, schema, columns), KeyMaker(columns).keys(stats))
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
