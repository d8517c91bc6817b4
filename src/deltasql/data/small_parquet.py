"""Parquet files of a few rows, encoded here: Arrow's writer is made for millions, and takes
longer to start than all else that an append does in Python.

One row group, one uncompressed PLAIN data page a column, min and max as Arrow writes them. The
numbers beside the bytes are field numbers of parquet.thrift, in Thrift's compact protocol: a
field begins with its distance to the field before and its type, integers are zigzag varints.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from deltasql.data.writing.stats import Bounds, as_number, bounds_kind, bounds_of, numbers_of
from deltasql.spec.schema import DeltaType, Primitive, StructField

# More rows, or more bytes, are worth a dictionary and compression.
MOST_ROWS = 64
MOST_BYTES = 64 << 10

_MAGIC = b"PAR1"
_CREATED_BY = b"deltasql version 1"
# Numbers below it are looked up: nearly all that are in a file.
_SMALL = 1 << 10
_VARINT_1, _VARINT_2 = 1 << 7, 1 << 14
_INT32, _STRUCT = 5, 12
_NO_LEVELS = b""
_pack_length = struct.Struct("<I").pack

_Statistics: TypeAlias = Callable[[Any, Any], bytes]


class _Kind(NamedTuple):
    """How the values of a Delta type lie in a page, and what the schema says of them."""

    physical: int
    # Of `struct`, or from a text or bytes to bytes.
    format: str | Callable[[Any], bytes]
    # Field 6, the converted type, and field 10, the logical one.
    converted: int | None = None
    logical: bytes = b""


def _integer_type(bits: int) -> bytes:
    # 10: INTEGER {1: bits, 2: signed}
    return b"\xac" + bytes((0x13, bits, 0x11, 0))


def _timestamp_type(*, is_utc: bool) -> bytes:
    # 8: TIMESTAMP {1: is it in UTC, 2: {2: microseconds}}
    return b"\x8c" + (b"\x11" if is_utc else b"\x12") + b"\x1c\x2c\0\0\0"


_KINDS = {
    "boolean": _Kind(0, "?"),
    "byte": _Kind(1, "i", 15, _integer_type(8)),
    "short": _Kind(1, "i", 16, _integer_type(16)),
    "integer": _Kind(1, "i"),
    "long": _Kind(2, "q"),
    "float": _Kind(4, "f"),
    "double": _Kind(5, "d"),
    "string": _Kind(6, str.encode, 0, b"\x1c\0"),
    "binary": _Kind(6, bytes),
    "date": _Kind(1, "i", 6, b"\x6c\0"),
    "timestamp": _Kind(2, "q", 10, _timestamp_type(is_utc=True)),
    "timestamp_ntz": _Kind(2, "q", None, _timestamp_type(is_utc=False)),
}


class _Column(NamedTuple):
    kind: _Kind
    bounds: str | None
    # Of times, the numbers that they are kept as.
    number: pa.DataType | None
    is_nullable: bool
    # Of the column's metadata in the footer, all that comes before its counts.
    start: bytes
    # Makes the statistics of a greatest and a least value.
    statistics: _Statistics


class SmallFile(NamedTuple):
    """A file, and of each column the nulls and the bounds."""

    data: bytes
    found: list[tuple[int, Bounds]]


class SmallFormat:
    """Encodes small tables of one layout."""

    __slots__ = ("_columns", "_end", "_middle", "_start")

    def __init__(self, fields: Sequence[StructField], kinds: Sequence[_Kind]) -> None:
        self._columns = [
            _Column(
                kind,
                bounds_kind(item.type),
                as_number(bounds_kind(item.type)),
                item.nullable,
                _column_start(item, kind),
                _statistics_of(kind.format),
            )
            for item, kind in zip(fields, kinds, strict=True)
        ]
        root = b"\x48" + _binary(b"schema") + b"\x15" + _integer(len(fields)) + b"\0"
        elements = [_element(item, kind) for item, kind in zip(fields, kinds, strict=True)]
        # 1: version, 2: schema; then 3: number of rows
        self._start = b"\x15\x04\x19" + _list(_STRUCT, [root, *elements]) + b"\x16"
        # 4: one row group {1: columns
        self._middle = b"\x19\x1c\x19" + _list_start(_STRUCT, len(fields))
        # 6: created by, 7: column orders, each by its type
        orders = _list(_STRUCT, [b"\x1c\0\0"] * len(fields))
        self._end = b"\x28" + _binary(_CREATED_BY) + b"\x19" + orders + b"\0"

    @classmethod
    def of(cls, fields: Sequence[StructField]) -> SmallFormat | None:
        """The format of files with these columns; None where a column is not simple enough."""
        kinds = [_kind_of(item.type) for item in fields]
        known = [kind for kind in kinds if kind is not None]
        return cls(fields, known) if len(known) == len(fields) else None

    def encode(self, columns: Sequence[pa.ChunkedArray], rows: int) -> SmallFile | None:
        """The columns as a file; None if they are not small, or break NOT NULL."""
        if not 0 < rows <= MOST_ROWS:
            return None
        pieces, found = [_MAGIC], []
        chunks: list[bytes] = []
        offset = len(_MAGIC)
        for (kind, ordered, number, is_nullable, start, statistics), column in zip(
            self._columns, columns, strict=True
        ):
            values = column.to_pylist() if number is None else numbers_of(column, number)
            present, nulls = values, 0
            levels = _ALL_PRESENT[rows] if is_nullable else _NO_LEVELS
            if None in values:
                if not is_nullable:
                    # Without levels the file could not be read; Arrow's writer says what is wrong.
                    return None
                present = [value for value in values if value is not None]
                nulls = rows - len(present)
                levels = _levels(values)
            bounds = bounds_of(present, ordered)
            page = levels + _plain(present, kind.format)
            header, chunk = _frame(start, rows, len(page))
            pieces += header, page
            low, high, nan = bounds
            known = b"\0" if low is None or high is None or nan else statistics(high, low)
            # 9: where the page is, 12: statistics {3: nulls
            chunks += chunk, _integer(offset), b"\x3c\x36", _integer(nulls), known, b"\0\0"
            offset += len(header) + len(page)
            if offset > MOST_BYTES:
                return None
            found.append((nulls, bounds))
        count, size = _integer(rows), _integer(offset - len(_MAGIC))
        # 2: size, 3: rows, 5: where it begins, 6: size}
        footer = b"".join(
            [
                self._start, count, self._middle, *chunks, b"\x16", size,
                b"\x16", count, _FIRST_PAGE, b"\x16", size, b"\0", self._end,
            ]
        )  # fmt: skip
        data = b"".join([*pieces, footer, len(footer).to_bytes(4, "little"), _MAGIC])
        return SmallFile(data, found)


def _kind_of(kind: DeltaType) -> _Kind | None:
    return _KINDS.get(kind.name) if isinstance(kind, Primitive) else None


# --- pages ----------------------------------------------------------------------------


def _levels(values: list[Any]) -> bytes:
    """Which values are not null, as bits packed by eight."""
    bits = sum(1 << place for place, value in enumerate(values) if value is not None)
    groups = (len(values) + 7) // 8
    return _run(_varint(groups << 1 | 1) + bits.to_bytes(groups, "little"))


def _run(run: bytes) -> bytes:
    return len(run).to_bytes(4, "little") + run


def _plain(values: list[Any], form: str | Callable[[Any], bytes]) -> bytes:
    if not isinstance(form, str):
        return b"".join([_pack_length(len(raw)) + raw for raw in map(form, values)])
    if form == "?":
        bits = sum(1 << place for place, value in enumerate(values) if value)
        return bits.to_bytes((len(values) + 7) // 8, "little")
    return struct.pack(f"<{len(values)}{form}", *values)


# --- the footer -----------------------------------------------------------------------


# Remembered: numbers take the same bytes in every file of so many rows, texts often.
@lru_cache(maxsize=1024)
def _frame(start: bytes, rows: int, page: int) -> tuple[bytes, bytes]:
    """The header of a page, and its column's metadata up to where it says where the page is."""
    count, length = _integer(rows), _integer(page)
    # PageHeader {1: data page, 2 and 3: its size, 5: {1: values, 2 to 4: encodings}}
    header = b"\x15\0\x15" + length + b"\x15" + length + b"\x2c\x15" + count
    header += b"\x15\0\x15\x06\x15\x06\0\0"
    size = _integer(len(header) + page)
    # 5: values, 6 and 7: size
    return header, start + count + b"\x16" + size + b"\x16" + size + b"\x26"


