from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.data.arrow_schema import from_arrow, to_arrow
from deltasql.data.conform import conform
from deltasql.data.layout import MAPPING_MODE
from deltasql.data.reader import output_schema, read_files
from deltasql.data.writer import discard, write_files
from deltasql.errors import (
    LogFormatError,
    SchemaMismatchError,
    StoreError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.log.predicate import bind, parse
from deltasql.objectstore import ObjectStore, open_store
from deltasql.spec import deletion_vectors as dv
from deltasql.spec.actions import AddFile, Metadata, Protocol
from deltasql.spec.codec import encode_commit
from deltasql.spec.paths import object_key
from deltasql.spec.schema import (
    FIELD_ID,
    PHYSICAL_NAME,
    ArrayType,
    DeltaType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    render_schema,
)

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "s": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "b": (pa.int8(), st.integers(-128, 127)),
    "d": (pa.float64(), st.floats(allow_nan=False)),
    "t": (pa.bool_(), st.booleans()),
    "x": (pa.binary(), st.binary(max_size=4)),
    "day": (pa.date32(), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "wall": (pa.timestamp("us"), st.datetimes()),
    "m": (pa.decimal128(10, 2), st.decimals(-(10**7), 10**7, places=2)),
}
SCALARS = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
NESTED = pa.struct([("a", pa.int32()), ("l", pa.list_(pa.struct([("x", pa.string())])))])
EVERYTHING = pa.schema(
    [*SCALARS, ("n", NESTED), ("map", pa.map_(pa.string(), pa.struct([("v", pa.int64())])))]
)


def _store(path: Path | None = None) -> ObjectStore:
    return open_store("memory:///" if path is None else str(path))


def _metadata(schema: StructType, *partition: str, **configuration: str) -> Metadata:
    return Metadata(
        id="t",
        schema_string=render_schema(schema),
        partition_columns=partition,
        configuration=configuration,
    )


def _write(
    store: ObjectStore, metadata: Metadata, data: pa.Table | pa.RecordBatchReader, **options: Any
) -> list[AddFile]:
    ids = count()
    return write_files(
        store,
        metadata=metadata,
        data=data,
        new_id=lambda: f"id{next(ids)}",
        now_ms=lambda: 1234,
        **options,
    )


def _read(store: ObjectStore, metadata: Metadata, files: list[AddFile], **options: Any) -> pa.Table:
    schema = options.pop("schema", None) or parse_schema(metadata.schema_string)
    where = options.pop("where", None)
    if where:
        options["predicate"] = bind(parse(where), schema)
    batches = read_files(
        store,
        files,
        schema=schema,
        partition_columns=metadata.partition_columns,
        column_mapping=metadata.configuration.get(MAPPING_MODE, "none"),
        **options,
    )
    table = pa.Table.from_batches(batches, output_schema(schema, options.get("columns")))
    table.validate(full=True)
    return table


def _values(name: str) -> st.SearchStrategy[Any]:
    return st.none() | KINDS[name][1]


def _tables(schema: pa.Schema = SCALARS) -> st.SearchStrategy[pa.Table]:
    row = {name: _values(name) for name in KINDS}
    if "n" in schema.names:
        item = st.fixed_dictionaries({"x": st.none() | st.text("ab", max_size=2)})
        inner = {"a": st.none() | st.integers(-5, 5), "l": st.none() | st.lists(st.none() | item)}
        row["n"] = st.none() | st.fixed_dictionaries(inner)
        value = st.fixed_dictionaries({"v": st.none() | st.integers(0, 9)})
        entries = st.dictionaries(st.text("kl", max_size=2), st.none() | value, max_size=3)
        row["map"] = st.none() | entries.map(lambda found: list(found.items()))
    rows = st.lists(st.fixed_dictionaries(row), max_size=12)
    return rows.map(lambda found: pa.Table.from_pylist(found, schema))


def _mapped(kind: DeltaType, numbers: Iterator[int]) -> DeltaType:
    match kind:
        case StructType(fields):
            return StructType(tuple(_mapped_field(item, numbers) for item in fields))
        case ArrayType(element, nullable):
            return ArrayType(_mapped(element, numbers), nullable)
        case MapType(key, value, nullable):
            return MapType(_mapped(key, numbers), _mapped(value, numbers), nullable)
    return kind


def _mapped_field(item: StructField, numbers: Iterator[int]) -> StructField:
    number = next(numbers)
    metadata = {FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"}
    return replace(item, type=_mapped(item.type, numbers), metadata=metadata)


# --- written, then read ---------------------------------------------------------------


@settings(max_examples=60)
@given(_tables(EVERYTHING), st.sampled_from(["none", "name", "id"]))
def test_what_is_written_is_read(table: pa.Table, mode: str) -> None:
    schema: Any = from_arrow(EVERYTHING)
    if mode != "none":
        schema = _mapped(schema, count(1))
    store, metadata = _store(), _metadata(schema, **{MAPPING_MODE: mode})
    files = _write(store, metadata, conform(table, schema))
    assert _read(store, metadata, files).equals(table)
    assert len(files) == (1 if table.num_rows else 0)
    for file in files:
        stats = json.loads(file.stats or "")
        assert stats["numRecords"] == table.num_rows
        assert set(stats["nullCount"]) == {item.physical_name for item in schema.fields}
        written = pq.ParquetFile(store.open_input(object_key(file.path)))
        assert written.schema_arrow.names == [item.physical_name for item in schema.fields]


@settings(max_examples=60)
@given(
    _tables(),
    st.sampled_from(["none", "name"]),
    st.lists(st.sampled_from(list(KINDS)), unique=True, min_size=1, max_size=3),
)
def test_partitions_come_back(table: pa.Table, mode: str, partition: list[str]) -> None:
    schema: Any = from_arrow(SCALARS)
    if mode != "none":
        schema = _mapped(schema, count(1))
    store, metadata = _store(), _metadata(schema, *partition, **{MAPPING_MODE: mode})
    files = _write(store, metadata, table)
    found = _read(store, metadata, files)

    def rows(rows_of: pa.Table) -> list[str]:
        # The empty string and empty bytes are null in a partition column.
        return sorted(
            repr({k: None if k in partition and v in ("", b"") else v for k, v in row.items()})
            for row in rows_of.to_pylist()
        )

    assert rows(found) == rows(table)
    assert [file.path for file in files] == [
        file.path for file in _write(_store(), metadata, table)
    ]
    keys = [tuple(file.partition_values.items()) for file in files]
    assert len(set(keys)) == len(keys)
    names = {item.physical_name for item in schema.fields if item.name in partition}
    assert all(set(file.partition_values) == names for file in files)


def test_paths_names_and_rows_of_partitions() -> None:
    table = pa.table({"p": ["b c", None, "a:b", "", "b c"], "v": [1, 2, 3, 4, 5]})
    store, metadata = _store(), _metadata(from_arrow(table.schema), "p")
    files = _write(store, metadata, table)
    assert [(file.path, dict(file.partition_values)) for file in files] == [
        ("p=__HIVE_DEFAULT_PARTITION__/part-00000-id0-c000.snappy.parquet", {"p": None}),
        ("p=a%253Ab/part-00001-id1-c000.snappy.parquet", {"p": "a:b"}),
        ("p=b%20c/part-00002-id2-c000.snappy.parquet", {"p": "b c"}),
    ]
    assert [file.modification_time for file in files] == [1234] * 3
    assert [file.size for file in files] == [store.size(object_key(file.path)) for file in files]
    assert _read(store, metadata, files).to_pylist() == [
        {"p": None, "v": 2},
        {"p": None, "v": 4},
        {"p": "a:b", "v": 3},
        {"p": "b c", "v": 1},
        {"p": "b c", "v": 5},
    ]


def test_nan_and_both_zeros_partition() -> None:
    table = pa.table({"p": [math.nan, 0.0, -0.0, math.inf, math.nan], "v": [1, 2, 3, 4, 5]})
    store, metadata = _store(), _metadata(from_arrow(table.schema), "p")
    files = _write(store, metadata, table)
    assert {file.partition_values["p"] for file in files} == {"NaN", "0.0", "-0.0", "Infinity"}
    found = _read(store, metadata, files)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, table.to_pylist()))


