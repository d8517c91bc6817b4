"""Streams of rows: those that are short become tables, the others stay streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from deltasql.data.computing.identity import is_identity
from deltasql.data.conform import as_arrow
from deltasql.spec.schema import StructType

# What is this long is held in memory, to be written again if the table changes meanwhile.
SHORT: Final = 32 << 20


def gathered(data: Any, schema: StructType) -> pa.Table | pa.RecordBatchReader:
    """Rows for a table as a Table where they may have to be read again, or as the stream they are.

    Whatever streams can be read once only, and a table that changes meanwhile needs the rows again:
    a short stream is held, a long one must not meet a change. One whose rows the table numbers
    would meet one with every other writer, and is held too.
    """
    rows = as_arrow(data)
    if isinstance(rows, pa.Table):
        return rows
    if any(map(is_identity, schema.fields)):
        return rows.read_all()
    return _bounded(rows, SHORT)


def _bounded(data: pa.RecordBatchReader, limit: int) -> pa.Table | pa.RecordBatchReader:
    batches: deque[pa.RecordBatch] = deque()
    size = 0
    for batch in data:
        batches.append(batch)
        size += batch.nbytes
        if size > limit:
            return pa.RecordBatchReader.from_batches(data.schema, _all(batches, data))
    return pa.Table.from_batches(list(batches), data.schema)


def _all(first: deque[pa.RecordBatch], rest: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while first:
        yield first.popleft()
    yield from rest
