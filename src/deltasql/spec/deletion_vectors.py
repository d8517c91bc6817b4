"""Deletion vectors: where a descriptor points, and the rows in its bitmap.

A vector is stored inline in the log or in a `.bin` file, framed there by a big-endian size and
CRC-32. Inside is a little-endian array of 32-bit Roaring bitmaps, one per 2^32 rows.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec import paths, roaring
from deltasql.spec.actions import DeletionVector

PORTABLE_MAGIC = 1681511377
NATIVE_MAGIC = 1681511376
FILE_VERSION = 1
# The 20 z85 characters at the end of a relative path are a UUID.
_UUID_TEXT = 20
_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {byte: value for value, byte in enumerate(_ALPHABET)}


@dataclass(frozen=True, slots=True)
class InFile:
    """A vector's place: `path` as the log would write it, and the frame's start and length."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Inline:
    """A vector that is stored in the log itself."""

    bitmap: bytes


def locate(vector: DeletionVector) -> InFile | Inline:
    """Where the bitmap of a descriptor is; a file's path is relative, or `paths.is_elsewhere`."""
    text = vector.path_or_inline_dv
    if vector.cardinality < 0:
        raise _broken(f"a deletion vector deletes {vector.cardinality} rows")
    match vector.storage_type:
        case "i":
            raw = z85_decode(text)
            if not 0 <= len(raw) - vector.size_in_bytes < 4:
                raise _broken("an inline deletion vector does not have the size that it says")
            return Inline(raw[: vector.size_in_bytes])
        case "u":
            return InFile(paths.encode_path(_relative_path(text)), *_frame(vector))
        case "p":
            if not paths.is_elsewhere(text):
                raise _broken(f"the deletion vector's path {text!r:.200} is not absolute")
            return InFile(text, *_frame(vector))
        case other:
            raise UnsupportedFeatureError(
                f"a deletion vector has the storage type {other!r:.20}",
                cause="deltasql knows the types u, p and i of the Delta spec",
                remedy="read the table with the engine that wrote it",
            )


def _frame(vector: DeletionVector) -> tuple[int, int]:
    # Without an offset, the vector is the only one, after the version byte.
    offset = 1 if vector.offset is None else vector.offset
    if offset < 1 or vector.size_in_bytes < 0:
        raise _broken("a deletion vector starts before its file's first byte")
    return offset, vector.size_in_bytes + 8


def _relative_path(text: str) -> str:
    if len(text) < _UUID_TEXT:
        raise _broken(f"{text!r:.80} is too short for a deletion vector's file")
    prefix, name = text[:-_UUID_TEXT], text[-_UUID_TEXT:]
    return relative_path(z85_decode(name), prefix=prefix)


def relative_path(uuid: bytes, *, prefix: str = "") -> str:
    """The object key of the `.bin` file with that id."""
    digits = uuid.hex()
    dashed = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    name = f"deletion_vector_{dashed}.bin"
    return f"{prefix}/{name}" if prefix else name


def in_file(
    uuid: bytes, *, bitmap: bytes, offset: int, cardinality: int, prefix: str = ""
) -> DeletionVector:
    """The descriptor of a bitmap at `offset` in the file with that id."""
    return DeletionVector(
        storage_type="u",
        path_or_inline_dv=prefix + z85_encode(uuid),
        offset=offset,
        size_in_bytes=len(bitmap),
        cardinality=cardinality,
    )


def inline(rows: Iterable[int]) -> DeletionVector:
    """A descriptor that contains the rows itself."""
    ordered = sorted(set(rows))
    bitmap = encode(ordered)
    return DeletionVector(
        storage_type="i",
        path_or_inline_dv=z85_encode(bitmap + bytes(-len(bitmap) % 4)),
        size_in_bytes=len(bitmap),
        cardinality=len(ordered),
    )


