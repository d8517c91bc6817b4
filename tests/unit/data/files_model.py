"""Tables for the tests of the writer and the reader, and the two in short form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from deltasql.data.layout import layout_of
from deltasql.data.reading.reader import output_schema, read_files
from deltasql.data.writing.writer import write_files
from deltasql.log.predicates.predicate import bind, parse
from deltasql.objectstore import ObjectStore, open_store
from deltasql.spec.actions import AddFile, Metadata
from deltasql.spec.properties import COLUMN_MAPPING_MODE, FIELD_ID, PHYSICAL_NAME
from deltasql.spec.schema import (
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


def new_store(path: Path | None = None) -> ObjectStore:
    return open_store("memory:///" if path is None else str(path))


def metadata_of(schema: StructType, *partition: str, **configuration: str) -> Metadata:
    return Metadata(
        id="t",
        schema_string=render_schema(schema),
        partition_columns=partition,
        configuration=configuration,
    )


def write_out(
    store: ObjectStore, metadata: Metadata, data: pa.Table | pa.RecordBatchReader, **options: Any
) -> list[AddFile]:
    ids = count()
    return write_files(
        store,
        layout=layout_of(metadata),
        data=data,
        new_id=lambda: f"id{next(ids)}",
        now_ms=lambda: 1234,
        **options,
    )


def read_back(
    store: ObjectStore, metadata: Metadata, files: list[AddFile], **options: Any
) -> pa.Table:
    schema = options.pop("schema", None) or parse_schema(metadata.schema_string)
    where = options.pop("where", None)
    if where:
        options["predicate"] = bind(parse(where), schema)
    batches = read_files(
        store,
        files,
        schema=schema,
        partition_columns=metadata.partition_columns,
        column_mapping=metadata.configuration.get(COLUMN_MAPPING_MODE, "none"),
        **options,
    )
    table = pa.Table.from_batches(batches, output_schema(schema, options.get("columns")))
    table.validate(full=True)
    return table


def _values(name: str) -> st.SearchStrategy[Any]:
    return st.none() | KINDS[name][1]


def tables(schema: pa.Schema = SCALARS) -> st.SearchStrategy[pa.Table]:
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


def mapped(kind: DeltaType, numbers: Iterator[int]) -> DeltaType:
    match kind:
        case StructType(fields):
            return StructType(tuple(_mapped_field(item, numbers) for item in fields))
        case ArrayType(element, nullable):
            return ArrayType(mapped(element, numbers), nullable)
        case MapType(key, value, nullable):
            return MapType(mapped(key, numbers), mapped(value, numbers), nullable)
    return kind


def _mapped_field(item: StructField, numbers: Iterator[int]) -> StructField:
    number = next(numbers)
    metadata = {FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"}
    return replace(item, type=mapped(item.type, numbers), metadata=metadata)


def put(store: ObjectStore, table: pa.Table, name: str = "f.parquet", **options: Any) -> AddFile:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    store.put(name, sink.getvalue())
    return AddFile(path=name, size=len(sink.getvalue()), modification_time=0)
