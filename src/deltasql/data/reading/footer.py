"""Footers of Parquet files, checked before Arrow trusts them.

A footer decides how much memory is allocated: a forged one could ask for all there is. So its
length and the number of columns are limited. What it says about the columns of its row groups is
read by `chunk_statistics` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.data.reading.chunk_statistics import ChunkStatistics, chunk_statistics

# Arrow allocates some twenty times the footer's length.
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_COLUMNS: Final = 20_000
_MAGIC: Final = b"PAR1"
_END: Final = 8
# What Arrow would read first, too: usually the whole footer.
_TAIL: Final = 64 * 1024
# Thrift's compact form: the version, an i32 in field 1, and the schema, a list in field 2.
_VERSION_FIELD: Final = 0x15
_SCHEMA_FIELD: Final = 0x19
_LONG_LIST: Final = 15


class ParquetFile(pq.ParquetFile):  # type: ignore[misc] # PyArrow has no types
    """A Parquet file, with the bytes of its footer."""

    def __init__(
        self, source: pa.NativeFile, metadata: pq.FileMetaData, footer: bytes, **options: Any
    ) -> None:
        super().__init__(source, metadata=metadata, **options)
        self._footer = footer

    def statistics(self, columns: Iterable[int]) -> list[dict[int, ChunkStatistics]]:
        """For each row group, what is known about the leaf columns with these numbers.

        Not `metadata.row_group(i).column(j)`, which crashes the process on some footers.
        """
        return chunk_statistics(self._footer, columns, self.metadata.num_row_groups)


def open_parquet(source: pa.NativeFile, **options: Any) -> ParquetFile:
    """A Parquet file with a consistent footer; `pa.ArrowInvalid` for any other."""
    size = source.size()
    footer = _footer(source, size)
    columns = _schema_length(footer)
    if columns > MOST_COLUMNS:
        raise pa.ArrowInvalid(f"its footer names {columns} columns; the limit is {MOST_COLUMNS}")
    whole = b"".join([_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC])
    metadata = pq.read_metadata(pa.BufferReader(whole))
    rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    if any(count < 0 for count in rows) or sum(rows) != metadata.num_rows:
        raise pa.ArrowInvalid("the rows of its row groups do not add up")
    return ParquetFile(source, metadata, footer, **options)


def _footer(source: pa.NativeFile, size: int) -> bytes:
    if size < len(_MAGIC) + _END:
        raise pa.ArrowInvalid(f"it has {size} bytes, less than any Parquet file")
    source.seek(max(0, size - _TAIL))
    tail = source.read(min(size, _TAIL))
    if tail[-4:] != _MAGIC:
        raise pa.ArrowInvalid("it does not end like a Parquet file")
    length = int.from_bytes(tail[-_END:-4], "little")
    if length > size - len(_MAGIC) - _END:
        raise pa.ArrowInvalid(f"its footer claims {length} bytes of the file's {size}")
    if length > MOST_BYTES:
        raise pa.ArrowInvalid(f"its footer has {length} bytes; the limit is {MOST_BYTES}")
    if length <= len(tail) - _END:
        return bytes(tail[-_END - length : -_END])
    source.seek(size - _END - length)
    rest = source.read(length - (len(tail) - _END))
    return bytes(rest) + bytes(tail[:-_END])


def _schema_length(footer: bytes) -> int:
    """How many elements the schema has, by its first bytes; 0 if they have another form."""
    if footer[:1] != bytes([_VERSION_FIELD]):
        return 0
    _, at = _number(footer, 1)
    if footer[at : at + 1] != bytes([_SCHEMA_FIELD]):
        return 0
    head = footer[at + 1] if at + 1 < len(footer) else 0
    return head >> 4 if head >> 4 < _LONG_LIST else _number(footer, at + 2)[0]


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, at
