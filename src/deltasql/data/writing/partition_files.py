"""The files of many partitions in the making: few at a time, in bounded memory.

Rows are gathered by partition until a row group is worth its while. Three bounds hold whatever
comes: bytes of rows that wait, bytes of files that are open, and how many of these there are. What
a bound puts out is finished as it is; a later row of its partition begins another file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from deltasql.data.writing.partitioning import Values

MIB = 1 << 20
# Rows that wait for more of their partition, in all.
WAITING = 96 * MIB
# What open files hold, in all: stores take whole objects, so it is in memory.
OPEN = 128 * MIB
OPEN_FILES = 512
# From here on rows of a partition are written without a look at the bounds.
_ROW_GROUP = 16 * MIB
# What a table costs beside its rows, and each column of it.
_TABLE, _COLUMN = 1024, 512


class OpenFile(Protocol):
    """A Parquet file in the making."""

    def write(self, table: pa.Table) -> None:
        """Add a row group."""

    def size(self) -> int:
        """How many bytes it has by now."""

    def finish(self) -> tuple[pa.Buffer, str]:
        """The whole file, and its stats."""


@dataclass(slots=True)
class _Partition:
    """What is not in a finished file of one partition."""

    # The last of them may be a slice of all that was read with it: see `_own`.
    tables: list[pa.Table] = field(default_factory=list)
    weight: int = 0
    is_fresh: bool = False
    file: OpenFile | None = None
    size: int = 0


class PartitionFiles:
    """Takes rows by partition; `open_file` begins a file, `finish` puts it where it belongs.

    `write` adds rows to a file, in row groups.
    """

    def __init__(
        self,
        *,
        open_file: Callable[[pa.Schema], OpenFile],
        write: Callable[[OpenFile, pa.Table], None],
        finish: Callable[[OpenFile, Values], None],
        target_size: int,
    ) -> None:
        self._open_file = open_file
        self._write = write
        self._finish = finish
        self._target = target_size
        # By the time of their last rows: the first have waited longest.
        self._partitions: dict[Values, _Partition] = {}
        self._waiting = 0
        self._open = 0
        self._files = 0

    def take(self, parts: Iterable[tuple[Values, pa.Table]]) -> None:
        """Take what a piece of the input has of each partition."""
        fresh: list[_Partition] = []
        for values, rows in parts:
            fresh.append(self._add(values, rows))
            if self._waiting > WAITING:
                self._write_largest()
        # The piece itself shall go.
        for partition in fresh:
            self._own(partition)

    def finish(self) -> None:
        """Finish every file."""
        for values in list(self._partitions):
            self._end(values)

    def _add(self, values: Values, rows: pa.Table) -> _Partition:
        partition = self._partitions.pop(values, None) or _Partition()
        self._partitions[values] = partition
        partition.tables.append(rows)
        partition.is_fresh = True
        weight = rows.nbytes + _TABLE + _COLUMN * rows.num_columns
        partition.weight += weight
        self._waiting += weight
        if partition.weight >= _ROW_GROUP:
            self._flush(values)
            self._keep_bounds()
        return partition

    def _write_largest(self) -> None:
        """Write the larger half of what waits: large row groups, and seldom a look at all."""
        found = sorted(self._partitions.items(), key=lambda item: item[1].weight, reverse=True)
        for values, partition in found:
            if self._waiting <= WAITING // 2:
                break
            if partition.tables:
                self._flush(values)
                self._keep_bounds()

    def _keep_bounds(self) -> None:
        if self._open > OPEN:
            found = sorted(self._partitions.items(), key=lambda item: item[1].size, reverse=True)
            for values, _ in found:
                if self._open <= OPEN * 3 // 4:
                    break
                self._end(values)
        elif self._files > OPEN_FILES:
            oldest = [values for values, item in self._partitions.items() if item.file is not None]
            for values in oldest[: OPEN_FILES // 4]:
                self._end(values)

    def _flush(self, values: Values) -> None:
        """Write what waits of a partition to its file."""
        partition = self._partitions[values]
        if partition.tables:
            rows = partition.tables[0]
            if len(partition.tables) > 1:
                rows = pa.concat_tables(partition.tables)
            self._waiting -= partition.weight
            partition.tables, partition.weight, partition.is_fresh = [], 0, False
            if partition.file is None:
                partition.file = self._open_file(rows.schema)
                self._files += 1
            self._write(partition.file, rows)
            size = partition.file.size()
            self._open += size - partition.size
            partition.size = size
        if partition.size >= self._target:
            self._end(values)

    def _end(self, values: Values) -> None:
        """Finish a partition's file, with what waits for it."""
        partition = self._partitions.get(values)
        if partition is None:
            return
        if partition.tables:
            self._flush(values)
        if self._partitions.pop(values, None) is not None and partition.file is not None:
            self._open -= partition.size
            self._files -= 1
            self._finish(partition.file, values)

    @staticmethod
    def _own(partition: _Partition) -> None:
        """Copy rows that are a slice of their piece, which would stay in memory whole."""
        if partition.is_fresh and partition.tables:
            last = partition.tables[-1]
            # Two chunks become one, by copy; of one alone nothing would be copied.
            copied = pa.concat_tables([last, last.slice(0, 0)]).combine_chunks()
            partition.tables[-1] = copied
            partition.is_fresh = False