def encode_file(bitmaps: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """The content of a `.bin` file, and each bitmap's offset in it."""
    content, offsets = bytearray([FILE_VERSION]), []
    for bitmap in bitmaps:
        offsets.append(len(content))
        content += struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    return bytes(content), offsets


def unframe(frame: bytes, *, version: int, size: int, source: str = "") -> bytes:
    """The bitmap inside the frame of a file; `version` is the file's first byte."""
    if version != FILE_VERSION:
        raise UnsupportedFeatureError(
            f"the deletion vector file {source} has format version {version}",
            cause=f"deltasql knows version {FILE_VERSION}",
            remedy="read the table with the engine that wrote it",
        )
    if len(frame) != size + 8 or struct.unpack_from(">I", frame)[0] != size:
        raise _broken(f"the deletion vector in {source} does not have the size that the log says")
    bitmap = frame[4:-4]
    if zlib.crc32(bitmap) != struct.unpack_from(">I", frame, size + 4)[0]:
        raise _broken(f"the checksum of the deletion vector in {source} is wrong")
    return bitmap


def encode(rows: Iterable[int]) -> bytes:
    """The portable form of a set of row indexes."""
    ordered = sorted(set(rows))
    parts: list[bytes] = []
    start = 0
    while start < len(ordered):
        high = ordered[start] >> 32
        end = bisect_left(ordered, (high + 1) << 32, start)
        lows = ordered[start:end] if high == 0 else [row & 0xFFFFFFFF for row in ordered[start:end]]
        parts.append(struct.pack("<I", high) + roaring.encode(lows))
        start = end
    return struct.pack("<IQ", PORTABLE_MAGIC, len(parts)) + b"".join(parts)


def decode(bitmap: bytes, *, cardinality: int) -> array[int]:
    """The row indexes of a bitmap, ascending, as `array('Q')`; never more than `cardinality`."""
    try:
        rows = _decode(bitmap, cardinality)
    except (struct.error, ValueError) as error:
        raise _broken("a deletion vector's bitmap can't be decoded", str(error)) from None
    if len(rows) != cardinality:
        raise _broken(
            f"a deletion vector holds {len(rows)} rows", f"the log says that it has {cardinality}"
        )
    return rows


def _decode(bitmap: bytes, limit: int) -> array[int]:
    (magic,) = struct.unpack_from("<I", bitmap)
    if magic == PORTABLE_MAGIC:
        (count,) = struct.unpack_from("<Q", bitmap, 4)
        at = 12
    elif magic == NATIVE_MAGIC:
        (count,) = struct.unpack_from("<I", bitmap, 4)
        at = 8
    else:
        raise ValueError(f"its magic number is {magic}")
    rows, last = array("Q"), -1
    for index in range(count):
        # The portable form stores each bitmap's high half, the native one its length.
        (number,) = struct.unpack_from("<I", bitmap, at)
        high = number if magic == PORTABLE_MAGIC else index
        if high <= last:
            raise ValueError("its bitmaps are out of order")
        end = roaring.decode_into(rows, bitmap, start=at + 4, base=high << 32, limit=limit)
        if magic == NATIVE_MAGIC and end != at + 4 + number:
            raise ValueError("the length of a bitmap is not what it says")
        at, last = end, high
    if at != len(bitmap):
        raise ValueError(f"{len(bitmap) - at} bytes are left over")
    return rows


def z85_encode(data: bytes) -> str:
    """ZeroMQ's base 85; the length must be a multiple of 4."""
    if len(data) % 4:
        raise ValueError("z85 needs a multiple of four bytes")
    out = bytearray()
    for (word,) in struct.iter_unpack(">I", data):
        for power in (85**4, 85**3, 85**2, 85, 1):
            out.append(_ALPHABET[word // power % 85])
    return out.decode("ascii")


def z85_decode(text: str) -> bytes:
    """The bytes of a z85 text."""
    out = bytearray()
    try:
        digits = [_DIGITS[byte] for byte in text.encode("ascii")]
        if len(digits) % 5:
            raise ValueError("its length is not a multiple of five")
        for at in range(0, len(digits), 5):
            a, b, c, d, e = digits[at : at + 5]
            out += struct.pack(">I", (((a * 85 + b) * 85 + c) * 85 + d) * 85 + e)
    except (KeyError, ValueError, struct.error) as error:
        raise _broken(f"{text!r:.80} is not z85", str(error)) from None
    return bytes(out)


def _broken(problem: str, cause: str = "") -> LogFormatError:
    return LogFormatError(
        problem,
        cause=cause or "the log, or the file it points to, is damaged",
        remedy="restore the file from a copy; without it, the rows of this data file are unknown",
    )
