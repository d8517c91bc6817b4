"""Sums over very many live files, made of batches by whoever has a processor to spare.

Nothing here needs a database or its driver, so that other processes can do it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from deltasql.log.file_sums import DIGEST_SIZE, Digest, FileSum, FileSums
from deltasql.store.checking.content import CONTENT_COLUMNS, file_hashes

_SIZE, _PATH = (CONTENT_COLUMNS.index(name) for name in ("size_bytes", "path"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSum:
    """How many files there are, and a digest of their paths and sizes, in no order."""

    files: int = 0
    digest: bytes = bytes(DIGEST_SIZE)

    def plus(self, other: PathSum) -> PathSum:
        """Both together."""
        both = Digest(self.digest)
        both.add(other.digest)
        return PathSum(files=self.files + other.files, digest=both.value())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSums:
    """What the rows of live files say, to a checkpoint and to a reader that knows only paths and
    sizes.
    """

    files: FileSums
    paths: PathSum

    def plus(self, other: RowSums) -> RowSums:
        """Both together."""
        files = FileSum(self.files)
        files.add_sums(other.files)
        return RowSums(files=files.value(), paths=self.paths.plus(other.paths))


NOTHING = RowSums(files=FileSums(), paths=PathSum())


def packed(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[bytes]:
    """Batches as streams of about so many rows, to be sent elsewhere."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            waiting.append(piece)
            count += piece.num_rows
            if count >= rows:
                yield _stream(waiting)
                waiting, count = [], 0
    if waiting:
        yield _stream(waiting)


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def sums_of_rows(stream: bytes) -> bytes:
    """The `RowSums` over `CONTENT_COLUMNS` that `packed` has packed; pickled."""
    found = NOTHING
    for rows in _rows(stream):
        files = FileSum()
        files.add_many(map(file_hashes, rows))
        paths = _path_sum((row[_PATH], row[_SIZE]) for row in rows)
        found = found.plus(RowSums(files=files.value(), paths=paths))
    return pickle.dumps(found)


def sum_of_paths(stream: bytes) -> bytes:
    """The `PathSum` over paths and sizes that `packed` has packed; pickled."""
    found = PathSum()
    for rows in _rows(stream):
        found = found.plus(_path_sum(rows))
    return pickle.dumps(found)


def _path_sum(files: Iterable[tuple[str, int]]) -> PathSum:
    count = total = 0
    for path, size in files:
        text = f"{size},{path}".encode("utf-8", "surrogatepass")
        total += int.from_bytes(blake2b(text, digest_size=DIGEST_SIZE).digest())
        count += 1
    digest = Digest()
    digest.add_sum(total)
    return PathSum(files=count, digest=digest.value())


def _rows(stream: bytes) -> Iterator[list[Any]]:
    with pa.ipc.open_stream(stream) as reader:
        for batch in reader:
            yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
