"""Pages of live files, with and without a predicate, in one fixed order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import pyarrow as pa

from deltasql.lake.catalog import Lake
from deltasql.lake.snapshot import Snapshot
from deltasql.store.browsing.interface import ListedFile
from deltasql.store.rows import key_of

_COLUMNS = ("path", "size", "modification_time", "partition_values", "stats", "num_records",
            "deletion_vector", "version")  # fmt: skip
SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modification_time", pa.int64()),
        ("partition_values", pa.string()),
        ("stats", pa.string()),
        ("num_records", pa.int64()),
        ("deletion_vector", pa.string()),
        ("version", pa.int64()),
    ]
)


def page_of_files(
    lake: Lake,
    table_id: int,
    snapshot: Snapshot,
    *,
    where: str | None = None,
    after: str = "",
    most: int = 100,
) -> tuple[list[ListedFile], bool]:
    """Files of a snapshot after a path, and whether there are more.

    With a predicate, all files that may match are examined, and a few of them kept.
    """
    if where is None:
        found = lake.store.browse_files(table_id, snapshot.version, after=after, most=most + 1)
    else:
        bound = key_of(after)
        matching = (item for item in _matching(snapshot, where) if key_of(item.path) > bound)
        found = heapq.nsmallest(most + 1, matching, key=lambda item: key_of(item.path))
    return found[:most], len(found) > most


def _matching(snapshot: Snapshot, where: str) -> Iterator[ListedFile]:
    for batch in snapshot.file_batches(where):
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for row in zip(*columns, strict=True):
            yield ListedFile(*row)


def as_arrow(files: Sequence[ListedFile], following: str | None) -> bytes:
    """Files as a stream in Arrow's IPC format; its metadata has the next page's `after`."""
    schema = SCHEMA if following is None else SCHEMA.with_metadata({"next": following})
    columns = [
        pa.array([getattr(item, name) for item in files], SCHEMA.field(name).type)
        for name in _COLUMNS
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    return bytes(sink.getvalue())
