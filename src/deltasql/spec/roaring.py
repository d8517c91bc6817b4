"""32-bit Roaring bitmaps in their standard serialisation (RoaringFormatSpec)."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import compress, groupby, pairwise

_COOKIE = 12346
_COOKIE_WITH_RUNS = 12347
# With runs, small bitmaps omit the offsets.
_OFFSETS_FROM = 4
_ARRAY_LIMIT = 4096
_BITMAP_BYTES = 8192
_BITS = [bytes((byte >> bit) & 1 for bit in range(8)) for byte in range(256)]


def encode(values: Sequence[int]) -> bytes:
    """The bitmap of ascending, distinct 32-bit values, in array and bitmap containers."""
    heads, bodies = [], []
    for key, group in groupby(values, lambda value: value >> 16):
        lows = [value & 0xFFFF for value in group]
        heads.append(struct.pack("<HH", key, len(lows) - 1))
        bodies.append(_container(lows))
    at = 8 + 8 * len(heads)
    offsets = []
    for body in bodies:
        offsets.append(struct.pack("<I", at))
        at += len(body)
    return b"".join((struct.pack("<II", _COOKIE, len(heads)), *heads, *offsets, *bodies))


def _container(lows: list[int]) -> bytes:
    if len(lows) <= _ARRAY_LIMIT:
        return struct.pack(f"<{len(lows)}H", *lows)
    bits = bytearray(_BITMAP_BYTES)
    for low in lows:
        bits[low >> 3] |= 1 << (low & 7)
    return bytes(bits)


def decode_into(rows: array[int], data: bytes, *, start: int, base: int, limit: int) -> int:
    """Append `base` + each value of the bitmap at `start`; returns where the bitmap ends.

    A few bytes can stand for millions of values, so at most `limit` rows are produced. Raises
    `ValueError` or `struct.error` if the bytes are not such a bitmap.
    """
    count, at, runs = _head(data, start)
    keys = struct.unpack_from(f"<{2 * count}H", data, at)
    at += 4 * count
    if runs is None or count >= _OFFSETS_FROM:
        at += 4 * count
    last = -1
    for index in range(count):
        key, size = keys[2 * index], keys[2 * index + 1] + 1
        if key <= last:
            raise ValueError("containers are out of order")
        last = key
        before = len(rows)
        if before + size > limit:
            raise ValueError(f"it holds more than {limit} rows")
        is_run = runs is not None and runs[index >> 3] >> (index & 7) & 1
        read = _runs if is_run else _array if size <= _ARRAY_LIMIT else _bitmap
        at = read(rows, data, at, base | key << 16, size)
        if len(rows) - before != size:
            raise ValueError("the number of values in a container is not what it says")
    if at > len(data):
        raise ValueError("the bitmap is cut short")
    return at


def _head(data: bytes, at: int) -> tuple[int, int, bytes | None]:
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, at + 4)
        if count > 1 << 16:
            raise ValueError("too many containers")
        return count, at + 8, None
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        length = (count + 7) // 8
        flags = data[at + 4 : at + 4 + length]
        if len(flags) != length:
            raise ValueError("the bitmap is cut short")
        return count, at + 4 + length, flags
    raise ValueError(f"the Roaring cookie is {cookie}")


def _array(rows: array[int], data: bytes, at: int, base: int, size: int) -> int:
    lows = struct.unpack_from(f"<{size}H", data, at)
    if any(a >= b for a, b in pairwise(lows)):
        raise ValueError("values are out of order")
    rows.extend([base | low for low in lows])
    return at + 2 * size


def _bitmap(rows: array[int], data: bytes, at: int, base: int, size: int) -> int:  # noqa: ARG001
    raw = data[at : at + _BITMAP_BYTES]
    if len(raw) != _BITMAP_BYTES:
        raise ValueError("the bitmap is cut short")
    flags = b"".join([_BITS[byte] for byte in raw])
    rows.extend(compress(range(base, base + (1 << 16)), flags))
    return at + _BITMAP_BYTES


def _runs(rows: array[int], data: bytes, at: int, base: int, size: int) -> int:  # noqa: ARG001
    count: int = struct.unpack_from("<H", data, at)[0]
    after = -1
    for first, more in _pairs(data, at + 2, count):
        if first <= after or first + more > 0xFFFF:
            raise ValueError("runs are out of order")
        rows.extend(range(base + first, base + first + more + 1))
        after = first + more
    return at + 2 + 4 * count


def _pairs(data: bytes, at: int, count: int) -> Iterator[tuple[int, int]]:
    flat = struct.unpack_from(f"<{2 * count}H", data, at)
    return zip(flat[::2], flat[1::2], strict=True)
