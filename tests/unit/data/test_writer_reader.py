from __future__ import annotations

import json
import math
import uuid
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deltasql.data.arrow_schema import from_arrow, to_arrow
from deltasql.data.conform import conform
from deltasql.data.writing.properties import FileOptions
from deltasql.errors import (
    LogFormatError,
    SchemaMismatchError,
    StoreError,
    ValidationError,
)
from deltasql.lake.writing import new_id
from deltasql.log.state import TableState
from deltasql.log.validation.commits import validate_commit
from deltasql.spec.actions import Protocol
from deltasql.spec.paths import object_key
from deltasql.spec.properties import COLUMN_MAPPING_MODE
from deltasql.testing.faulty_store import Fault, FaultyStore, scripted
from tests.unit.data.files_model import (
    EVERYTHING,
    KINDS,
    SCALARS,
    mapped,
    metadata_of,
    new_store,
    read_back,
    tables,
    write_out,
)

# --- written, then read -------------------------------------------------------------


@settings(max_examples=60)
@given(tables(EVERYTHING), st.sampled_from(["none", "name", "id"]))
def test_what_is_written_is_read(table: pa.Table, mode: str) -> None:
    schema: Any = from_arrow(EVERYTHING)
    if mode != "none":
        schema = mapped(schema, count(1))
    store, metadata = new_store(), metadata_of(schema, **{COLUMN_MAPPING_MODE: mode})
    files = write_out(store, metadata, conform(table, schema))
    assert read_back(store, metadata, files).equals(table)
    assert len(files) == (1 if table.num_rows else 0)
    for file in files:
        stats = json.loads(file.stats or "")
        assert stats["numRecords"] == table.num_rows
        assert set(stats["nullCount"]) == {item.physical_name for item in schema.fields}
        written = pq.ParquetFile(store.open_input(object_key(file.path)))
        assert written.schema_arrow.names == [item.physical_name for item in schema.fields]


@settings(max_examples=60)
@given(tables(EVERYTHING))
def test_what_is_written_may_be_committed(table: pa.Table) -> None:
    """Validation, which sees an append's files before the database does, has nothing to say."""
    for rows in (table, table.drop_columns(["m", "n", "map"])):
        metadata = metadata_of(from_arrow(rows.schema))
        state = TableState(
            version=0,
            in_commit_timestamp=0,
            metadata=metadata,
            metadata_version=0,
            protocol=Protocol(min_reader_version=1, min_writer_version=2),
            protocol_version=0,
        )
        validate_commit(write_out(new_store(), metadata, rows), state)


@settings(max_examples=60)
@given(
    tables(),
    st.sampled_from(["none", "name"]),
    st.lists(st.sampled_from(list(KINDS)), unique=True, min_size=1, max_size=3),
)
def test_partitions_come_back(table: pa.Table, mode: str, partition: list[str]) -> None:
    # NUL has no text form: such rows are refused.
    assume("x" not in partition or not any(b"\0" in (v or b"") for v in table["x"].to_pylist()))
    assume("s" not in partition or not any("\0" in (v or "") for v in table["s"].to_pylist()))
    schema: Any = from_arrow(SCALARS)
    if mode != "none":
        schema = mapped(schema, count(1))
    store, metadata = new_store(), metadata_of(schema, *partition, **{COLUMN_MAPPING_MODE: mode})
    files = write_out(store, metadata, table)
    found = read_back(store, metadata, files)

    def rows(rows_of: pa.Table) -> list[str]:
        # The empty string and empty bytes are null in a partition column.
        return sorted(
            repr({k: None if k in partition and v in ("", b"") else v for k, v in row.items()})
            for row in rows_of.to_pylist()
        )

    assert rows(found) == rows(table)
    assert [file.path for file in files] == [
        file.path for file in write_out(new_store(), metadata, table)
    ]
    keys = [tuple(file.partition_values.items()) for file in files]
    assert len(set(keys)) == len(keys)
    names = {item.physical_name for item in schema.fields if item.name in partition}
    assert all(set(file.partition_values) == names for file in files)


def test_paths_names_and_rows_of_partitions() -> None:
    table = pa.table({"p": ["b c", None, "a:b", "", "b c"], "v": [1, 2, 3, 4, 5]})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema), "p")
    files = write_out(store, metadata, table)
    assert [(file.path, dict(file.partition_values)) for file in files] == [
        ("p=__HIVE_DEFAULT_PARTITION__/part-00000-id0-c000.snappy.parquet", {"p": None}),
        ("p=a%253Ab/part-00001-id1-c000.snappy.parquet", {"p": "a:b"}),
        ("p=b%20c/part-00002-id2-c000.snappy.parquet", {"p": "b c"}),
    ]
    assert [file.modification_time for file in files] == [1234] * 3
    assert [file.size for file in files] == [store.size(object_key(file.path)) for file in files]
    assert read_back(store, metadata, files).to_pylist() == [
        {"p": None, "v": 2},
        {"p": None, "v": 4},
        {"p": "a:b", "v": 3},
        {"p": "b c", "v": 1},
        {"p": "b c", "v": 5},
    ]


def test_nan_and_both_zeros_partition() -> None:
    table = pa.table({"p": [math.nan, 0.0, -0.0, math.inf, math.nan], "v": [1, 2, 3, 4, 5]})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema), "p")
    files = write_out(store, metadata, table)
    assert {file.partition_values["p"] for file in files} == {"NaN", "0.0", "-0.0", "Infinity"}
    found = read_back(store, metadata, files)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, table.to_pylist()))


