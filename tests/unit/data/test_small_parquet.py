"""Small files encoded here are what Arrow would have written, to Arrow and to others."""

from __future__ import annotations

import io
import math
import struct
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.small_parquet import MOST_BYTES, MOST_ROWS, SmallFormat
from deltasql.spec.schema import ArrayType, DeltaType, Primitive, StructField, StructType

_FLOAT32 = st.floats(width=32)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-(2**7), 2**7 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": _FLOAT32,
    "double": st.floats(),
    "string": st.text(max_size=40),
    "binary": st.binary(max_size=40),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
}


def _format(fields: list[StructField]) -> SmallFormat:
    found = SmallFormat.of(fields)
    assert found is not None
    return found


def _encoded(fields: list[StructField], table: pa.Table) -> bytes:
    file = _format(fields).encode(table.columns, table.num_rows)
    assert file is not None
    return file.data


def _by_arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    options = {"store_schema": False, "use_dictionary": False, "compression": "none"}
    with pq.ParquetWriter(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _bits(values: list[Any]) -> list[Any]:
    """Values that tell -0.0 from 0.0 and have NaN equal to itself."""
    return [struct.pack("<d", item) if type(item) is float else item for item in values]


@st.composite
def _tables(draw: st.DrawFn) -> tuple[list[StructField], pa.Table]:
    names = draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=20))
    rows = draw(st.integers(1, 20))
    fields, columns = [], []
    for number, name in enumerate(names):
        nullable = draw(st.booleans())
        values = st.none() | _VALUES[name] if nullable else _VALUES[name]
        columns.append(draw(st.lists(values, min_size=rows, max_size=rows)))
        fields.append(StructField(f"c{number} ä", Primitive(name), nullable))
    schema = to_arrow(StructType(tuple(fields)))
    arrays = [pa.array(item, kind) for item, kind in zip(columns, schema.types, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    cut = draw(st.integers(0, rows))
    return fields, pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@given(_tables())
def test_arrow_reads_what_it_would_have_written(case: tuple[list[StructField], pa.Table]) -> None:
    fields, table = case

    data = _encoded(fields, table)

    mine, theirs = pq.ParquetFile(io.BytesIO(data)), pq.ParquetFile(io.BytesIO(_by_arrow(table)))
    found = mine.read()
    assert found.schema.equals(table.schema)
    for column, wanted in zip(found.columns, table.columns, strict=True):
        assert _bits(column.to_pylist()) == _bits(wanted.to_pylist())
    assert mine.schema.equals(theirs.schema)
    groups = mine.metadata.row_group(0), theirs.metadata.row_group(0)
    for position, item in enumerate(fields):
        ours, other = (group.column(position).statistics for group in groups)
        assert ours.null_count == other.null_count
        if ours.has_min_max:
            assert _bits([ours.min, ours.max]) == _bits([other.min, other.max])
        elif other.has_min_max:
            values = table.column(position).to_pylist()
            nan = any(type(value) is float and math.isnan(value) for value in values)
            assert nan or item.type in (Primitive("boolean"), Primitive("binary"))


def test_names_and_ids_are_the_mapped_ones() -> None:
    notes = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-7"}
    mapped = StructField("x", Primitive("long"), metadata=notes)

    (field,) = pq.read_schema(io.BytesIO(_encoded([mapped], pa.table({"col-7": [1]}))))

    assert field.name == "col-7"
    assert field.metadata == {b"PARQUET:field_id": b"7"}


@pytest.mark.parametrize(
    "kind", [Primitive("decimal(9,2)"), ArrayType(Primitive("long")), StructType(())]
)
def test_columns_that_are_not_simple_are_left_to_arrow(kind: DeltaType) -> None:
    assert SmallFormat.of([StructField("a", Primitive("long")), StructField("b", kind)]) is None


def test_a_null_that_may_not_be_makes_no_file() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int64())})

    assert (
        _format([StructField("a", Primitive("long"), nullable=False)]).encode(
            table.columns, table.num_rows
        )
        is None
    )


def test_only_small_tables_are_taken() -> None:
    def is_small(values: list[str]) -> bool:
        table = pa.table({"a": pa.array(values, pa.string())})
        return (
            _format([StructField("a", Primitive("string"))]).encode(table.columns, table.num_rows)
            is not None
        )

    assert is_small(["x"] * MOST_ROWS)
    assert not is_small(["x"] * (MOST_ROWS + 1))
    assert not is_small(["x" * MOST_BYTES])
    assert not is_small([])
