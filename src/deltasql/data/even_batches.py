"""Batches of a stream made neither tiny nor huge, so that the bytes of their rows tell what memory
they need.

Arrow keeps half a kilobyte and more of each column of each batch, however few the rows are; and an
encoded column may be a thousand times larger once it is plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.types as pat

# Batches of more bytes than this are taken apart.
LARGE: Final = 128 << 20
# Tiny ones are put together until their rows are this many times what Arrow keeps beside them, or
# until they take that many bytes in all.
_WORTH: Final = 8
_MOST: Final = 64 << 20
_BATCH, _COLUMN = 1024, 512


def even(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a reasonable size; none of them is empty."""
    beside = _BATCH + _COLUMN * len(schema)
    waiting: list[pa.RecordBatch] = []
    rows = held = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        size = plain_bytes(batch)
        if size < _WORTH * beside:
            waiting.append(batch)
            rows += size
            held += max(size, batch.nbytes) + beside
            if rows < _WORTH * beside and held < _MOST:
                continue
        yield from _together(waiting, schema)
        waiting, rows, held = [], 0, 0
        if size >= _WORTH * beside:
            yield from _apart(batch, size)
    yield from _together(waiting, schema)


def plain_bytes(batch: pa.RecordBatch) -> int:
    """About how many bytes the rows take once their columns are plain."""
    return sum(_plain_bytes(column) for column in batch.columns)


def _plain_bytes(column: pa.Array) -> int:
    if pat.is_dictionary(column.type):
        values = column.dictionary
    elif pat.is_run_end_encoded(column.type):
        values = column.values
    else:
        return int(column.nbytes)
    return _plain_bytes(values) * len(column) // max(1, len(values))


def _together(batches: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if len(batches) < 2 or not len(schema):
        return iter(batches)
    try:
        return iter(pa.Table.from_batches(batches, schema).combine_chunks().to_batches())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return iter(batches)  # of a type that Arrow can't put together


def _apart(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows if size <= LARGE else max(1, batch.num_rows * LARGE // size)
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
