"""One data file as batches of the table's logical columns."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.reading.deletion import RowDeleter, deleted_rows, find_object
from deltasql.data.reading.file_columns import column_rules
from deltasql.data.reading.footer import ParquetFile, open_parquet
from deltasql.data.reading.row_filter import row_mask
from deltasql.data.reading.row_groups import matching_row_groups
from deltasql.data.reshape import ReshapeError, reshape
from deltasql.errors import LogFormatError, StoreError, UnsupportedFeatureError
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.pruning.files import Match, Pruner
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.partition_values import parse_value, text_in
from deltasql.spec.schema import Primitive, StructField, StructType

# Spark before 3.0 wrote old dates in another calendar; files that still do are marked.
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_LEGACY_BEFORE = {"date": -141_427, "timestamp": -2_208_988_800_000_000}
# On small files threads cost more than they gain.
_THREADS_FROM = 4 << 20
_BATCH_ROWS = 1 << 16
# A small file is read ahead whole: in pieces it would only take more time and memory.
_SMALL_FILE, _SMALL_BATCH_ROWS = 8 << 20, 1 << 18
# The column with a row's physical place in its file, if it is requested.
ROW = "__deltasql_row"
_PLACE = pa.field(ROW, pa.int64())


@dataclass(frozen=True, slots=True)
class Scan:
    """What to read of every file. `needed` are the requested columns and the predicate's.

    If rows are `placed`, their place in the file is the last column. Without a `batch_size`, it
    depends on the file.
    """

    needed: StructType
    arrow: pa.Schema
    output: pa.Schema
    partition: frozenset[str]
    mode: str
    predicate: Predicate | None
    pruner: Pruner | None
    batch_size: int | None = None
    placed: bool = False

    @classmethod
    def of(
        cls,
        schema: StructType,
        *,
        columns: Sequence[str],
        extra: Sequence[str],
        partition_columns: Sequence[str],
        mode: str,
        predicate: Predicate | None,
        batch_size: int | None = None,
        placed: bool = False,
    ) -> Scan:
        """A scan for `columns`, in that order; `extra` are only for the predicate."""
        by_name = {item.name: item for item in schema.fields}
        needed = StructType(tuple(by_name[name] for name in (*columns, *extra)))
        arrow = to_arrow(needed)
        return cls(
            needed=needed,
            arrow=arrow,
            output=pa.schema([arrow.field(index) for index in range(len(columns))]),
            partition=frozenset(name.lower() for name in partition_columns),
            mode=mode,
            predicate=predicate,
            pruner=None if predicate is None else Pruner(predicate, schema, partition_columns),
            batch_size=batch_size,
            placed=placed,
        )


def scan_file(
    objects: ObjectStore,
    add: AddFile,
    scan: Scan,
    *,
    without: array[int] | None = None,
    only: array[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The file's live rows that satisfy the predicate, in the file's order.

    `without` are the rows to leave out, instead of those of the deletion vector; `only` are live
    rows, and nothing else is read. Both are ascending.
    """
    store, key = find_object(objects, add.path)
    with store.open_input(key, size=add.size or None) as source:
        try:
            # Reading ahead takes another thread; by then a small local file has been read.
            ahead = not store.is_local or add.size >= _THREADS_FROM
            file = open_parquet(source, coerce_int96_timestamp_unit="us", pre_buffer=ahead)
            deleted = without
            if without is None and only is None:
                deleted = _deleted(objects, add, file.metadata.num_rows)
            yield from _Reading(file, add, scan, only).batches(deleted)
        except ReshapeError as error:
            raise LogFormatError(
                f"the column {error.where!r} of {add.path} does not fit the table's schema",
                cause=error.reason,
                remedy="restore the data file, or rewrite it with the table's types",
            ) from None
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedFeatureError(
                f"the file {add.path} can't be read",
                cause=str(error),
                remedy="rewrite it with an engine that reads it",
            ) from None
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise LogFormatError(
                f"the file {add.path} is damaged, or not Parquet",
                cause=str(error),
                remedy="restore it from a copy",
            ) from None
        except MemoryError as error:
            # Arrow's, before the machine has none left; what was asked for is not taken.
            raise StoreError(
                f"the rows of {add.path} don't fit into memory",
                cause=str(error) or "there is no more",
                remedy="choose fewer columns, or give the process more memory; a small file can "
                "hold a long text for very many rows",
                path=add.path,
                is_refusal=True,
            ) from None
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"can't read the file {add.path}",
                cause=str(error),
                remedy="restore it from a copy if it is damaged, or try again",
            ) from None


