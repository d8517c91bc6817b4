from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from deltasql.data.arrow_schema import from_arrow
from deltasql.data.conform import conform, merge
from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.spec.schema import StructType


def _schema(**columns: pa.DataType) -> StructType:
    return from_arrow(pa.schema(list(columns.items())))


def _rows(data: Any, schema: StructType) -> list[dict[str, Any]]:
    found = conform(data, schema)
    table = found if isinstance(found, pa.Table) else found.read_all()
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_data_that_fits_is_left_alone() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    assert conform(table, from_arrow(table.schema)) is table


def test_columns_match_by_name_and_absent_ones_are_null() -> None:
    schema = _schema(Id=pa.int64(), name=pa.string(), later=pa.date32())
    assert _rows(pa.table({"NAME": ["x"], "id": pa.array([1], pa.int8())}), schema) == [
        {"Id": 1, "name": "x", "later": None}
    ]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (pa.array([1], pa.uint8()), pa.int16(), 1),
        (pa.array([1], pa.int64()), pa.int8(), 1),
        (pa.array([1], pa.int64()), pa.float64(), 1.0),
        (pa.array([7], pa.int64()), pa.decimal128(3, 2), Decimal("7.00")),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), Decimal(2**64 - 1)),
        (pa.array([1.0]), pa.int32(), 1),
        (pa.array([1.5]), pa.float32(), 1.5),
        (pa.array([Decimal("1.50")]), pa.decimal128(38, 5), Decimal("1.50000")),
        (pa.array([Decimal("2.00")]), pa.int64(), 2),
        (pa.array(["x"], pa.large_string()), pa.string(), "x"),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array([b"x"], pa.binary(1)), pa.binary(), b"x"),
        (pa.nulls(1), pa.string(), None),
        (
            pa.array([0], pa.timestamp("ns")),
            pa.timestamp("us"),
            dt.datetime.fromisoformat("1970-01-01"),
        ),
        (
            pa.array([0], pa.timestamp("s", "Europe/Berlin")),
            pa.timestamp("us", "UTC"),
            dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        ),
        (
            pa.array([0], pa.timestamp("ms")),
            pa.timestamp("us", "UTC"),
            dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        ),
        (pa.array([1], pa.date32()), pa.timestamp("us"), dt.datetime.fromisoformat("1970-01-02")),
        (pa.array([[1]], pa.large_list(pa.int8())), pa.list_(pa.int64()), [1]),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), pa.list_(pa.int64()), [1, 2]),
    ],
)
def test_what_loses_nothing_is_cast(
    source: pa.Array, target: pa.DataType, expected: object
) -> None:
    assert _rows(pa.table({"c": source}), _schema(c=target)) == [{"c": expected}]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([2**60 + 1]), pa.float64()),
        (pa.array([1000]), pa.decimal128(3, 1)),
        (pa.array([Decimal("1.55")]), pa.decimal128(3, 1)),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([True]), pa.int64()),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([0], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([0], pa.timestamp("us")), pa.date32()),
        (pa.array([[1]]), pa.int64()),
        (pa.array([1]), pa.list_(pa.int64())),
        (pa.array([1]), pa.struct([("a", pa.int64())])),
        (pa.array([[1.5]]), pa.list_(pa.int64())),
    ],
)
def test_what_would_lose_is_refused_by_name(source: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="'c"):
        _rows(pa.table({"c": source}), _schema(c=target))


def test_strange_columns_are_named_with_the_remedy() -> None:
    with pytest.raises(SchemaMismatchError, match="x, y") as caught:
        conform(pa.table({"a": [1], "y": [1], "x": [1]}), _schema(a=pa.int64()))
    assert 'schema_mode="merge"' in caught.value.remedy
    nested = pa.table({"s": [{"a": 1, "z": 2}]})
    with pytest.raises(SchemaMismatchError, match=r"s\.z"):
        conform(nested, _schema(s=pa.struct([("a", pa.int64())])))


def test_twice_the_same_column() -> None:
    with pytest.raises(SchemaMismatchError, match="two columns"):
        conform(pa.table([[1], [2]], names=["a", "A"]), _schema(a=pa.int64()))


def test_structs_lists_and_maps_are_fitted_inside() -> None:
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    schema = _schema(
        s=inner, l=pa.list_(inner), m=pa.map_(pa.string(), inner), e=pa.list_(pa.list_(pa.int64()))
    )
    small = pa.struct([("B", pa.large_string())])
    rows = [
        {"s": {"B": "x"}, "l": [{"B": "y"}, None], "m": [("k", {"B": "z"})], "e": [[1], None, []]},
        {"s": None, "l": None, "m": None, "e": None},
        {"s": {"B": None}, "l": [], "m": [], "e": [[2, 3]]},
    ]
    source = pa.Table.from_pylist(
        rows,
        pa.schema(
            [
                ("m", pa.map_(pa.large_string(), small)),
                ("l", pa.list_(small)),
                ("s", small),
                ("e", pa.list_(pa.list_(pa.int8()))),
            ]
        ),
    )
    expected = [
        {
            "s": {"a": None, "b": "x"},
            "l": [{"a": None, "b": "y"}, None],
            "m": [("k", {"a": None, "b": "z"})],
            "e": [[1], None, []],
        },
        {"s": None, "l": None, "m": None, "e": None},
        {"s": {"a": None, "b": None}, "l": [], "m": [], "e": [[2, 3]]},
    ]
    assert _rows(source, schema) == expected
    assert _rows(source.slice(1), schema) == expected[1:]
    assert _rows(source.slice(2), schema) == expected[2:]
    assert _rows(pa.concat_tables([source, source.slice(1, 1)]), schema) == [*expected, expected[1]]


