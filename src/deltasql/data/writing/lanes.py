"""Rows of one place on their way into files: one after the other, or several in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from deltasql.data.writing.partitioning import Values

# The least that a thread should encode, and how many threads may run at once.
_WORTH_A_THREAD = 32 << 20
_MOST = 4


class OpenFile(Protocol):
    """A file being written."""

    def write(self, table: pa.Table) -> None:
        """Add a row group."""

    def size(self) -> int:
        """How many bytes there are so far."""

    def finish(self) -> tuple[pa.Buffer, str]:
        """The whole file, and its stats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """Where files come from and go: `begin` opens one, `end` takes a full one, from any thread.

    `group_rows` says how many rows of a table make a row group.
    """

    begin: Callable[[pa.Schema], OpenFile]
    end: Callable[[OpenFile, Values], None]
    group_rows: Callable[[pa.Table], int]
    target_size: int


class Lanes:
    """Open files of one place: one, or as many as processors can encode a large table into."""

    def __init__(self, sink: FileSink) -> None:
        self._sink = sink
        self._files: list[OpenFile | None] = [None]

    def append(self, stored: pa.Table, values: Values) -> None:
        """Write a table to the open file, or contiguous parts of a large one to several."""
        count = _side_by_side(stored)
        if count == 1:
            self._write(0, stored, values)
            return
        self._files += [None] * (count - len(self._files))
        # Adjacent rows stay together, so that the bounds of files are narrow.
        size = -(-stored.num_rows // count)
        with ThreadPoolExecutor(count, thread_name_prefix="deltasql-encode") as pool:
            parts = [
                pool.submit(self._write, lane, stored.slice(lane * size, size), values)
                for lane in range(count)
            ]
        for part in parts:
            part.result()

    def close(self, values: Values) -> None:
        """Finish the files that are open."""
        for lane in range(len(self._files)):
            self._close(lane, values)

    def _write(self, lane: int, stored: pa.Table, values: Values) -> None:
        rows = self._sink.group_rows(stored)
        for start in range(0, stored.num_rows, rows):
            file = self._files[lane]
            if file is None:
                file = self._files[lane] = self._sink.begin(stored.schema)
            file.write(stored if rows >= stored.num_rows else stored.slice(start, rows))
            if file.size() >= self._sink.target_size:
                self._close(lane, values)

    def _close(self, lane: int, values: Values) -> None:
        file, self._files[lane] = self._files[lane], None
        if file is not None:
            self._sink.end(file, values)


def _side_by_side(stored: pa.Table) -> int:
    """How many files of a table to encode at once: as many as there are processors for it."""
    if stored.num_rows < _MOST or stored.nbytes < 2 * _WORTH_A_THREAD:
        return 1
    # Not all systems say which processors this process may use.
    told = getattr(os, "sched_getaffinity", None)
    processors = len(told(0)) if told else os.cpu_count() or 1
    return max(1, min(_MOST, processors, int(stored.nbytes) // _WORTH_A_THREAD))
