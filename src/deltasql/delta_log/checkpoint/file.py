"""A Parquet file of actions, one per row, written row group by row group into a sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.delta_log.checkpoint.schema import leaf_paths

# More rows cost memory and gain neither time nor space; stats of wide tables are long, so whichever
# limit is reached first ends a row group.
ROW_GROUP_ROWS: Final = 8192
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024

# Columns whose values repeat from file to file; the others are as distinct as files are.
_REPEATING = (
    ".partitionValues.", ".partitionValues_parsed.", ".tags.", ".clusteringProvider",
    ".storageType", ".nullCount.",
)  # fmt: skip


class Sink(Protocol):
    """Where the bytes of an object go; the caller opens and closes it."""

    def write(self, data: bytes, /) -> Any:
        """Take the next bytes, all of them."""


class ActionFile:
    """A file being written; complete when its `with` block ends, without a footer if it fails."""

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        self.actions: Counter[str] = Counter()
        self._schema = schema
        self._nulls: dict[str, pa.Array] = {}
        self._stream = _Counted(sink)
        columns = list(leaf_paths(schema))
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression="snappy",
            use_dictionary=[path for path in columns if any(part in path for part in _REPEATING)],
            # Nobody searches by the text of stats; statistics of the other columns help readers to
            # skip.
            write_statistics=[path for path in columns if path != "add.stats"],
            # Decimals as in Spark; and no Arrow schema, since Parquet's own says everything.
            store_decimal_as_integer=True,
            store_schema=False,
        )

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Write one row group: an action per row, kind after kind."""
        present = {name: column for name, column in columns.items() if len(column)}
        rows = sum(map(len, present.values()))
        if not rows:
            return
        arrays = [self._column(item, present, rows) for item in self._schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._writer.write_batch(batch, row_group_size=rows)
        for name, column in present.items():
            self.actions[name] += len(column)
        # Arrow's allocator would keep this row group's memory, and take more for the next.
        pa.default_memory_pool().release_unused()

    def _column(self, item: pa.Field, present: Mapping[str, pa.Array], rows: int) -> pa.Array:
        if item.name not in present:
            return self._no(item, rows)
        if len(present) == 1:
            return present[item.name]
        return pa.concat_arrays(
            [
                column if name == item.name else self._no(item, len(column))
                for name, column in present.items()
            ]
        )

    def _no(self, item: pa.Field, rows: int) -> pa.Array:
        held = self._nulls.get(item.name)
        if held is None or len(held) < rows:
            held = self._nulls[item.name] = pa.nulls(rows, item.type)
        return held[:rows]

    @property
    def size_in_bytes(self) -> int:
        """How many bytes were written, so far or in total."""
        return self._stream.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is not None:
            # A footer would make half a checkpoint look whole.
            self._stream.discard()
        self._writer.close()


class _Counted:
    """A sink as the file object that pyarrow needs, which counts what it wrote."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._written = 0

    def write(self, data: bytes) -> int:
        if self._sink is not None:
            self._sink.write(data)
        self._written += len(data)
        return len(data)

    def discard(self) -> None:
        self._sink = None

    def tell(self) -> int:
        return self._written

    def flush(self) -> None: ...

    def close(self) -> None: ...


def portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that fit a row group and, except for the last, fill it."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            fit = _rows_that_fit(rest, ROW_GROUP_ROWS - rows, ROW_GROUP_BYTES - size)
            if fit or not held:
                piece = rest[: max(fit, 1)]
                held.append(piece)
                rows, size = rows + piece.num_rows, size + piece.nbytes
                rest = rest[piece.num_rows :]
            if rest.num_rows:
                full, held, rows, size = held, [], 0, 0
                yield _joined(full)
    if held:
        yield _joined(held)


def _rows_that_fit(batch: pa.RecordBatch, rows: int, size: int) -> int:
    count: int = batch.num_rows
    by_size = int(size * count / max(batch.nbytes, 1))
    return max(0, min(count, rows, by_size))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches into one; takes them from the list, so that both are not held for long."""
    joined = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    batches.clear()
    return joined
