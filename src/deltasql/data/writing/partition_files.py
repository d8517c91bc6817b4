"""The files of many partitions being written: few at a time, in bounded memory.

Rows are gathered by partition until a row group is worthwhile. Three bounds always hold: the bytes
of waiting rows, the bytes of open files, and the number of open files. A file that must give way is
finished as it is; a later row of its partition begins another file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from deltasql.data.writing.lanes import FileSink, OpenFile
from deltasql.data.writing.partitioning import Values

MIB = 1 << 20
# Bytes of rows that wait for more of their partition, in total.
WAITING = 96 * MIB
# Bytes that open files hold, in total: stores take whole objects, so they are in memory.
OPEN = 128 * MIB
OPEN_FILES = 512
# From this many bytes on, a partition's rows are written at once.
_ROW_GROUP = 16 * MIB
# The overhead of a table, and of each of its columns.
_TABLE, _COLUMN = 1024, 512


@dataclass(slots=True)
class _Partition:
    """What one partition has that is not in a finished file."""

    # The last one may be a slice of everything that was read with it: see `_own`.
    tables: list[pa.Table] = field(default_factory=list)
    weight: int = 0
    is_fresh: bool = False
    file: OpenFile | None = None
    size: int = 0


class PartitionFiles:
    """Takes rows by partition, and writes them to files of the sink."""

    def __init__(self, sink: FileSink) -> None:
        self._sink = sink
        # In the order of their latest rows: the first have waited longest.
        self._partitions: dict[Values, _Partition] = {}
        self._waiting = 0
        self._open = 0
        self._files = 0

    def take(self, parts: Iterable[tuple[Values, pa.Table]]) -> None:
        """Take what a piece of the input has for each partition."""
        fresh: list[_Partition] = []
        for values, rows in parts:
            fresh.append(self._add(values, rows))
            if self._waiting > WAITING:
                self._write_largest()
        # Let go of the piece itself.
        for partition in fresh:
            self._own(partition)
        if self._waiting > WAITING // 4:
            # Arrow's allocator keeps what it gets back, in sizes that are seldom asked for again.
            pa.default_memory_pool().release_unused()

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
        """Write the larger half of what waits: row groups are large, and this is seldom needed."""
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
        """Write a partition's waiting rows to its file."""
        partition = self._partitions[values]
        if partition.tables:
            rows = partition.tables[0]
            if len(partition.tables) > 1:
                rows = pa.concat_tables(partition.tables)
            self._waiting -= partition.weight
            partition.tables, partition.weight, partition.is_fresh = [], 0, False
            size = self._sink.group_rows(rows)
            for start in range(0, rows.num_rows, size):
                self._write(
                    partition, values, rows if size >= rows.num_rows else rows.slice(start, size)
                )

    def _write(self, partition: _Partition, values: Values, group: pa.Table) -> None:
        """Add a row group to a partition's file, which is finished once it is large enough."""
        if partition.file is None:
            partition.file = self._sink.begin(group.schema)
            self._files += 1
        partition.file.write(group)
        size = partition.file.size()
        self._open += size - partition.size
        partition.size = size
        if size >= self._sink.target_size:
            self._close(partition, values)

    def _close(self, partition: _Partition, values: Values) -> None:
        if partition.file is not None:
            file, partition.file = partition.file, None
            self._open -= partition.size
            self._files -= 1
            partition.size = 0
            self._sink.end(file, values)

    def _end(self, values: Values) -> None:
        """Finish a partition's file, including the rows that wait for it."""
        self._flush(values)
        self._close(self._partitions.pop(values), values)

    @staticmethod
    def _own(partition: _Partition) -> None:
        """Copy rows that are a slice, which would keep their whole piece in memory."""
        if partition.is_fresh and partition.tables:
            last = partition.tables[-1]
            # Combining two chunks copies them; a single one would not be copied.
            copied = pa.concat_tables([last, last.slice(0, 0)]).combine_chunks()
            partition.tables[-1] = copied
            partition.is_fresh = False
