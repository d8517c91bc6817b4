"""Sums over a table's state that don't depend on order: what two readings compare first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

DIGEST_SIZE: Final = 16
_MODULUS: Final = 1 << (8 * DIGEST_SIZE)


class Digest:
    """A sum of hashes, of whatever was added in any order and not taken out again."""

    __slots__ = ("_sum",)

    def __init__(self, value: bytes = b"") -> None:
        self._sum = int.from_bytes(value)

    def add(self, hashed: bytes) -> None:
        """Add a hash."""
        self._sum += int.from_bytes(hashed)

    def add_sum(self, hashes: int) -> None:
        """Add a sum of hashes."""
        self._sum += hashes

    def drop(self, hashed: bytes) -> None:
        """Take out a hash that was added before."""
        self._sum -= int.from_bytes(hashed)

    def value(self) -> bytes:
        """The sum so far."""
        return (self._sum % _MODULUS).to_bytes(DIGEST_SIZE)


class FileHashes(NamedTuple):
    """A live file: hashes of its content and of its statistics (empty without), and its size."""

    content: bytes
    stats: bytes
    size: int


@dataclass(frozen=True, slots=True)
class FileSums:
    """How many files, how many bytes, and a digest of what is said about them, in no order.

    The digest has three parts: files without statistics, which checkpoints may leave out, their
    statistics, and every row that does not belong to a file.
    """

    files: int = 0
    size_bytes: int = 0
    digest: bytes = bytes(3 * DIGEST_SIZE)

    @property
    def stats(self) -> bytes:
        """The part of the digest for statistics."""
        return self.digest[DIGEST_SIZE : 2 * DIGEST_SIZE]

    @property
    def others(self) -> bytes:
        """The part of the digest for rows that don't belong to files."""
        return self.digest[2 * DIGEST_SIZE :]

    @property
    def contents(self) -> bytes:
        """The part of the digest for files, without their statistics."""
        return self.digest[:DIGEST_SIZE]

    def same_files(self, other: FileSums) -> bool:
        """Whether the files are the same, with the same statistics."""
        return self.has_files_of(other) and self.stats == other.stats

    def has_files_of(self, other: FileSums) -> bool:
        """Whether the files are the same; statistics may be left out altogether."""
        return (
            (self.files, self.size_bytes, self.contents)
            == (other.files, other.size_bytes, other.contents)
        ) and self.stats in (other.stats, bytes(DIGEST_SIZE))

    def with_others_of(self, other: FileSums) -> FileSums:
        """The same files, and the rows of `other` that don't belong to files."""
        return replace(self, digest=self.contents + self.stats + other.others)


class FileSum:
    """Files that come and go, and rows that don't belong to files, counted and summed up."""

    __slots__ = ("_bytes", "_contents", "_files", "_others", "_stats")

    def __init__(self, before: FileSums | None = None) -> None:
        start = before or FileSums()
        self._files = start.files
        self._bytes = start.size_bytes
        self._contents = Digest(start.contents)
        self._stats = Digest(start.stats)
        self._others = Digest(start.others)

    def add(self, file: FileHashes) -> None:
        """Add a live file."""
        self._files += 1
        self._bytes += file.size
        self._contents.add(file.content)
        self._stats.add(file.stats)

    def drop(self, file: FileHashes) -> None:
        """Take out a file that is no longer live."""
        self._files -= 1
        self._bytes -= file.size
        self._contents.drop(file.content)
        self._stats.drop(file.stats)

    def add_many(self, files: Iterable[FileHashes]) -> None:
        """Add live files: as `add` for each, but inlined, since there may be a million."""
        count = size_bytes = contents = stats = 0
        number = int.from_bytes
        for content, stats_hash, size in files:
            count += 1
            size_bytes += size
            contents += number(content)
            stats += number(stats_hash)
        self._files += count
        self._bytes += size_bytes
        self._contents.add_sum(contents)
        self._stats.add_sum(stats)

    def add_sums(self, sums: FileSums) -> None:
        """Add what another one has summed up."""
        self._files += sums.files
        self._bytes += sums.size_bytes
        self._contents.add(sums.contents)
        self._stats.add(sums.stats)
        self._others.add(sums.others)

    def add_other(self, hashed: bytes) -> None:
        """Add a row that does not belong to a file."""
        self._others.add(hashed)

    def drop_other(self, hashed: bytes) -> None:
        """Take out a row that does not belong to a file."""
        self._others.drop(hashed)

    def value(self) -> FileSums:
        """The sums so far."""
        digests = (self._contents, self._stats, self._others)
        return FileSums(self._files, self._bytes, b"".join(item.value() for item in digests))
