"""Rows split by partition: one table for each combination of partition values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.layout import Layout
from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.spec.partition_values import render_value
from deltasql.spec.schema import Primitive, StructField

Values: TypeAlias = tuple[str | None, ...]

_CODES = 2**62


def split(table: pa.Table, layout: Layout) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each partition in their order, partitions sorted by the log's texts."""
    columns = [
        _coded(table.column(position), item)
        for position, item in zip(layout.partition_positions, layout.partition, strict=True)
    ]
    key = _combined(columns)
    order = pc.sort_indices(key)
    runs = pc.run_end_encode(key.take(order), run_end_type=pa.int64())
    if len(runs.values) > 1:
        table = table.take(order)
    start = 0
    for end in runs.run_ends.to_pylist():
        row = order[start].as_py()
        values = tuple(texts[codes[row].as_py()] for texts, codes in columns)
        yield values, table.slice(start, end - start)
        start = end


def _coded(column: pa.ChunkedArray, item: StructField) -> tuple[list[str | None], pa.Array]:
    """The distinct texts, null first, and each row's index among them.

    By text rather than by value, because some values share a text: '' is null in the log.
    """
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    rendered = _rendered(encoded.dictionary, item)
    texts = sorted(set(rendered), key=lambda text: (text is not None, text or ""))
    if texts[:1] == [None] and not item.nullable:
        raise SchemaMismatchError(
            f"the column {item.name!r} must have a value in every row",
            cause="it is NOT NULL, and in a partition column an empty string means null",
            remedy="fill it before writing",
            column=item.name,
        )
    rank = {text: index for index, text in enumerate(texts)}
    codes = pa.array([rank[text] for text in rendered], pa.int64())
    return texts, codes.take(encoded.indices)


def _rendered(values: pa.Array, item: StructField) -> list[str | None]:
    assert isinstance(item.type, Primitive)
    try:
        texts = [render_value(value, item.type) for value in values.to_pylist()]
        if any(text is not None and "\0" in text for text in texts):
            raise ValueError("it holds a NUL character")
        return texts
    except (OverflowError, ValueError) as error:
        raise ValidationError(
            f"a value of the partition column {item.name!r} has no text form",
            cause=str(error),
            remedy="keep dates within the years 1 to 9999, and text valid UTF-8 without NUL",
        ) from None


def _combined(columns: Sequence[tuple[list[str | None], pa.Array]]) -> pa.Array:
    """One number per row, which orders the rows as their texts do, column after column."""
    texts, key = columns[0]
    size = len(texts)
    for more, codes in columns[1:]:
        if size * len(more) >= _CODES:
            # Dense ranks keep the order and bring the numbers down to the number of rows.
            key = pc.rank(key, tiebreaker="dense").cast(pa.int64())
            size = len(key) + 1
        key = pc.add(pc.multiply(key, len(more)), codes)
        size *= len(more)
    return key
