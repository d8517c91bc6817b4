"""The rows of a set of data files, as Arrow batches in the table's logical schema."""

from __future__ import annotations

import difflib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice

import pyarrow as pa

from deltasql.data.layout import physical_schema
from deltasql.data.reading.scan import Scan, scan_file
from deltasql.errors import ValidationError
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.predicates.predicate import columns as predicate_columns
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.schema import StructType

# Small files are read ahead whole; large ones stream in turn, so that memory is bounded.
_AHEAD = 4
_SMALL_FILE = 8 << 20


def read_files(
    objects: ObjectStore,
    files: Iterable[AddFile],
    *,
    schema: StructType,
    partition_columns: Sequence[str] = (),
    column_mapping: str = "none",
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    batch_size: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The live rows of the files, in their order, that satisfy a bound predicate.

    `columns` chooses and orders top-level columns; None means all of them.
    """
    physical = physical_schema(schema, column_mapping)
    asked = _asked_for(physical, columns)
    used = {path[0] for path in predicate_columns(predicate)} if predicate is not None else set()
    others = used - set(asked)
    scan = Scan.of(
        physical,
        columns=asked,
        extra=[item.name for item in physical.fields if item.name in others],
        partition_columns=partition_columns,
        mode=column_mapping,
        predicate=predicate,
        batch_size=batch_size,
    )
    return read_ahead(objects, iter(files), lambda add: scan_file(objects, add, scan))


def output_schema(schema: StructType, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of the batches that `read_files` yields, even if there are none."""
    from deltasql.data.arrow_schema import to_arrow

    asked = _asked_for(schema, columns)
    by_name = {item.name: item for item in schema.fields}
    return to_arrow(StructType(tuple(by_name[name] for name in asked)))


def _asked_for(schema: StructType, columns: Sequence[str] | None) -> list[str]:
    names = [item.name for item in schema.fields]
    if columns is None:
        return names
    found: list[str] = []
    for name in columns:
        item = schema.field(name)
        if item is None:
            close = difflib.get_close_matches(name, names, n=1)
            raise ValidationError(
                f"the table has no column {name!r}",
                cause=f"its columns are {', '.join(names)}",
                remedy=f"did you mean {close[0]!r}?" if close else "choose one of them",
            )
        if item.name in found:
            raise ValidationError(f"the column {item.name!r} is requested twice")
        found.append(item.name)
    return found


def read_ahead(
    objects: ObjectStore,
    files: Iterator[AddFile],
    rows: Callable[[AddFile], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """The rows of each file in turn; a few small files are read ahead."""
    first = list(islice(files, 2))
    if len(first) < 2:
        for add in first:
            yield from rows(add)
        return
    # A disk answers at once: more threads than cores would only wait for each other.
    threads = min(_AHEAD, os.cpu_count() or 1) if objects.is_local else _AHEAD
    with ThreadPoolExecutor(threads, thread_name_prefix="deltasql-read") as pool:
        yield from _ahead(chain(first, files), rows, pool)


def _ahead(
    files: Iterator[AddFile],
    rows: Callable[[AddFile], Iterator[pa.RecordBatch]],
    pool: ThreadPoolExecutor,
) -> Iterator[pa.RecordBatch]:
    waiting: deque[AddFile | Future[list[pa.RecordBatch]]] = deque()

    def fill() -> None:
        for add in islice(files, _AHEAD + 1 - len(waiting)):
            small = add.size <= _SMALL_FILE
            waiting.append(pool.submit(lambda item: list(rows(item)), add) if small else add)

    fill()
    try:
        while waiting:
            item = waiting.popleft()
            fill()
            if isinstance(item, AddFile):
                yield from rows(item)
            else:
                yield from item.result()
    finally:
        for left in waiting:
            if isinstance(left, Future):
                left.cancel()