def _deleted(objects: ObjectStore, add: AddFile, rows: int) -> array[int] | None:
    vector = add.deletion_vector
    return None if vector is None else deleted_rows(objects, vector, rows=rows, path=add.path)


class _Reading:
    """One file being read."""

    def __init__(
        self, file: ParquetFile, add: AddFile, scan: Scan, only: array[int] | None = None
    ) -> None:
        self._only = only
        self._file = file
        self._add = add
        self._scan = scan
        self._fields = list(file.schema_arrow)
        self._rules = column_rules(scan.mode, self._fields, add.path)
        self._legacy = any(key in (file.metadata.metadata or {}) for key in _LEGACY)
        self._constants = _constants(add, scan)
        self._predicate = scan.predicate
        if scan.pruner is not None:
            found = scan.pruner.match(partition_values=add.partition_values)
            self._predicate = None if found is Match.ALL else scan.predicate
        stored = [item for item in scan.needed.fields if item.name not in self._constants]
        indexes = self._rules.match(self._fields, stored, "")
        self._source = {
            item.name: self._fields[index].name
            for item, index in zip(stored, indexes, strict=True)
            if index >= 0
        }

    def batches(self, deleted: array[int] | None) -> Iterator[pa.RecordBatch]:
        rows = self._file.metadata.num_rows
        deleter = None
        if deleted is not None:
            deleter = RowDeleter(deleted, rows=rows, path=self._add.path)
        for start, count, raw in self._raw():
            if self._only is not None and not self._has_wanted(start, count):
                continue
            batch = self._logical(raw, count)
            if self._scan.placed:
                batch = batch.append_column(ROW, pa.arange(start, start + count))
            batch = self._live(batch, deleter, start)
            if self._predicate is not None and batch.num_rows:
                batch = _kept(batch, row_mask(self._predicate, batch))
            if batch.num_rows:
                yield self._asked_for(batch)

    def _live(
        self, batch: pa.RecordBatch, deleter: RowDeleter | None, start: int
    ) -> pa.RecordBatch:
        if self._only is not None:
            first = bisect_left(self._only, start)
            last = bisect_left(self._only, start + batch.num_rows, first)
            if last - first == batch.num_rows:
                return batch
            buffers = [None, pa.py_buffer(self._only[first:last])]
            wanted = pa.Array.from_buffers(pa.uint64(), last - first, buffers)
            return batch.take(pc.subtract(wanted, pa.scalar(start, pa.uint64())))
        mask = None if deleter is None else deleter.keep_mask(start, batch.num_rows)
        return batch if mask is None else batch.filter(mask)

    def _has_wanted(self, start: int, count: int) -> bool:
        if self._only is None:
            return True
        first = bisect_left(self._only, start)
        return first < len(self._only) and self._only[first] < start + count

    def _raw(self) -> Iterator[tuple[int, int, pa.RecordBatch | None]]:
        """Physical rows as (first index, count, columns); whole row groups may be left out."""
        metadata, names = self._file.metadata, sorted(set(self._source.values()))
        wanted = matching_row_groups(
            self._file,
            pruner=None if self._predicate is None else self._scan.pruner,
            partition_values=self._add.partition_values,
            columns=self._prunable(),
        )
        start = 0
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            if group in wanted and self._has_wanted(start, count):
                yield from self._group(group, start, count, names)
            start += count

    def _group(
        self, group: int, start: int, count: int, names: list[str]
    ) -> Iterator[tuple[int, int, pa.RecordBatch | None]]:
        size, end = self._batch_rows(), start + count
        if not names:
            for at in range(start, end, size):
                yield at, min(size, end - at), None
            return
        threads = self._add.size >= _THREADS_FROM
        for batch in self._file.iter_batches(
            size, row_groups=[group], columns=names, use_threads=threads
        ):
            yield start, batch.num_rows, batch
            start += batch.num_rows
        if start != end:
            raise pa.ArrowInvalid(f"row group {group} does not have the rows that its footer says")

    def _batch_rows(self) -> int:
        if self._scan.batch_size is not None:
            return self._scan.batch_size
        return _SMALL_BATCH_ROWS if self._add.size <= _SMALL_FILE else _BATCH_ROWS

    def _prunable(self) -> dict[str, tuple[str, ...]]:
        """File columns of exactly the table's type, and their paths in stats."""
        types = {item.name: item.type for item in self._fields}
        return {
            self._source[item.name]: (item.physical_name,)
            for item, wanted in zip(self._scan.needed.fields, self._scan.arrow, strict=True)
            if item.name in self._source and types[self._source[item.name]] == wanted.type
        }

    def _logical(self, raw: pa.RecordBatch | None, count: int) -> pa.RecordBatch:
        columns = []
        for item, wanted in zip(self._scan.needed.fields, self._scan.arrow, strict=True):
            if item.name in self._constants:
                column = pa.repeat(self._constants[item.name], count)
            elif raw is None or item.name not in self._source:
                column = pa.nulls(count, wanted.type)
            else:
                column = reshape(
                    self._column(raw, item),
                    item.type,
                    wanted.type,
                    rules=self._rules,
                    where=item.name,
                )
                if self._legacy:
                    _refuse_old_dates(column, item, self._add.path)
            columns.append(column)
        return _batch(columns, self._scan.arrow, count)

    def _column(self, raw: pa.RecordBatch, item: StructField) -> pa.Array:
        index = raw.schema.get_field_index(self._source[item.name])
        if index < 0:
            raise ReshapeError(item.name, "the file has several columns of that name")
        return raw.column(index)

    def _asked_for(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        asked = self._scan.output
        if len(asked) + self._scan.placed == batch.num_columns:
            return batch
        chosen = batch.columns[: len(asked)]
        if self._scan.placed:
            asked, chosen = asked.append(_PLACE), [*chosen, batch.columns[-1]]
        return _batch(chosen, asked, batch.num_rows)


def _kept(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of a mask; a filter would copy even those that all stay."""
    return batch if mask.true_count == len(mask) else batch.filter(mask)


def _batch(columns: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """A batch that keeps its number of rows even without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    rows = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(rows)


def _constants(add: AddFile, scan: Scan) -> Mapping[str, pa.Scalar]:
    """The partition columns' values: from the log, whatever the directories say."""
    found = {}
    for item, wanted in zip(scan.needed.fields, scan.arrow, strict=True):
        if item.name.lower() not in scan.partition or not isinstance(item.type, Primitive):
            continue
        text = text_in(add.partition_values, item.physical_name, file=add.path)
        found[item.name] = pa.scalar(parse_value(text, item.type), wanted.type)
    return found


def _refuse_old_dates(column: pa.Array, item: StructField, path: str) -> None:
    limit = _LEGACY_BEFORE.get(item.type.name) if isinstance(item.type, Primitive) else None
    if limit is None:
        return
    least = pc.min(column.view(pa.int32() if item.type == Primitive("date") else pa.int64()))
    if least.is_valid and least.as_py() < limit:
        raise UnsupportedFeatureError(
            f"the column {item.name!r} of {path} has old dates in Spark's legacy calendar",
            cause="the file is marked org.apache.spark.legacyDateTime",
            remedy="rewrite the file with Spark 3 or later",
        )
