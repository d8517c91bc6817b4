"""Sums over files that come out alike in any order: what two tellers of a table compare first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

DIGEST_SIZE: Final = 16
_MODULUS: Final = 1 << (8 * DIGEST_SIZE)


class Digest:
    """A sum of hashes: what was added in any order, and was not taken away again."""

    __slots__ = ("_sum",)

    def __init__(self, value: bytes = b"") -> None:
        self._sum = int.from_bytes(value)

    def add(self, hashed: bytes) -> None:
        """Take a hash in."""
        self._sum += int.from_bytes(hashed)

    def add_sum(self, hashes: int) -> None:
        """Take in a sum of hashes."""
        self._sum += hashes

    def drop(self, hashed: bytes) -> None:
        """Take a hash out that was taken in before."""
        self._sum -= int.from_bytes(hashed)

    def value(self) -> bytes:
        """The sum so far."""
        return (self._sum % _MODULUS).to_bytes(DIGEST_SIZE)


@dataclass(frozen=True, slots=True)
class FileSums:
    """How many files, how many bytes, and a digest of which ones, in no order."""

    files: int = 0
    size_bytes: int = 0
    digest: bytes = bytes(DIGEST_SIZE)


def file_hash(path_key: bytes, dv_key: bytes, size: int) -> bytes:
    """The hash of a live file: its path, its deletion vector and its size."""
    return blake2b(b"%b%b%d" % (path_key, dv_key, size), digest_size=DIGEST_SIZE).digest()


class FileSum:
    """Files that come and go, counted and summed up."""

    __slots__ = ("_bytes", "_digest", "_files")

    def __init__(self, before: FileSums | None = None) -> None:
        start = before or FileSums()
        self._files = start.files
        self._bytes = start.size_bytes
        self._digest = Digest(start.digest)

    def add(self, path_key: bytes, dv_key: bytes, size: int) -> None:
        """A file is live."""
        self._files += 1
        self._bytes += size
        self._digest.add(file_hash(path_key, dv_key, size))

    def drop(self, path_key: bytes, dv_key: bytes, size: int) -> None:
        """A file that was live is so no more."""
        self._files -= 1
        self._bytes -= size
        self._digest.drop(file_hash(path_key, dv_key, size))

    def add_many(self, files: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Files are live: as `add` for each, written out because they may be a million."""
        count = size_bytes = hashes = 0
        for path_key, dv_key, size in files:
            count += 1
            size_bytes += size
            hashes += int.from_bytes(file_hash(path_key, dv_key, size))
        self._files += count
        self._bytes += size_bytes
        self._digest.add_sum(hashes)

    def value(self) -> FileSums:
        """The sums so far."""
        return FileSums(self._files, self._bytes, self._digest.value())