def test_a_required_partition_column_has_no_empty_strings() -> None:
    schema = pa.schema([pa.field("p", pa.string(), nullable=False), ("v", pa.int64())])
    data = pa.table({"p": ["a", ""], "v": [1, 2]}, schema=schema)
    with pytest.raises(SchemaMismatchError, match="'p'"):
        _write(_store(), _metadata(from_arrow(schema), "p"), data)


def test_field_ids_are_in_the_file() -> None:
    schema: Any = _mapped(from_arrow(EVERYTHING), count(1))
    store, metadata = _store(), _metadata(schema, **{MAPPING_MODE: "id"})
    data = pa.Table.from_pylist([{"l": 1}], to_arrow(schema))
    (file,) = _write(store, metadata, data)
    parquet = pq.ParquetFile(store.open_input(object_key(file.path)))
    nested = parquet.schema_arrow.field("col-11")
    assert nested.metadata[b"PARQUET:field_id"] == b"11"
    assert nested.type.field("col-12").metadata[b"PARQUET:field_id"] == b"12"


def test_void_columns_stay_out_of_files() -> None:
    table = pa.table({"a": [1], "n": pa.nulls(1)})
    store, metadata = _store(), _metadata(from_arrow(table.schema))
    files = _write(store, metadata, table)
    assert pq.ParquetFile(store.open_input(files[0].path)).schema_arrow.names == ["a"]
    assert _read(store, metadata, files).equals(table)
    for columns, partition in (({"n": pa.nulls(1)}, ()), ({"a": [1]}, ("a",))):
        alone = pa.table(columns)
        with pytest.raises(ValidationError, match="no column to store"):
            _write(store, _metadata(from_arrow(alone.schema), *partition), alone)


