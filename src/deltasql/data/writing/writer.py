"""Arrow data into new Parquet files: what an append writes before it commits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.data.layout import Layout, check_conformed, to_physical
from deltasql.data.writing.footer_bounds import FooterBounds
from deltasql.data.writing.growing_buffer import GrowingBuffer
from deltasql.data.writing.lanes import FileSink, Lanes, OpenFile
from deltasql.data.writing.partition_files import PartitionFiles
from deltasql.data.writing.partitioning import Values, split
from deltasql.data.writing.properties import FileOptions, options_of
from deltasql.data.writing.repeating import repeating
from deltasql.data.writing.stats import Collector
from deltasql.errors import SchemaMismatchError
from deltasql.log.feed import CHANGE_FOLDER
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.store import Bytes
from deltasql.spec.actions import AddFile, PartitionValues
from deltasql.spec.partition_values import text_in
from deltasql.spec.paths import encode_path, hive_directory

MIB = 1 << 20
DEFAULT_FILE_SIZE = 128 * MIB
# How much of a stream is gathered before it is written as a row group, or split by partition, when
# it is in memory three times.
_GATHERED = 32 * MIB
_SPLIT = 16 * MIB
# Rows that are in memory anyway are split in larger pieces, for fewer files.
_PIECE = 256 * MIB
_ROW_GROUP = 64 * MIB
_ROW_GROUP_ROWS = 1 << 20
_UPLOADS = 8
# Finished files being uploaded, besides the first: a slow store makes the writer wait.
_UPLOAD_BYTES = DEFAULT_FILE_SIZE
# With this few rows neither a dictionary nor bounds besides those in the log pay off: making them
# is half of the work.
_FEW_ROWS = 64
# From this many rows on it pays to check which columns repeat their values.
_MANY_ROWS = 1 << 16
# A file that begins with this many bytes gets a buffer that is no larger than it.
_LARGE = MIB // 4
_SUFFIX = "-c000"
_ENDING = ".snappy.parquet"
_OPTIONS: dict[str, Any] = {
    "compression": "snappy",
    "version": "2.6",
    # Decimals in Spark's form; and the Arrow schema next to Parquet's would double small files.
    "store_decimal_as_integer": True,
    "store_schema": False,
}


class Naming(NamedTuple):
    """How new files are named: the beginning of their names, and their folder."""

    beginning: str
    folder: str = ""


PLAIN = FileOptions()
ROWS = Naming("part")
CHANGES = Naming("cdc", f"{CHANGE_FOLDER}/")


def write_files(
    objects: ObjectStore,
    *,
    layout: Layout,
    data: pa.Table | pa.RecordBatchReader,
    new_id: Callable[[], str],
    now_ms: Callable[[], int],
    options: FileOptions = PLAIN,
    naming: Naming = ROWS,
    abandon: Callable[[Sequence[str]], None] | None = None,
) -> list[AddFile]:
    """Write conformed data (see `conform`) as new files; returns their adds, uncommitted.

    If writing fails, `abandon` gets the paths of what may exist by then; without it, that is left
    to vacuum.
    """
    try:
        output = _Output(
            objects,
            layout=layout,
            new_id=new_id,
            now_ms=now_ms,
            options=options,
            naming=naming,
            abandon=abandon,
        )
        return output.write_all(data)
    except UnicodeDecodeError as error:
        raise SchemaMismatchError(
            "a string column holds bytes that are not UTF-8",
            cause=str(error),
            remedy="decode the strings properly, or make the column binary",
        ) from None


def write_partition(
    objects: ObjectStore,
    *,
    layout: Layout,
    groups: Iterable[pa.Table],
    partition_values: PartitionValues,
    new_id: Callable[[], str],
    now_ms: Callable[[], int],
    target_file_size: int,
    abandon: Callable[[Sequence[str]], None] | None = None,
) -> list[AddFile]:
    """Write row groups of one partition as they are stored (`to_physical`), in their order.

    They may have more columns than the layout, after its own. For `abandon` see `write_files`.
    """
    output = _Output(
        objects,
        layout=layout,
        new_id=new_id,
        now_ms=now_ms,
        options=FileOptions(target_file_size=target_file_size),
        naming=ROWS,
        abandon=abandon,
    )
    names = [item.physical_name for item in layout.partition]
    values = tuple(text_in(partition_values, name, file="that is rewritten") for name in names)
    return output.write_stored(groups, values)


class NewFile(Protocol):
    """A file that was written for a commit: of rows, of changes, or of a deletion vector."""

    @property
    def path(self) -> str:
        """Its path as the log writes it."""


def _chunks(data: pa.Table | pa.RecordBatchReader, piece: int | None) -> Iterator[pa.Table]:
    """The data as tables of bounded size; a table whose rows are not split stays as it is."""
    if isinstance(data, pa.Table):
        rows = data.num_rows
        most = rows
        if piece is not None and data.nbytes > piece:
            most = max(1, rows * piece // data.nbytes)
        for start in range(0, rows, most or 1):
            yield data if most == rows else data.slice(start, most)
        return
    most = _GATHERED if piece is None else _SPLIT
    batches: list[pa.RecordBatch] = []
    gathered = 0
    for batch in data:
        if not batch.num_rows:
            continue
        batches.append(batch)
        gathered += batch.nbytes
        if gathered >= most:
            yield pa.Table.from_batches(batches)
            batches, gathered = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


class _Output:
    """The files of one write."""

    def __init__(
        self,
        objects: ObjectStore,
        *,
        layout: Layout,
        new_id: Callable[[], str],
        now_ms: Callable[[], int],
        options: FileOptions,
        naming: Naming,
        abandon: Callable[[Sequence[str]], None] | None,
    ) -> None:
        self._layout = layout
        self._naming = naming
        self._abandon = abandon
        self._new_id = new_id
        self._now_ms = now_ms
        self._target = options.target_file_size or DEFAULT_FILE_SIZE
        self._ending, self._group_size = _ENDING, None
        self._options: dict[str, Any] | None = None
        if options.properties is not None:
            self._ending = options.properties.ending
            self._group_size = options.properties.row_group_size
            self._options = {**_OPTIONS, **options_of(options.properties, layout)}
        self._uploads = _Uploads(objects)
        self._files: list[AddFile] = []
        self._lock = Lock()
        sink = FileSink(
            begin=self._begin,
            end=self._end,
            group_rows=self._group_rows,
            target_size=self._target,
        )
        self._lanes = Lanes(sink)
        self._partitions = PartitionFiles(sink)

    def write_all(self, data: pa.Table | pa.RecordBatchReader) -> list[AddFile]:
        """Write the data; returns the adds of its files."""
        return self._finished(
            map(self._write, _chunks(data, _PIECE if self._layout.partition else None)), ()
        )

    def write_stored(self, groups: Iterable[pa.Table], values: Values) -> list[AddFile]:
        """Write the stored form of one partition's rows; returns the adds of its files."""
        return self._finished(map(partial(self._lanes.append, values=values), groups), values)

    def _finished(self, steps: Iterable[None], values: Values) -> list[AddFile]:
        try:
            deque(steps, maxlen=0)
            self._lanes.close(values)
            self._partitions.finish()
            self._uploads.finish()
        except BaseException as error:
            self._uploads.stop()
            # On Ctrl-C nothing is checked and nothing deleted: that is left to vacuum.
            if self._abandon is not None and isinstance(error, Exception):
                self._abandon([encode_path(key) for key in self._uploads.keys])
            raise
        return self._files

    def _write(self, table: pa.Table) -> None:
        check_conformed(table.schema, self._layout)
        if not self._layout.partition:
            self._lanes.append(to_physical(table, self._layout), ())
            return
        self._partitions.take(
            (values, to_physical(part, self._layout)) for values, part in split(table, self._layout)
        )

    def _begin(self, schema: pa.Schema) -> _OpenFile:
        return _OpenFile(self._layout, schema, self._options)

    def _group_rows(self, stored: pa.Table) -> int:
        return self._group_size or _group_rows(stored)

    def _end(self, file: OpenFile, values: Values) -> None:
        data, stats = file.finish()
        with self._lock:
            self._put(data, stats, values)

    def _put(self, data: pa.Buffer, stats: str, values: Values) -> None:
        number = f"{len(self._files):05d}-{self._new_id()}{_SUFFIX}"
        key = f"{self._naming.beginning}-{number}{self._ending}"
        partition: dict[str, str | None] = {}
        if values:
            names = [item.physical_name for item in self._layout.partition]
            partition = dict(zip(names, values, strict=True))
            key = f"{hive_directory(partition.items())}/{key}"
        key = self._naming.folder + key
        self._uploads.put(key, data)
        self._files.append(
            AddFile(
                path=encode_path(key),
                size=data.size,
                modification_time=self._now_ms(),
                partition_values=partition,
                stats=stats,
            )
        )


