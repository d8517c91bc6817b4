"""Commit files in the mirror, compared with the digests that their commits recorded in SQL."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final, TypeAlias

from deltasql.delta_log.names import LOG, commit_name
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.failures import ObjectNotFoundError
from deltasql.objectstore.wholeness import must_be_whole
from deltasql.store.interface import LogStore

# Stands for an adopted version that came with a checkpoint and without its commit file.
_NO_FILE: Final = sha256(b"").digest()
_LENGTH: Final = len(_NO_FILE)
_PARALLEL: Final = 8
_AT_ONCE: Final = 512
# Called with how much is done, and of how much.
Advance: TypeAlias = Callable[[int, int], None]


class CommitDigests(Mapping[int, bytes]):
    """The digest of every version that has a commit file, stored compactly."""

    __slots__ = ("_bytes", "_count", "_first")

    def __init__(self, digests: Iterable[tuple[int, bytes]]) -> None:
        self._first = 0
        self._bytes = bytearray()
        self._count = 0
        for version, digest in digests:
            if not self._bytes:
                self._first = version
            # Versions that damage removed have no file either.
            missing = version - self._first - len(self._bytes) // _LENGTH
            # A digest of another length is damage, and must stay wrong.
            self._bytes += _NO_FILE * missing + digest[:_LENGTH].ljust(_LENGTH, b"\0")
            self._count += digest != _NO_FILE

    def __getitem__(self, version: int) -> bytes:
        start = (version - self._first) * _LENGTH
        found = bytes(self._bytes[start : start + _LENGTH]) if start >= 0 else b""
        if not found or found == _NO_FILE:
            raise KeyError(version)
        return found

    def __iter__(self) -> Iterator[int]:
        last = self._first + len(self._bytes) // _LENGTH
        return (version for version in range(self._first, last) if version in self)

    def __len__(self) -> int:
        return self._count


def commit_digests(log: LogStore, table_id: int) -> CommitDigests:
    """The digest of every version that has a commit file."""
    return CommitDigests(log.digests(table_id))


def differing(
    objects: ObjectStore,
    digests: Mapping[int, bytes],
    versions: Iterable[int],
    progress: Advance | None = None,
    *,
    vanished: list[int] | None = None,
) -> list[int]:
    """The given versions, in order, whose commit file differs from what was committed.

    Every file is read, because its size says nothing about its bytes. `progress` is called with how
    many were read, and of how many. Those that are gone by then are added to `vanished`; without
    it, they are an error.
    """

    def is_other(version: int) -> bool:
        path = LOG + commit_name(version)
        try:
            found = objects.read(path)
        except ObjectNotFoundError:
            if vanished is None:
                raise
            vanished.append(version)
            return False
        if sha256(found).digest() == digests[version]:
            return False
        must_be_whole(objects, path, found)
        return True

    present = array("q", sorted(versions))
    found: list[int] = []
    pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="deltasql-digests")
    try:
        # In batches, because a pool holds everything it is given.
        for start in range(0, len(present), _AT_ONCE):
            some = present[start : start + _AT_ONCE]
            answers = zip(some, pool.map(is_other, some), strict=True)
            for count, (version, other) in enumerate(answers, start=start + 1):
                if other:
                    found.append(version)
                if progress is not None:
                    progress(count, len(present))
    finally:
        # Whoever interrupts waits for the reads under way, not for the whole batch.
        pool.shutdown(cancel_futures=True)
    return found