def test_big_data_is_split_and_streams_are_too() -> None:
    table = pa.table({"a": pa.array(range(3_000_000)), "s": ["x"] * 3_000_000})
    store, metadata = _store(), _metadata(from_arrow(table.schema))
    for data in (table, table.to_reader(max_chunksize=100_000)):
        files = _write(store, metadata, data, target_file_size=1 << 20)
        assert len(files) == 3
        bounds = [json.loads(file.stats or "") for file in files]
        assert sum(bound["numRecords"] for bound in bounds) == 3_000_000
        assert bounds[0]["maxValues"]["a"] + 1 == bounds[1]["minValues"]["a"]
        found = _read(store, metadata, files, columns=["a"], batch_size=200_000)
        assert found.column("a").combine_chunks().equals(table.column("a").combine_chunks())


def test_a_partitioned_stream() -> None:
    table = pa.table({"p": [1, 2] * 500, "v": range(1000)})
    store, metadata = _store(), _metadata(from_arrow(table.schema), "p")
    files = _write(store, metadata, table.to_reader(max_chunksize=10))
    assert [json.loads(file.stats or "")["numRecords"] for file in files] == [500, 500]
    assert _read(store, metadata, files, where="p = 2").num_rows == 500


# --- failures leave nothing behind ----------------------------------------------------


