"""Streams of rows: those that are short become tables, the others stay streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

# What is this long is held in memory, to be written again if the table changes meanwhile.
SHORT: Final = 32 << 20


def gathered(
    data: pa.Table | pa.RecordBatchReader, limit: int | None = None
) -> pa.Table | pa.RecordBatchReader:
    """A stream that ends within `limit` bytes as a Table, any other from its beginning on."""
    if isinstance(data, pa.Table):
        return data
    most = SHORT if limit is None else limit
    batches: deque[pa.RecordBatch] = deque()
    size = 0
    for batch in data:
        batches.append(batch)
        size += batch.nbytes
        if size > most:
            return pa.RecordBatchReader.from_batches(data.schema, _all(batches, data))
    return pa.Table.from_batches(list(batches), data.schema)


def _all(first: deque[pa.RecordBatch], rest: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while first:
        yield first.popleft()
    yield from rest
