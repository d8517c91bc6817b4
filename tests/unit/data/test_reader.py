from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.data.arrow_schema import from_arrow
from deltasql.data.reading.reader import read_files
from deltasql.errors import (
    LogFormatError,
    StoreError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.spec import deletion_vectors as dv
from deltasql.spec.actions import AddFile
from deltasql.spec.properties import COLUMN_MAPPING_MODE, FIELD_ID, PHYSICAL_NAME
from deltasql.spec.schema import (
    StructField,
    StructType,
)
from tests.unit.data.files_model import (
    metadata_of,
    new_store,
    put,
    read_back,
    write_out,
)

# --- deletion vectors ---------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.sets(st.integers(0, 199)),
    st.integers(1, 90),
    st.sampled_from(["v >= 0", "v < 30", "v > 150"]),
)
def test_deleted_rows_go_by_physical_index(deleted: set[int], size: int, where: str) -> None:
    table = pa.table({"v": range(200), "p": ["x"] * 200})
    store = new_store()
    sink = pa.BufferOutputStream()
    pq.write_table(table.select(["v"]), sink, row_group_size=37)
    store.put("f.parquet", sink.getvalue())
    bitmap = dv.encode(deleted)
    content, offsets = dv.encode_file([dv.encode([0]), bitmap])
    uuid = bytes(16)
    store.put(dv.relative_path(uuid, prefix="zz"), content)
    vectors = [
        dv.inline(deleted),
        dv.in_file(uuid, bitmap=bitmap, offset=offsets[1], cardinality=len(deleted), prefix="zz"),
    ]
    metadata = metadata_of(from_arrow(table.schema), "p")
    plain = AddFile(
        path="f.parquet",
        size=len(sink.getvalue()),
        modification_time=0,
        partition_values={"p": "x"},
    )
    for vector in vectors:
        files = [replace(plain, deletion_vector=vector)]
        live = [value for value in range(200) if value not in deleted]
        read = read_back(store, metadata, files, batch_size=size)
        assert read.column("v").to_pylist() == live
        assert read_back(store, metadata, files, columns=["p"]).num_rows == len(live)
        kept = read_back(store, metadata, files, where=where, columns=["v"], batch_size=size)
        _, operator, number = where.split()
        tests = {">=": int.__ge__, "<": int.__lt__, ">": int.__gt__}
        assert kept.column("v").to_pylist() == [
            value for value in live if tests[operator](value, int(number))
        ]


def test_vectors_that_do_not_belong_are_refused() -> None:
    table = pa.table({"v": [1, 2]})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    (file,) = write_out(store, metadata, table)
    with pytest.raises(LogFormatError, match="deletes row 2"):
        read_back(store, metadata, [replace(file, deletion_vector=dv.inline([2]))])
    wrong = replace(dv.inline([0]), cardinality=2)
    with pytest.raises(LogFormatError, match="2"):
        read_back(store, metadata, [replace(file, deletion_vector=wrong)])
    strange = replace(dv.inline([0]), storage_type="z")
    with pytest.raises(UnsupportedFeatureError):
        read_back(store, metadata, [replace(file, deletion_vector=strange)])
    lost = dv.in_file(bytes(16), bitmap=b"", offset=1, cardinality=0)
    with pytest.raises(StoreError, match="deletion_vector_0000"):
        read_back(store, metadata, [replace(file, deletion_vector=lost)])


# --- old files, new schema ----------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "target", "expected"),
    [
        (pa.array([1], pa.int8()), pa.int64(), 1),
        (pa.array([1], pa.int32()), pa.float64(), 1.0),
        (pa.array([1], pa.int32()), pa.decimal128(12, 1), Decimal("1.0")),
        (pa.array([1.5], pa.float32()), pa.float64(), 1.5),
        (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), pa.decimal128(9, 3), Decimal("1.500")),
        (pa.array([1], pa.date32()), pa.timestamp("us"), dt.datetime.fromisoformat("1970-01-02")),
        (
            pa.array([1999], pa.timestamp("ns")),
            pa.timestamp("us"),
            dt.datetime.fromisoformat("1970-01-01T00:00:00.000001"),
        ),
        (pa.array(["x"], pa.large_string()), pa.string(), "x"),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array([b"x"]), pa.string(), "x"),
    ],
)
def test_types_that_were_widened(stored: pa.Array, target: pa.DataType, expected: object) -> None:
    store, metadata = new_store(), metadata_of(from_arrow(pa.schema([("c", target)])))
    file = put(store, pa.table({"c": stored}))
    assert read_back(store, metadata, [file]).to_pylist() == [{"c": expected}]