class _Failing:
    """A store whose third put fails."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.left = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put(self, path: str, data: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreError("full")
        self.store.put(path, data)


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_failed_write_takes_its_files_away(where: str, tmp_path: Path) -> None:
    store = _Failing(_store(tmp_path if where == "disk" else None))
    table = pa.table({"p": range(20), "v": range(20)})
    with pytest.raises(StoreError, match="full"):
        _write(store, _metadata(from_arrow(table.schema), "p"), table)  # type: ignore[arg-type]
    assert list(store.store.list()) == []


def test_uncommitted_files_can_be_discarded(tmp_path: Path) -> None:
    store = _store(tmp_path)
    table = pa.table({"p": ["a b", "c%d"], "v": [1, 2]})
    files = _write(store, _metadata(from_arrow(table.schema), "p"), table)
    assert len(list(store.list())) == 2
    discard(store, files)
    assert list(store.list()) == []


def test_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    table = pa.table({"s": broken})
    store = _store()
    with pytest.raises(SchemaMismatchError, match="UTF-8"):
        _write(store, _metadata(from_arrow(table.schema)), table)
    assert list(store.list()) == []


# --- deletion vectors -----------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.sets(st.integers(0, 199)),
    st.integers(1, 90),
    st.sampled_from(["v >= 0", "v < 30", "v > 150"]),
)
def test_deleted_rows_go_by_physical_index(deleted: set[int], size: int, where: str) -> None:
    table = pa.table({"v": range(200), "p": ["x"] * 200})
    store = _store()
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
    metadata = _metadata(from_arrow(table.schema), "p")
    plain = AddFile(
        path="f.parquet",
        size=len(sink.getvalue()),
        modification_time=0,
        partition_values={"p": "x"},
    )
    for vector in vectors:
        files = [replace(plain, deletion_vector=vector)]
        live = [value for value in range(200) if value not in deleted]
        read = _read(store, metadata, files, batch_size=size)
        assert read.column("v").to_pylist() == live
        assert _read(store, metadata, files, columns=["p"]).num_rows == len(live)
        kept = _read(store, metadata, files, where=where, columns=["v"], batch_size=size)
        _, operator, number = where.split()
        tests = {">=": int.__ge__, "<": int.__lt__, ">": int.__gt__}
        assert kept.column("v").to_pylist() == [
            value for value in live if tests[operator](value, int(number))
        ]


def test_vectors_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    table = pa.table({"v": [1, 2]})
    store, metadata = _store(), _metadata(from_arrow(table.schema))
    (file,) = _write(store, metadata, table)
    with pytest.raises(LogFormatError, match="deletes row 2"):
        _read(store, metadata, [replace(file, deletion_vector=dv.inline([2]))])
    wrong = replace(dv.inline([0]), cardinality=2)
    with pytest.raises(LogFormatError, match="2"):
        _read(store, metadata, [replace(file, deletion_vector=wrong)])
    strange = replace(dv.inline([0]), storage_type="z")
    with pytest.raises(UnsupportedFeatureError):
        _read(store, metadata, [replace(file, deletion_vector=strange)])
    lost = dv.in_file(bytes(16), bitmap=b"", offset=1, cardinality=0)
    with pytest.raises(StoreError, match="deletion_vector_0000"):
        _read(store, metadata, [replace(file, deletion_vector=lost)])


# --- old files, new schema ------------------------------------------------------------


def _put(store: ObjectStore, table: pa.Table, name: str = "f.parquet", **options: Any) -> AddFile:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    store.put(name, sink.getvalue())
    return AddFile(path=name, size=len(sink.getvalue()), modification_time=0)


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
    store, metadata = _store(), _metadata(from_arrow(pa.schema([("c", target)])))
    file = _put(store, pa.table({"c": stored}))
    assert _read(store, metadata, [file]).to_pylist() == [{"c": expected}]


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
    store, metadata = _store(), _metadata(from_arrow(pa.schema([("c", target)])))
    with pytest.raises(LogFormatError, match=r"c.*f\.parquet"):
        _read(store, metadata, [_put(store, pa.table({"c": stored}))])


def test_int96_is_an_instant() -> None:
    at = dt.datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    table = pa.table({"c": pa.array([at, None], pa.timestamp("us", "UTC"))})
    store, metadata = _store(), _metadata(from_arrow(table.schema))
    file = _put(store, table, use_deprecated_int96_timestamps=True, store_schema=False)
    assert _read(store, metadata, [file]).equals(table)
    assert _read(store, metadata, [file], where="c > '2020-01-01'").num_rows == 1


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
    store, metadata = _store(), _metadata(from_arrow(after))
    table = pa.Table.from_pylist(rows, before)
    table = table.append_column("_change_type", pa.array(["insert", "insert"]))
    file = _put(store, table)
    assert _read(store, metadata, [file]).to_pylist() == [
        {
            "m": [("k", {"y": None, "x": 3})],
            "added": None,
            "s": {"y": None, "x": 1},
            "l": [{"y": None, "x": 2}, None],
        },
        {"m": None, "added": None, "s": None, "l": None},
    ]
    assert _read(store, metadata, [file], columns=["added"]).to_pylist() == [{"added": None}] * 2
    assert _read(store, metadata, [file], where="added IS NULL", columns=[]).num_rows == 2


def test_names_that_changed_places() -> None:
    """Equal Arrow types say nothing under column mapping: a and b were swapped."""

    def field(name: str, physical: str, number: int) -> StructField:
        metadata = {PHYSICAL_NAME: physical, FIELD_ID: number}
        return replace(from_arrow(pa.schema([(name, pa.int64())])).fields[0], metadata=metadata)

    inner = StructType((field("a", "b", 2), field("b", "a", 1)))
    outer = replace(field("s", "s", 3), type=inner)
    schema = StructType((outer, field("a", "b", 5), field("b", "a", 4)))
    table = pa.table({"s": [{"a": 1, "b": 2}], "a": [3], "b": [4]})
    store, metadata = _store(), _metadata(schema, **{MAPPING_MODE: "name"})
    expected = [{"s": {"a": 2, "b": 1}, "a": 4, "b": 3}]
    assert _read(store, metadata, [_put(store, table)]).to_pylist() == expected
    assert (
        _read(
            store, metadata, [AddFile(path="f.parquet", size=0, modification_time=0)], where="a = 4"
        ).num_rows
        == 1
    )
    by_id = replace(metadata, configuration={MAPPING_MODE: "id"})
    with pytest.raises(LogFormatError, match="no field ids"):
        _read(store, by_id, [_put(store, table, "g.parquet")])


def test_names_differ_in_case_and_hold_dots() -> None:
    table = pa.table({"Aa": [1], "x.y": [2], "x": [{"y": 3}]})
    after = pa.schema(
        [("aA", pa.int64()), ("x.y", pa.int64()), ("x", table.schema.field("x").type)]
    )
    store, metadata = _store(), _metadata(from_arrow(after))
    file = _put(store, table)
    assert _read(store, metadata, [file]).to_pylist() == [{"aA": 1, "x.y": 2, "x": {"y": 3}}]
    assert _read(store, metadata, [file], columns=["X"]).to_pylist() == [{"x": {"y": 3}}]
    assert _read(store, metadata, [file], columns=["x.y"]).to_pylist() == [{"x.y": 2}]
    twice = _put(store, pa.table([[1], [2]], names=["AA", "Aa"]), "g.parquet")
    with pytest.raises(LogFormatError, match="several"):
        _read(store, metadata, [twice])


def test_partition_values_come_from_the_log_alone() -> None:
    schema = pa.schema([("p", pa.int32()), ("v", pa.int64())])
    store, metadata = _store(), _metadata(from_arrow(schema), "p")
    stored = pa.table({"v": [1], "p": ["lies"]})
    file = replace(_put(store, stored, "p=7/f.parquet"), partition_values={"p": "5"})
    assert _read(store, metadata, [file]).to_pylist() == [{"p": 5, "v": 1}]
    with pytest.raises(LogFormatError, match="partition column 'p'"):
        _read(store, metadata, [replace(file, partition_values={})])
    with pytest.raises(LogFormatError):
        _read(store, metadata, [replace(file, partition_values={"p": "x"})])


def test_required_columns_and_broken_files() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    store, metadata = _store(), _metadata(from_arrow(schema))
    with pytest.raises(LogFormatError, match="NOT NULL"):
        _read(store, metadata, [_put(store, pa.table({"b": [1]}))])
    store.put("bad", b"PAR1" + b"x" * 100 + b"PAR1")
    with pytest.raises(LogFormatError, match="bad"):
        _read(store, metadata, [AddFile(path="bad", size=108, modification_time=0)])
    with pytest.raises(StoreError, match="gone"):
        _read(store, metadata, [AddFile(path="gone", size=0, modification_time=0)])
    with pytest.raises(LogFormatError):
        _read(store, metadata, [AddFile(path="../f", size=0, modification_time=0)])


def test_dates_in_the_legacy_calendar_are_refused() -> None:
    table = pa.table({"d": pa.array([-200_000], pa.date32())})
    marked = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    store, metadata = _store(), _metadata(from_arrow(table.schema))
    with pytest.raises(UnsupportedFeatureError, match="legacy"):
        _read(store, metadata, [_put(store, marked)])
    assert _read(store, metadata, [_put(store, table, "g")]).equals(table)


def test_absolute_paths(tmp_path: Path) -> None:
    table = pa.table({"v": [1, 2, 3]})
    elsewhere, metadata = _store(tmp_path / "else where"), _metadata(from_arrow(table.schema))
    (file,) = _write(elsewhere, metadata, table)
    content, offsets = dv.encode_file([dv.encode([1])])
    elsewhere.put("d.bin", content)
    vector = replace(
        dv.inline([1]),
        storage_type="p",
        path_or_inline_dv=f"{elsewhere.location}/d.bin",
        offset=offsets[0],
    )
    for uri in (f"{elsewhere.location}/{file.path}", f"file:{tmp_path}/else%20where/{file.path}"):
        absolute = replace(file, path=uri, deletion_vector=vector)
        assert _read(_store(), metadata, [absolute]).column("v").to_pylist() == [1, 3]


# --- choosing -------------------------------------------------------------------------


def test_columns_and_predicates(tmp_path: Path) -> None:
    table = pa.table({"p": ["a", "b"] * 50, "v": range(100), "w": [None, 1] * 50})
    store, metadata = _store(tmp_path), _metadata(from_arrow(table.schema), "p")
    files = _write(store, metadata, table)
    assert _read(
        store, metadata, files, columns=["V", "p"], where="w = 1 AND v < 4"
    ).to_pydict() == {
        "v": [1, 3],
        "p": ["b", "b"],
    }
    assert _read(store, metadata, files, columns=[], where="p = 'a'").num_rows == 50
    assert _read(store, metadata, []).num_rows == 0
    with pytest.raises(ValidationError, match="'vv'") as caught:
        _read(store, metadata, files, columns=["vv"])
    assert "'v'" in caught.value.remedy
    with pytest.raises(ValidationError, match="twice"):
        read_files(store, files, schema=from_arrow(table.schema), columns=["v", "V"])


def test_many_files_keep_their_order(tmp_path: Path) -> None:
    table = pa.table({"v": range(5)})
    store, metadata = _store(tmp_path), _metadata(from_arrow(table.schema))
    ids = count()
    files = [
        file
        for _ in range(20)
        for file in write_files(
            store, metadata=metadata, data=table, new_id=lambda: str(next(ids)), now_ms=lambda: 0
        )
    ]
    large = [replace(file, size=1 << 30) if n % 3 else file for n, file in enumerate(files)]
    for given_files in (files, large):
        assert _read(store, metadata, given_files).column("v").to_pylist() == [*range(5)] * 20
    first = next(read_files(store, files, schema=from_arrow(table.schema)))
    assert first.num_rows == 5


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
    store, metadata = _store(), _metadata(from_arrow(table.schema))
    file = _put(store, table, row_group_size=size)
    grouped = _read(store, metadata, [file], where=text.format(number))
    whole = _read(store, metadata, [_put(store, table, "g")], where=text.format(number))
    assert grouped.equals(whole)


# --- others read it -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("partition", [(), ("s",), ("day", "m"), ("at", "l", "t")])
def test_deltalake_reads_what_is_written(
    mode: str, partition: tuple[str, ...], tmp_path: Path
) -> None:
    schema: Any = from_arrow(EVERYTHING)
    if mode != "none":
        schema = _mapped(schema, count(1))
    at = dt.datetime.fromisoformat("2026-01-02T03:04:05.678901")
    row = {
        "s": "a b/c=%é",
        "l": 2**60,
        "b": -1,
        "d": 1.5,
        "t": True,
        "x": b"x",
        "day": at.date(),
        "at": at.replace(tzinfo=dt.UTC),
        "wall": at,
        "m": Decimal("12.30"),
        "n": {"a": 1, "l": [{"x": "y"}, None]},
        "map": [("k", {"v": 7})],
    }
    table = pa.Table.from_pylist([row, {"l": 5}, row], EVERYTHING)
    store = _store(tmp_path)
    properties = (
        {} if mode == "none" else {MAPPING_MODE: mode, "delta.columnMapping.maxColumnId": "20"}
    )
    metadata = _metadata(schema, *partition, **properties)
    files = _write(store, metadata, table)
    features = ("timestampNtz",) if mode == "none" else ("columnMapping", "timestampNtz")
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=features,
    )
    store.put("_delta_log/" + "0" * 20 + ".json", encode_commit([protocol, metadata, *files]))
    query = QueryBuilder().register("t", DeltaTable(tmp_path))
    found = pa.table(query.execute("select * from t")).select(EVERYTHING.names).cast(EVERYTHING)

    def rows(of: pa.Table) -> list[str]:
        return sorted(map(repr, of.to_pylist()))

    assert rows(found) == rows(table) == rows(_read(store, metadata, files))
    kept = pa.table(query.execute("select l from t where l > 10 and m > 12"))
    assert kept.num_rows == 2