class _OpenFile:
    """A Parquet file being written, in memory: stores take whole objects."""

    __slots__ = ("_collector", "_footer", "_options", "_schema", "_sink", "_told", "_writer")

    def __init__(
        self, layout: Layout, schema: pa.Schema, options: dict[str, Any] | None = None
    ) -> None:
        self._schema = schema
        self._options = options
        self._sink: Any = None
        self._collector = Collector(layout.leaves)
        # With the caller's own options the footer may lack what it tells otherwise.
        self._told = FooterBounds(layout.leaves if options is None else ())
        self._footer: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            many = table.num_rows > _FEW_ROWS
            if not many:
                self._told = FooterBounds(())
            options = self._options
            if options is None:
                dictionaries = repeating(table) if table.num_rows > _MANY_ROWS else many
                options = {**_OPTIONS, "use_dictionary": dictionaries, "write_statistics": many}
            is_large = table.nbytes > _LARGE if many else False
            self._sink = GrowingBuffer() if is_large else pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, metadata_collector=self._footer, **options
            )
        self._collector.add(table, self._told.of(table))
        self._writer.write_table(table, row_group_size=table.num_rows)

    def size(self) -> int:
        return 0 if self._sink is None else int(self._sink.tell())

    def finish(self) -> tuple[pa.Buffer, str]:
        if self._writer is not None:
            self._writer.close()
            self._told.tell(self._footer[0], self._collector)
        return self._sink.getvalue(), self._collector.render()


