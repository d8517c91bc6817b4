"""The files of many partitions in the making: few at a time, in bounded memory.

Rows are gathered by partition until a row group is worth its while. Three bounds hold whatever
comes: bytes of rows that wait, bytes of files that are open, and how many of these there are. What
a bound puts out is finished as it is; a later row of its partition begins another file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from deltasql.data.writing.lanes import OpenFile
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

    `group_rows` says how many rows make a row group.
    """

    def __init__(
        self,
        *,
        open_file: Callable[[pa.Schema], OpenFile],
        finish: Callable[[OpenFile, Values], None],
        group_rows: Callable[[pa.Table], int],
        target_size: int,
    ) -> None:
        self._open_file = open_file
        self._finish = finish
        self._group_rows = group_rows
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
            size = self._group_rows(rows)
            for start in range(0, rows.num_rows, size):
                self._write(
                    partition, values, rows if size >= rows.num_rows else rows.slice(start, size)
                )

    def _write(self, partition: _Partition, values: Values, group: pa.Table) -> None:
        """Add a row group to a partition's file, which is finished once it is large enough."""
        if partition.file is None:
            partition.file = self._open_file(group.schema)
            self._files += 1
        partition.file.write(group)
        size = partition.file.size()
        self._open += size - partition.size
        partition.size = size
        if size >= self._target:
            self._close(partition, values)

    def _close(self, partition: _Partition, values: Values) -> None:
        if partition.file is not None:
            file, partition.file = partition.file, None
            self._open -= partition.size
            self._files -= 1
            partition.size = 0
            self._finish(file, values)

    def _end(self, values: Values) -> None:
        """Finish a partition's file, with what waits for it."""
        self._flush(values)
        self._close(self._partitions.pop(values), values)

    @staticmethod
    def _own(partition: _Partition) -> None:
        """Copy rows that are a slice of their piece, which would stay in memory whole."""
        if partition.is_fresh and partition.tables:
            last = partition.tables[-1]
            # Two chunks become one, by copy; of one alone nothing would be copied.
            copied = pa.concat_tables([last, last.slice(0, 0)]).combine_chunks()
            partition.tables[-1] = copied
            partition.is_fresh = False
