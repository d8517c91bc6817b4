"""What a footer says about the columns of its row groups: nulls and bounds.

PyArrow's own `row_group(i).column(j)` and its `statistics` crash the process if a footer is damaged
or forged: a bound of two bytes, a type other than the schema's, a histogram of the wrong length. So
the few fields that are needed are read here, from Thrift's compact form, and anything unexpected is
unknown. Unknown is always safe: then nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

# A larger footer takes longer to search here than the row groups that it may save.
MOST_BYTES: Final = 2 * 1024 * 1024
_DEEPEST: Final = 32

# Value types of the compact form. Booleans have no content of their own.
_BOOLEANS, _BYTE, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 2, 3, 5, 6, 7, 8, 9, 10, 12
_NUMBERS: Final = (4, _I32, _I64)
_WIDTHS: Final = {1: 0, _BOOLEANS: 0, _BYTE: 1, _DOUBLE: 8}
_LONG: Final = 15

# Fields of parquet.thrift.
_ROW_GROUPS, _COLUMN_ORDERS = 4, 7  # FileMetaData
_COLUMNS = 1  # RowGroup
_META_DATA = 3  # ColumnChunk
_TYPE, _STATISTICS = 1, 12  # ColumnMetaData
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6  # Statistics


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """One column in one row group, as the footer describes it; None is unknown.

    `physical_type` is the number of Parquet's type; bounds are in its plain encoding.
    """

    physical_type: int | None = None
    nulls: int | None = None
    low: bytes | None = None
    high: bytes | None = None


UNKNOWN: Final = ChunkStatistics()


def chunk_statistics(
    footer: bytes, columns: Iterable[int], row_groups: int
) -> list[dict[int, ChunkStatistics]]:
    """For each row group, the columns with these numbers among the schema's leaves."""
    wanted = frozenset(columns)
    found: list[dict[int, ChunkStatistics]] = []
    if wanted and len(footer) <= MOST_BYTES:
        with suppress(IndexError, ValueError):
            found = _Walk(footer, wanted).row_groups()
    if len(found) != row_groups:
        found = [{} for _ in range(row_groups)]
    return [{at: group.get(at, UNKNOWN) for at in wanted} for group in found]


class _Walk:
    """One pass through a footer. An IndexError means its end, a ValueError another form."""

    def __init__(self, footer: bytes, columns: frozenset[int]) -> None:
        self._data = footer
        self._at = 0
        self._columns = columns

    def row_groups(self) -> list[dict[int, ChunkStatistics]]:
        found: list[dict[int, ChunkStatistics]] = []
        has_orders = False
        for field, kind in self._fields():
            if field == _ROW_GROUPS and kind == _LIST:
                found = [self._row_group() for _ in self._structs()]
            else:
                has_orders |= field == _COLUMN_ORDERS
                self._skip(kind)
        if has_orders:
            return found
        # Bounds mean something only if their order is known.
        return [
            {at: ChunkStatistics(item.physical_type, item.nulls) for at, item in group.items()}
            for group in found
        ]

    def _row_group(self) -> dict[int, ChunkStatistics]:
        found = {}
        for field, kind in self._fields():
            if field == _COLUMNS and kind == _LIST:
                for at in self._structs():
                    if at in self._columns:
                        found[at] = self._chunk()
                    else:
                        self._skip(_STRUCT)
            else:
                self._skip(kind)
        return found

    def _chunk(self) -> ChunkStatistics:
        found = UNKNOWN
        for field, kind in self._fields():
            if field == _META_DATA and kind == _STRUCT:
                found = self._column_meta_data()
            else:
                self._skip(kind)
        return found

    def _column_meta_data(self) -> ChunkStatistics:
        physical_type, known = None, {}
        for field, kind in self._fields():
            if field == _TYPE and kind == _I32:
                physical_type = self._signed()
            elif field == _STATISTICS and kind == _STRUCT:
                known = self._statistics()
            else:
                self._skip(kind)
        return ChunkStatistics(physical_type, **known)

    def _statistics(self) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for field, kind in self._fields():
            if field == _NULL_COUNT and kind == _I64:
                known["nulls"] = self._signed()
            elif field == _MIN_VALUE and kind == _BINARY:
                known["low"] = self._binary()
            elif field == _MAX_VALUE and kind == _BINARY:
                known["high"] = self._binary()
            else:
                self._skip(kind)
        return known

    # --- the compact form -------------------------------------------------------------------

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Numbers and types of a struct's fields; the caller reads or skips each value."""
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            yield field, head & 15

    def _structs(self) -> range:
        head = self._byte()
        if head & 15 != _STRUCT:
            raise ValueError(head)
        return range(head >> 4 if head >> 4 < _LONG else self._number())

    def _skip(self, kind: int) -> None:
        self._at = _after(self._data, self._at, kind, 0)

    def _byte(self) -> int:
        found = self._data[self._at]
        self._at += 1
        return found

    def _number(self) -> int:
        found, self._at = _number(self._data, self._at)
        return found

    def _signed(self) -> int:
        found = self._number()
        return (found >> 1) ^ -(found & 1)

    def _binary(self) -> bytes:
        length = self._number()
        start, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise IndexError(self._at)
        return self._data[start : self._at]


def _after(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where a value ends."""
    if kind in _NUMBERS:
        while data[at] > 0x7F:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _number(data, at)
        return at + length
    if depth > _DEEPEST:
        raise ValueError(depth)
    if kind == _STRUCT:
        return _after_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _after_list(data, at, depth + 1)
    if kind in _WIDTHS:
        return at + _WIDTHS[kind]
    raise ValueError(kind)


def _after_struct(data: bytes, at: int, depth: int) -> int:
    while head := data[at]:
        at += 1
        if head < 16:
            _, at = _number(data, at)
        kind = head & 15
        # Most of a footer is numbers, and a call costs more than reading one.
        if kind in _NUMBERS:
            while data[at] > 0x7F:
                at += 1
            at += 1
        else:
            at = _after(data, at, kind, depth)
    return at + 1


def _after_list(data: bytes, at: int, depth: int) -> int:
    head, at = data[at], at + 1
    count, kind = head >> 4, head & 15
    if count == _LONG:
        count, at = _number(data, at)
    if kind <= _BYTE:
        return at + count
    for _ in range(count):
        at = _after(data, at, kind, depth)
    return at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number and where it ends."""
    value = shift = 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError(shift)
