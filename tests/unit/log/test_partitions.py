"""Partitions, matched by their values."""

from __future__ import annotations

from decimal import Decimal

from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import is_partition_only, matching_partitions, may_match
from deltasql.spec.properties import PHYSICAL_NAME
from deltasql.spec.schema import Primitive, StructField, StructType
from tests.unit.log.schemas import schema_of


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

    assert kept("day = '2026-01-01'") == [1, 5]
    assert kept("day IS NULL") == [3, 5]
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
