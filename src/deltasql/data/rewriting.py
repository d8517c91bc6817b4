"""Rewrites live rows of several files of one partition, in their own order or another.

The rows are neither checked nor changed, so whatever new rows would need an engine for, such as
generated columns, is no obstacle. If the table tracks its rows, they keep their ids.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from deltasql.data.layout import Layout, layout_of, physical_schema, to_physical
from deltasql.data.reading.reader import DEFAULT_BATCH_SIZE
from deltasql.data.reading.scan import Scan, scan_file
from deltasql.data.row_ids import RowIds
from deltasql.data.writing.writer import write_partition
from deltasql.errors import UnsupportedFeatureError
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.features import FEATURES, needed_features, type_names
from deltasql.spec.schema import StructType

# A row group is written at this many bytes or rows.
_GROUP_BYTES: Final = 64 << 20
_GROUP_ROWS: Final = 1 << 20
_AHEAD: Final = 8
_SMALL_FILE: Final = 8 << 20
_SHARE_FILES: Final = 32
# No file is this large: everything that is rewritten becomes one file.
ONE_FILE: Final = 1 << 62

# The indices of rows in the order in which they are to be written.
Order = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new files, and how many rows were live in each of the old ones, in their order.

    `indices` are those of the rows in the order in which they were written; None if unchanged.
    """

    added: list[AddFile]
    row_counts: list[int]
    indices: pa.Array | None = None


class Rewriter:
    """Rewrites files of a table."""

    def __init__(
        self,
        objects: ObjectStore,
        state: TableState,
        *,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        must_be_rewritable(state)
        self._objects = objects
        self._layout: Layout = layout_of(state.metadata)
        self._ids = RowIds.of(state)
        self._new_id = new_id
        self._now_ms = now_ms
        physical = physical_schema(state.schema, state.column_mapping)
        fields = (*physical.fields, *self._ids.fields)
        self._columns = [item.name for item in physical.fields]
        self._scan = Scan.of(
            StructType(fields),
            columns=[item.name for item in fields],
            extra=(),
            partition_columns=state.partition_columns,
            mode=state.column_mapping,
            predicate=None,
            batch_size=DEFAULT_BATCH_SIZE,
        )

    def rewrite(
        self,
        files: Sequence[AddFile],
        *,
        order: Order | None = None,
        target_size: int = ONE_FILE,
        abandon: Callable[[Sequence[str]], None] | None = None,
        progress: Callable[[], None] = lambda: None,
    ) -> Rewritten:
        """Write the live rows of files of one partition as new files of about `target_size`.

        With an `order` all of them are held in memory, otherwise a few row groups at a time.
        `progress` is called from time to time.
        """
        counts: list[int] = []
        rows = self._counted(files, counts, progress)
        groups: Iterable[pa.Table] = _gathered(rows)
        indices = None
        if order is not None:
            groups, indices = self._ordered(groups, order, files, target_size)
        added = write_partition(
            self._objects,
            layout=self._layout,
            groups=(self._stored(group) for group in groups),
            partition_values=files[0].partition_values,
            new_id=self._new_id,
            now_ms=self._now_ms,
            target_file_size=target_size,
            abandon=abandon,
        )
        return Rewritten(added, counts, indices)

    def _ordered(
        self, groups: Iterable[pa.Table], order: Order, files: Sequence[AddFile], target_size: int
    ) -> tuple[Iterable[pa.Table], pa.Array | None]:
        gathered = list(groups)
        if not gathered:
            return (), None
        rows = pa.concat_tables(gathered)
        indices = order(rows)
        rows = rows.take(indices)
        # Row groups of equal size, four to a file of the target size: smaller groups skip better.
        size = sum(add.size for add in files)
        count = max(1, -(-size // target_size)) * 4
        step = max(1, -(-rows.num_rows // count))
        return (rows.slice(start, step) for start in range(0, rows.num_rows, step)), indices

    def _stored(self, rows: pa.Table) -> pa.Table:
        stored = to_physical(rows.select(self._columns), self._layout)
        for name in self._ids.names:
            stored = stored.append_column(pa.field(name, pa.int64()), rows.column(name))
        return stored

    def _counted(
        self, files: Sequence[AddFile], counts: list[int], progress: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        for batches in self._read(files):
            count = 0
            for batch in batches:
                count += batch.num_rows
                progress()
                yield batch
            counts.append(count)

    def _read(self, files: Sequence[AddFile]) -> Iterator[Iterable[pa.RecordBatch]]:
        """The rows of each file; small files are read ahead, large ones stream in turn."""
        left = _shares(files)
        waiting: deque[AddFile | Future[list[list[pa.RecordBatch]]]] = deque()
        # A disk answers at once: more threads than cores would only wait for each other.
        threads = min(_AHEAD, os.cpu_count() or 1) if self._objects.is_local else _AHEAD
        with ThreadPoolExecutor(threads, thread_name_prefix="deltasql-rewrite") as pool:

            def fill() -> None:
                for share in islice(left, 2 * threads - len(waiting)):
                    if isinstance(share, AddFile):
                        waiting.append(share)
                    else:
                        waiting.append(pool.submit(self._whole, share))

            fill()
            try:
                while waiting:
                    item = waiting.popleft()
                    fill()
                    if isinstance(item, AddFile):
                        yield self._rows(item)
                    else:
                        yield from item.result()
            finally:
                for future in waiting:
                    if isinstance(future, Future):
                        future.cancel()

    def _whole(self, files: Sequence[AddFile]) -> list[list[pa.RecordBatch]]:
        return [list(self._rows(add)) for add in files]

    def _rows(self, add: AddFile) -> Iterator[pa.RecordBatch]:
        batches = scan_file(self._objects, add, self._scan)
        return self._ids.filled(batches, add, self._objects) if self._ids.names else batches


def _shares(files: Iterable[AddFile]) -> Iterator[AddFile | list[AddFile]]:
    """What one thread reads at a time: a large file, or adjacent small ones.

    A task for every small file would take longer to hand over than to do.
    """
    held: list[AddFile] = []
    size = 0
    for add in files:
        is_large = add.size > _SMALL_FILE
        if held and (is_large or len(held) == _SHARE_FILES or size + add.size > _SMALL_FILE):
            yield held
            held, size = [], 0
        if is_large:
            yield add
        else:
            held.append(add)
            size += add.size
    if held:
        yield held


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows as tables of the size of a row group."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def must_be_rewritable(state: TableState) -> None:
    """Raise `UnsupportedFeatureError` unless files of the table can be rewritten."""
    cause = None
    for feature in sorted(needed_features(state.schema, state.properties)):
        if FEATURES[feature].append == "no":
            cause = f"the table has the feature {feature}: {FEATURES[feature].note}"
    if "variant" in type_names(state.schema):
        cause = "the schema has a column of type variant"
    if state.has_row_ids and state.column_mapping == "id":
        cause = "the table tracks its rows and maps its columns by id, and row ids have no field id"
    if cause is not None:
        raise UnsupportedFeatureError(
            "files of this table can't be rewritten without Spark",
            cause=cause,
            remedy="use Spark's OPTIMIZE (see docs/features.md)",
        )