# 5: the greatest value, 6: the least


def _statistics_of_texts(high: str, low: str) -> bytes:
    return b"\x28" + _binary(high.encode()) + b"\x18" + _binary(low.encode()) + b"\0"


def _statistics_of(form: str | Callable[[Any], bytes]) -> _Statistics:
    if not isinstance(form, str):
        return _statistics_of_texts
    pack = struct.Struct(f"<2s{form}2s{form}s").pack
    size = bytes((struct.calcsize(f"<{form}"),))
    before_high, before_low = b"\x28" + size, b"\x18" + size
    if form not in "fd":
        return lambda high, low: pack(before_high, high, before_low, low, b"\0")
    # The greatest zero is the positive one, the least the negative.
    return lambda high, low: pack(before_high, high or 0.0, before_low, low or -0.0, b"\0")


def _column_start(item: StructField, kind: _Kind) -> bytes:
    # 2: offset (not used), 3: {1: type, 2: encodings PLAIN and RLE, 3: path, 4: no compression}
    path = _list(8, [_binary(item.physical_name.encode())])
    return (
        b"\x26\0\x1c\x15" + _integer(kind.physical) + b"\x19\x25\0\x06\x19" + path + b"\x15\0\x16"
    )


def _element(item: StructField, kind: _Kind) -> bytes:
    """A column of the schema."""
    last = 4
    text = b"\x15" + _integer(kind.physical) + b"\x25" + _integer(int(item.nullable))
    text += b"\x18" + _binary(item.physical_name.encode())
    for number, value in ((6, kind.converted), (9, item.field_id)):
        if value is not None:
            text += bytes(((number - last) << 4 | _INT32,)) + _integer(value)
            last = number
    if kind.logical:
        text += bytes(((10 - last) << 4 | _STRUCT,)) + kind.logical + b"\0"
    return text + b"\0"


# --- Thrift ---------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    if number < _VARINT_1:
        return bytes((number,))
    if number < _VARINT_2:
        return bytes((number & 0x7F | 0x80, number >> 7))
    return bytes((number & 0x7F | 0x80,)) + _varint(number >> 7)


def _integer(number: int) -> bytes:
    """An integer, none of ours is negative."""
    return _SMALL_INTEGERS[number] if number < _SMALL else _varint(number << 1)


def _binary(raw: bytes) -> bytes:
    return _varint(len(raw)) + raw


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    return _list_start(kind, len(items)) + b"".join(items)


def _list_start(kind: int, length: int) -> bytes:
    short = length < 15
    return bytes((length << 4 | kind,)) if short else bytes((0xF0 | kind,)) + _varint(length)


_SMALL_INTEGERS = [_varint(number << 1) for number in range(_SMALL)]
# 5: where the row group begins
_FIRST_PAGE = b"\x26" + _integer(len(_MAGIC))
# By the number of rows, the levels of a column without nulls: one run of ones.
_ALL_PRESENT = [_run(_varint(rows << 1) + b"\x01") for rows in range(MOST_ROWS + 1)]
