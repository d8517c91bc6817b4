"""Streams of rows: short ones become tables, the others stay streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from deltasql.data.computing.identity import is_identity
from deltasql.data.conform import as_arrow
from deltasql.data.even_batches import even, plain_bytes
from deltasql.spec.schema import StructType

# Streams of up to this many bytes are held in memory, in case they must be written again.
SHORT: Final = 32 << 20


def gathered(data: Any, schema: StructType) -> pa.Table | pa.RecordBatchReader:
    """Rows for a table, as a Table if they may have to be read again, else as the stream they are.

    A stream can be read only once, but a table that changes meanwhile needs the rows again: a short
    stream is held in memory, a long one must not meet a change. If the table numbers the rows,
    every other writer makes such a change, so the stream is held, too.
    """
    rows = as_arrow(data)
    if isinstance(rows, pa.Table):
        return rows
    if any(map(is_identity, schema.fields)):
        return pa.Table.from_batches(list(even(rows, rows.schema)), rows.schema)
    return _bounded(rows, SHORT)


def _bounded(data: pa.RecordBatchReader, limit: int) -> pa.Table | pa.RecordBatchReader:
    batches: deque[pa.RecordBatch] = deque()
    rest = even(data, data.schema)
    size = 0
    for batch in rest:
        batches.append(batch)
        size += plain_bytes(batch)
        if size > limit:
            return pa.RecordBatchReader.from_batches(data.schema, _all(batches, rest))
    return pa.Table.from_batches(list(batches), data.schema)


def _all(first: deque[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while first:
        yield first.popleft()
    yield from rest