def test_a_required_partition_column_has_no_empty_strings() -> None:
    schema = pa.schema([pa.field("p", pa.string(), nullable=False), ("v", pa.int64())])
    data = pa.table({"p": ["a", ""], "v": [1, 2]}, schema=schema)
    with pytest.raises(SchemaMismatchError, match="'p'"):
        write_out(new_store(), metadata_of(from_arrow(schema), "p"), data)


def test_field_ids_are_in_the_file() -> None:
    schema: Any = mapped(from_arrow(EVERYTHING), count(1))
    store, metadata = new_store(), metadata_of(schema, **{COLUMN_MAPPING_MODE: "id"})
    data = pa.Table.from_pylist([{"l": 1}], to_arrow(schema))
    (file,) = write_out(store, metadata, data)
    parquet = pq.ParquetFile(store.open_input(object_key(file.path)))
    nested = parquet.schema_arrow.field("col-11")
    assert nested.metadata[b"PARQUET:field_id"] == b"11"
    assert nested.type.field("col-12").metadata[b"PARQUET:field_id"] == b"12"


def test_void_columns_stay_out_of_files() -> None:
    table = pa.table({"a": [1], "n": pa.nulls(1)})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    files = write_out(store, metadata, table)
    assert pq.ParquetFile(store.open_input(files[0].path)).schema_arrow.names == ["a"]
    assert read_back(store, metadata, files).equals(table)
    for columns, partition in (({"n": pa.nulls(1)}, ()), ({"a": [1]}, ("a",))):
        alone = pa.table(columns)
        with pytest.raises(ValidationError, match="no column to store"):
            write_out(store, metadata_of(from_arrow(alone.schema), *partition), alone)


def test_big_data_is_split_and_streams_are_too() -> None:
    table = pa.table({"a": pa.array(range(3_000_000)), "s": ["x"] * 3_000_000})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    # A file is closed after a row group: one of a stream is smaller.
    for data, expected in ((table, 3), (table.to_reader(max_chunksize=100_000), 4)):
        files = write_out(store, metadata, data, options=FileOptions(target_file_size=1 << 20))
        assert len(files) == expected
        bounds = [json.loads(file.stats or "") for file in files]
        assert sum(bound["numRecords"] for bound in bounds) == 3_000_000
        assert bounds[0]["maxValues"]["a"] + 1 == bounds[1]["minValues"]["a"]
        found = read_back(store, metadata, files, columns=["a"], batch_size=200_000)
        assert found.column("a").combine_chunks().equals(table.column("a").combine_chunks())


def test_a_partitioned_stream() -> None:
    table = pa.table({"p": [1, 2] * 500, "v": range(1000)})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema), "p")
    files = write_out(store, metadata, table.to_reader(max_chunksize=10))
    assert [json.loads(file.stats or "")["numRecords"] for file in files] == [500, 500]
    assert read_back(store, metadata, files, where="p = 2").num_rows == 500


# --- failures -------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 300], ids=["small", "by Arrow"])
def test_a_file_whose_answer_is_lost_is_named(rows: int) -> None:
    inner = new_store()
    table = pa.table({"v": range(rows)})
    lossy = FaultyStore(inner, scripted({0: Fault.AFTER}))
    left: list[str] = []
    with pytest.raises(StoreError):
        write_out(lossy, metadata_of(from_arrow(table.schema)), table, abandon=left.extend)
    assert [call.verb for call in lossy.calls] == ["put"]
    assert [info.path for info in inner.list()] == left


def test_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    table = pa.table({"s": broken})
    store = new_store()
    with pytest.raises(SchemaMismatchError, match="UTF-8"):
        write_out(store, metadata_of(from_arrow(table.schema)), table)
    assert list(store.list()) == []


def test_data_that_was_not_conformed_is_refused() -> None:
    schema: Any = mapped(from_arrow(pa.schema([("a", pa.int64())])), count(1))
    metadata = metadata_of(schema, **{COLUMN_MAPPING_MODE: "name"})
    for data in (pa.table({"a": pa.array([1], pa.int32())}), pa.table({"a": [1], "b": [1]})):
        with pytest.raises(ValidationError, match="table's columns"):
            write_out(new_store(), metadata, data)
    bare = metadata_of(from_arrow(pa.schema([("a", pa.int64())])), **{COLUMN_MAPPING_MODE: "name"})
    with pytest.raises(LogFormatError, match="no physical name"):
        write_out(new_store(), bare, pa.table({"a": [1]}))


def test_nul_has_no_place_in_a_partition() -> None:
    table = pa.table({"p": ["a\0"], "v": ["a\0"]})
    with pytest.raises(ValidationError, match="'p'"):
        write_out(new_store(), metadata_of(from_arrow(table.schema), "p"), table)


def test_new_ids_are_random_uuids():
    found = [uuid.UUID(new_id()) for _ in range(200)]
    assert {(item.version, item.variant) for item in found} == {(4, uuid.RFC_4122)}
    assert len(set(found)) == 200


@pytest.mark.parametrize(("rows", "has_bounds"), [(64, False), (65, True)])
def test_few_rows_have_their_bounds_in_the_log_alone(rows: int, has_bounds: bool) -> None:
    table = pa.table({"i": pa.array(range(rows), pa.int64())})
    store, metadata = new_store(), metadata_of(from_arrow(table.schema))
    (file,) = write_out(store, metadata, table)
    assert json.loads(file.stats or "")["maxValues"] == {"i": rows - 1}
    written = pq.ParquetFile(store.open_input(object_key(file.path)))
    column = written.metadata.row_group(0).column(0)
    assert (column.statistics is not None) == has_bounds
    assert column.compression == "SNAPPY"