def test_required_fields_of_structs_that_are_null_inside_a_list() -> None:
    """As Spark hands them over; Arrow would not cast such a list even to its own type."""
    required = [pa.field("x", pa.int32(), nullable=False)]
    structs = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int32())], fields=required, mask=pa.array([False, True])
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), structs)
    schema = _schema(a=pa.list_(pa.struct([("x", pa.int64())])))
    assert _rows(pa.table({"a": lists}), schema) == [{"a": [{"x": 1}, None]}]


def test_garbage_under_nulls_does_not_matter() -> None:
    children = pa.StructArray.from_arrays(
        [pa.array([1, 10**6])], ["a"], mask=pa.array([False, True])
    )
    assert _rows(pa.table({"s": children}), _schema(s=pa.struct([("a", pa.int8())]))) == [
        {"s": {"a": 1}},
        {"s": None},
    ]


REQUIRED = [
    (pa.schema([pa.field("a", pa.int64(), nullable=False)]), {"a": [1, None]}, "'a'"),
    (
        pa.schema([("s", pa.struct([pa.field("a", pa.int64(), nullable=False)]))]),
        {"s": [None, {"a": None}]},
        r"s\.a",
    ),
    (
        pa.schema([("l", pa.list_(pa.field("element", pa.int64(), nullable=False)))]),
        {"l": [None, [1, None]]},
        r"l\[\]",
    ),
    (
        pa.schema([("m", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)))]),
        {"m": [None, [("k", None)]]},
        r"m\[value\]",
    ),
]


@pytest.mark.parametrize(("schema", "columns", "where"), REQUIRED)
def test_not_null_holds_at_every_depth(
    schema: pa.Schema, columns: dict[str, Any], where: str
) -> None:
    loose = pa.schema([(item.name, _nullable(item.type)) for item in schema])
    data = pa.table(columns, schema=loose)
    delta = from_arrow(schema)
    with pytest.raises(SchemaMismatchError, match=where):
        conform(data, delta)
    if pa.types.is_nested(schema.field(0).type):
        assert conform(data.slice(0, 1), delta).num_rows == 1


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(item.name, item.type) for item in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_type)
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def test_a_required_column_must_be_there() -> None:
    schema = from_arrow(pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.int8())]))
    with pytest.raises(SchemaMismatchError, match="'a'"):
        conform(pa.table({"b": pa.array([1], pa.int8())}), schema)


def test_everything_that_speaks_arrow() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    schema = from_arrow(table.schema)
    expected = table.to_pylist()
    batch = table.to_batches()[0]
    for data in (table, batch, table.to_reader(), pl.DataFrame(expected)):
        assert _rows(data, schema) == expected
    with pytest.raises(ValidationError, match="list"):
        conform([1, 2], schema)


def test_a_stream_is_checked_even_when_empty() -> None:
    reader = pa.RecordBatchReader.from_batches(pa.schema([("z", pa.int8())]), [])
    with pytest.raises(SchemaMismatchError):
        _rows(reader, _schema(a=pa.int64()))


def test_merge_appends_new_columns_nullable() -> None:
    old = from_arrow(
        pa.schema(
            [
                pa.field("a", pa.int64(), nullable=False),
                ("s", pa.struct([("x", pa.int8())])),
                ("l", pa.list_(pa.struct([("x", pa.int8())]))),
            ]
        )
    )
    wide = pa.struct([("X", pa.int8()), pa.field("y", pa.string(), nullable=False)])
    incoming = pa.schema(
        [pa.field("n", pa.date32(), nullable=False), ("l", pa.list_(wide)), ("S", wide)]
    )
    merged = merge(old, incoming)
    grown = pa.struct([("x", pa.int8()), ("y", pa.string())])
    assert merged == from_arrow(
        pa.schema(
            [
                pa.field("a", pa.int64(), nullable=False),
                ("s", grown),
                ("l", pa.list_(grown)),
                ("n", pa.date32()),
            ]
        )
    )
    assert merge(old, pa.schema([("a", pa.int32())])) is old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(6, 2)),
        (pa.list_(pa.int8()), pa.int8()),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int16())])),
    ],
)
def test_merge_never_changes_a_type(old: pa.DataType, new: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="'c") as caught:
        merge(_schema(c=old), pa.schema([("c", new)]))
    assert "cast" in caught.value.remedy