def _group_rows(table: pa.Table) -> int:
    """How many rows make a row group."""
    if table.num_rows <= _FEW_ROWS:
        return max(1, int(table.num_rows))
    width = max(1, table.nbytes // table.num_rows)
    return int(max(1, min(_ROW_GROUP_ROWS, _ROW_GROUP // width)))


class _Uploads:
    """Uploads of whole files: a single one directly, of many a few at the same time."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.keys: list[str] = []
        self._held: tuple[str, Bytes] | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[tuple[int, Future[None]]] = deque()
        self._bytes = 0

    def put(self, key: str, data: Bytes) -> None:
        self.keys.append(key)
        if self._held is None and self._pool is None:
            # Only a second file is worth a thread.
            self._held = (key, data)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_UPLOADS, thread_name_prefix="deltasql-put")
        if self._held is not None:
            self._submit(*self._held)
            self._held = None
        self._submit(key, data)

    def _submit(self, key: str, data: Bytes) -> None:
        assert self._pool is not None
        size = len(data)
        while self._under_way and (
            len(self._under_way) >= _UPLOADS or self._bytes + size > _UPLOAD_BYTES
        ):
            done, future = self._under_way.popleft()
            self._bytes -= done
            future.result()
        self._bytes += size
        self._under_way.append((size, self._pool.submit(self._objects.put, key, data)))

    def finish(self) -> None:
        if self._held is not None:
            self._objects.put(*self._held)
        for _, future in self._under_way:
            future.result()
        if self._pool is not None:
            self._pool.shutdown()

    def stop(self) -> None:
        """Stop the uploads under way; the error that led here is the one to show."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