@pytest.mark.parametrize(
    ("stored", "target"),
    [
        (pa.array(["x"]), pa.int64()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([1.0]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([[1]]), pa.int64()),
        (pa.array([0], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([b"\xff"]), pa.string()),
    ],
)
def test_types_that_do_not_fit_are_refused(stored: pa.Array, target: pa.DataType) -> None:
    store, metadata = new_store(), metadata_of(from_arrow(pa.schema([("c", target)])))
    with pytest.raises(LogFormatError, match=r"c.*f\.parquet"):
        read_back(store, metadata, [put(store, pa.table({"c": stored}))])


def test_int96_is_an_instant() -> None:
    at = dt.datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    table = pa.table({"c": pa.array([at, None], pa.timestamp("us", "UTC"))})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    file = put(store, table, use_deprecated_int96_timestamps=True, store_schema=False)
    assert read_back(store, metadata, [file]).equals(table)
    assert read_back(store, metadata, [file], where="c > '2020-01-01'").num_rows == 1


def test_columns_that_came_later_are_null_at_every_depth() -> None:
    old = pa.struct([("x", pa.int8()), ("gone", pa.int8())])
    new = pa.struct([("y", pa.string()), ("x", pa.int32())])
    rows = [{"s": {"x": 1, "gone": 0}, "l": [{"x": 2}, None], "m": [("k", {"x": 3})]}, {}]
    before = pa.schema([("s", old), ("l", pa.list_(old)), ("m", pa.map_(pa.string(), old))])
    after = pa.schema(
        [
            ("m", pa.map_(pa.string(), new)),
            ("added", pa.int64()),
            ("s", new),
            ("l", pa.list_(new)),
        ]
    )
    store, metadata = new_store(), metadata_of(from_arrow(after))
    table = pa.Table.from_pylist(rows, before)
    table = table.append_column("_change_type", pa.array(["insert", "insert"]))
    file = put(store, table)
    assert read_back(store, metadata, [file]).to_pylist() == [
        {
            "m": [("k", {"y": None, "x": 3})],
            "added": None,
            "s": {"y": None, "x": 1},
            "l": [{"y": None, "x": 2}, None],
        },
        {"m": None, "added": None, "s": None, "l": None},
    ]
    assert (
        read_back(store, metadata, [file], columns=["added"]).to_pylist() == [{"added": None}] * 2
    )
    assert read_back(store, metadata, [file], where="added IS NULL", columns=[]).num_rows == 2


def test_names_that_changed_places() -> None:
    """Equal Arrow types say nothing under column mapping: a and b were swapped."""

    def field(name: str, physical: str, number: int) -> StructField:
        metadata = {PHYSICAL_NAME: physical, FIELD_ID: number}
        return replace(from_arrow(pa.schema([(name, pa.int64())])).fields[0], metadata=metadata)

    inner = StructType((field("a", "b", 2), field("b", "a", 1)))
    outer = replace(field("s", "s", 3), type=inner)
    schema = StructType((outer, field("a", "b", 5), field("b", "a", 4)))
    table = pa.table({"s": [{"a": 1, "b": 2}], "a": [3], "b": [4]})
    store, metadata = new_store(), metadata_of(schema, **{COLUMN_MAPPING_MODE: "name"})
    expected = [{"s": {"a": 2, "b": 1}, "a": 4, "b": 3}]
    assert read_back(store, metadata, [put(store, table)]).to_pylist() == expected
    assert (
        read_back(
            store, metadata, [AddFile(path="f.parquet", size=0, modification_time=0)], where="a = 4"
        ).num_rows
        == 1
    )
    by_id = replace(metadata, configuration={COLUMN_MAPPING_MODE: "id"})
    with pytest.raises(LogFormatError, match="no field ids"):
        read_back(store, by_id, [put(store, table, "g.parquet")])


def test_names_differ_in_case_and_hold_dots() -> None:
    table = pa.table({"Aa": [1], "x.y": [2], "x": [{"y": 3}]})
    after = pa.schema(
        [("aA", pa.int64()), ("x.y", pa.int64()), ("x", table.schema.field("x").type)]
    )
    store, metadata = new_store(), metadata_of(from_arrow(after))
    file = put(store, table)
    assert read_back(store, metadata, [file]).to_pylist() == [{"aA": 1, "x.y": 2, "x": {"y": 3}}]
    assert read_back(store, metadata, [file], columns=["X"]).to_pylist() == [{"x": {"y": 3}}]
    assert read_back(store, metadata, [file], columns=["x.y"]).to_pylist() == [{"x.y": 2}]
    twice = put(store, pa.table([[1], [2]], names=["AA", "Aa"]), "g.parquet")
    with pytest.raises(LogFormatError, match="several"):
        read_back(store, metadata, [twice])


def test_partition_values_come_from_the_log_alone() -> None:
    schema = pa.schema([("p", pa.int32()), ("v", pa.int64())])
    store, metadata = new_store(), metadata_of(from_arrow(schema), "p")
    stored = pa.table({"v": [1], "p": ["lies"]})
    file = replace(put(store, stored, "p=7/f.parquet"), partition_values={"p": "5"})
    assert read_back(store, metadata, [file]).to_pylist() == [{"p": 5, "v": 1}]
    with pytest.raises(LogFormatError, match="partition column 'p'"):
        read_back(store, metadata, [replace(file, partition_values={})])
    with pytest.raises(LogFormatError):
        read_back(store, metadata, [replace(file, partition_values={"p": "x"})])


def test_required_columns_and_broken_files() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    store, metadata = new_store(), metadata_of(from_arrow(schema))
    with pytest.raises(LogFormatError, match="NOT NULL"):
        read_back(store, metadata, [put(store, pa.table({"b": [1]}))])
    store.put("bad", b"PAR1" + b"x" * 100 + b"PAR1")
    with pytest.raises(LogFormatError, match="bad"):
        read_back(store, metadata, [AddFile(path="bad", size=108, modification_time=0)])
    with pytest.raises(StoreError, match="gone"):
        read_back(store, metadata, [AddFile(path="gone", size=0, modification_time=0)])
    with pytest.raises(LogFormatError):
        read_back(store, metadata, [AddFile(path="../f", size=0, modification_time=0)])


def test_dates_in_the_legacy_calendar_are_refused() -> None:
    table = pa.table({"d": pa.array([-200_000], pa.date32())})
    marked = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    with pytest.raises(UnsupportedFeatureError, match="legacy"):
        read_back(store, metadata, [put(store, marked)])
    assert read_back(store, metadata, [put(store, table, "g")]).equals(table)


# --- choosing -----------------------------------------------------------------------


def test_columns_and_predicates() -> None:
    table = pa.table({"p": ["a", "b"] * 50, "v": range(100), "w": [None, 1] * 50})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema), "p")
    files = write_out(store, metadata, table)
    assert read_back(
        store, metadata, files, columns=["V", "p"], where="w = 1 AND v < 4"
    ).to_pydict() == {
        "v": [1, 3],
        "p": ["b", "b"],
    }
    assert read_back(store, metadata, files, columns=[], where="p = 'a'").num_rows == 50
    assert read_back(store, metadata, []).num_rows == 0
    with pytest.raises(ValidationError, match="'vv'") as caught:
        read_back(store, metadata, files, columns=["vv"])
    assert "'v'" in caught.value.remedy
    with pytest.raises(ValidationError, match="twice"):
        read_files(store, files, schema=from_arrow(table.schema), columns=["v", "V"])


@settings(max_examples=30)
@given(
    st.lists(st.none() | st.integers(-3, 3) | st.just(2**62), min_size=1, max_size=40),
    st.integers(1, 9),
    st.sampled_from(["v = {}", "v <> {}", "v < {}", "v >= {}", "v IS NULL OR v = {}", "s = '{}'"]),
    st.integers(-4, 4),
)
def test_row_groups_are_pruned_safely(
    values: list[int | None], size: int, text: str, number: int
) -> None:
    strings = [None if value is None else str(value) for value in values]
    table = pa.table({"v": pa.array(values, pa.int64()), "s": pa.array(strings, pa.string())})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    file = put(store, table, row_group_size=size)
    grouped = read_back(store, metadata, [file], where=text.format(number))
    whole = read_back(store, metadata, [put(store, table, "g")], where=text.format(number))
    assert grouped.equals(whole)
