from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.data.arrow_schema import from_arrow
from deltasql.data.writing.stats import Collector, indexed, round_up
from deltasql.spec.properties import PHYSICAL_NAME
from deltasql.spec.schema import Primitive, StructField, StructType


def _stats(table: pa.Table, *, parts: int = 1, **configuration: str) -> dict[str, Any]:
    collector = Collector(indexed(from_arrow(table.schema), configuration))
    step = max(1, math.ceil(table.num_rows / parts))
    for start in range(0, table.num_rows, step):
        collector.add(table.slice(start, step))
    found: dict[str, Any] = json.loads(collector.render(), parse_float=Decimal)
    return found


def _one(values: list[Any], kind: pa.DataType) -> tuple[Any, Any, int]:
    found = _stats(pa.table({"c": pa.array(values, kind)}))
    # The large path must say the same.
    many = _stats(pa.table({"c": pa.array(values * 40, kind)}))
    assert many["minValues"] == found["minValues"]
    assert many["maxValues"] == found["maxValues"]
    low, high = found["minValues"].get("c"), found["maxValues"].get("c")
    return low, high, found["nullCount"]["c"]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([3, None, 1], pa.int64(), (1, 3, 1)),
        ([2**63 - 1, -(2**63)], pa.int64(), (-(2**63), 2**63 - 1, 0)),
        ([None, None], pa.int64(), (None, None, 2)),
        ([1.5, -2.0], pa.float64(), (Decimal("-2.0"), Decimal("1.5"), 0)),
        ([1.5, math.nan], pa.float64(), (Decimal("1.5"), None, 0)),
        ([math.nan, None], pa.float32(), (None, None, 1)),
        ([math.inf, 1.0], pa.float64(), (Decimal("1.0"), None, 0)),
        ([-math.inf, 1.0], pa.float64(), (None, Decimal("1.0"), 0)),
        ([Decimal("1.10"), Decimal("-3.00")], pa.decimal128(38, 2), ("-3.00", "1.10", 0)),
        ([Decimal(10**37)], pa.decimal128(38, 0), (10**37, 10**37, 0)),
        ([True, None], pa.bool_(), (None, None, 1)),
        ([b"x"], pa.binary(), (None, None, 0)),
        ([[1], None], pa.list_(pa.int8()), (None, None, 1)),
        (["b", "a"], pa.string(), ("a", "b", 0)),
        ([dt.date(2026, 1, 2)], pa.date32(), ("2026-01-02", "2026-01-02", 0)),
        ([-(2**31), 0], pa.date32(), (None, "1970-01-01", 0)),
        (
            [1_999, -1],
            pa.timestamp("us", "UTC"),
            ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z", 0),
        ),
        ([2**62, 0], pa.timestamp("us"), ("1970-01-01T00:00:00.000", None, 0)),
    ],
)
def test_bounds(values: list[Any], kind: pa.DataType, expected: tuple[Any, Any, int]) -> None:
    if pa.types.is_decimal(kind):
        expected = (Decimal(expected[0]), Decimal(expected[1]), expected[2])
    assert _one(values, kind) == expected


def test_decimals_keep_their_digits() -> None:
    collector = Collector(indexed(from_arrow(pa.schema([("c", pa.decimal128(38, 3))])), {}))
    number = Decimal("12345678901234567890123456789012345.100")
    collector.add(pa.table({"c": pa.array([number], pa.decimal128(38, 3))}))
    assert f'"minValues":{{"c":{number}}}' in collector.render()


def test_long_strings_are_cut() -> None:
    low, high, _ = _one(["a" * 40, "z" * 40], pa.string())
    assert (low, high) == ("a" * 32, "z" * 31 + "{")
    assert _one(["é" * 32], pa.string())[:2] == ("é" * 32, "é" * 32)
    assert _one(["\U0010ffff" * 33], pa.string())[:2] == ("\U0010ffff" * 32, None)
    assert round_up("a" * 31 + "\U0010ffffx") == "a" * 30 + "b"
    assert round_up("a" * 31 + "\ud7ffx") == "a" * 31 + "\ue000"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_rounded_maximum_is_not_below(text: str) -> None:
    high = round_up(text)
    assert high is None or (high.encode() >= text.encode() and len(high) <= 32)


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": (pa.float64(), st.floats()),
    "s": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
    "d": (pa.decimal128(10, 2), st.decimals(-1000, 1000, places=2)),
    "t": (pa.date32(), st.dates()),
}


@given(
    st.lists(
        st.fixed_dictionaries({name: st.none() | kind for name, (_, kind) in COLUMNS.items()}),
        min_size=1,
        max_size=100,
    ),
    st.integers(1, 3),
)
def test_bounds_hold(rows: list[dict[str, Any]], parts: int) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
    found = _stats(pa.Table.from_pylist(rows, schema), parts=parts)
    assert found["numRecords"] == len(rows)
    for name in COLUMNS:
        values = [row[name] for row in rows if row[name] is not None]
        assert found["nullCount"][name] == len(rows) - len(values)
        if name == "t":
            values = [value.isoformat() for value in values]
        low, high = found["minValues"].get(name), found["maxValues"].get(name)
        if name == "f":
            low, high = (None if bound is None else float(bound) for bound in (low, high))
        if low is not None:
            assert all(not value < low for value in values)
        if high is not None:
            assert all(value <= high for value in values)


def test_nested_structs_nest_in_the_stats() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    table = pa.table({"s": pa.array([{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": None}, None], kind)})
    for parts in (1, 2):
        found = _stats(table, parts=parts)
        assert found["minValues"] == {"s": {"a": 1, "b": {"c": "x"}}}
        assert found["maxValues"] == {"s": {"a": 2, "b": {"c": "x"}}}
        assert found["nullCount"] == {"s": {"a": 1, "b": {"c": 2}}}


def test_which_columns_have_stats() -> None:
    wide = pa.table({f"c{number}": [number] for number in range(40)})
    assert len(_stats(wide)["nullCount"]) == 32
    limit = "delta.dataSkippingNumIndexedCols"
    assert list(_stats(wide, **{limit: "2"})["minValues"]) == ["c0", "c1"]
    assert len(_stats(wide, **{limit: "-1"})["minValues"]) == 40
    assert _stats(wide, **{limit: "0"})["minValues"] == {}
    # It slipped in: commits that set it are refused.
    assert len(_stats(wide, **{limit: "many"})["minValues"]) == 32


def test_named_columns_win() -> None:
    kind = pa.struct([("x", pa.int8()), ("y.z", pa.int8())])
    row = {"x": 1, "y.z": 2}
    table = pa.table({"a": [1], "s": pa.array([row], kind), "b,c": [3]})
    schema = from_arrow(table.schema, column_mapping=True)

    def names(text: str) -> list[tuple[str, ...]]:
        both = {"delta.dataSkippingStatsColumns": text, "delta.dataSkippingNumIndexedCols": "0"}
        return [leaf.path for leaf in indexed(schema, both)]

    assert names("S.x") == [("s", "x")]
    assert names("s, a") == [("a",), ("s", "x"), ("s", "y.z")]
    assert names("`b,c`, s.`y.z`") == [("s", "y.z"), ("b,c",)]
    assert names("") == []


def test_stats_go_by_physical_names() -> None:
    item = StructField("a", Primitive("long"), metadata={PHYSICAL_NAME: "col-1"})
    assert [leaf.path for leaf in indexed(StructType((item,)), {})] == [("col-1",)]
