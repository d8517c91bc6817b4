"""Live files from SQL to the JVM: a JSON array of adds, which Jackson reads at once.

Through the gateway, a hundred thousand files take a second; as a local file, a quarter of that. The
text is assembled column by column in Arrow, not row by row in Python.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc

# What JSON requires to be escaped; paths are URIs and contain none of it, except from odd foreign
# writers.
_TO_ESCAPE = r'["\\\x00-\x1f]'
# Above every row id that was assigned, so that a commit assigns new ones.
_FIRST = 2**52
_ROWS_PER_FILE = 2**32


@contextmanager
def handed_over(batches: Iterable[pa.RecordBatch]) -> Iterator[Path]:
    """A local file with the array, without stats, for the duration of the block."""
    descriptor, name = tempfile.mkstemp(prefix="deltasql-files-", suffix=".json")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.writelines(files_as_json(batches))
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def files_as_json(
    batches: Iterable[pa.RecordBatch], *, num_records: bool = False
) -> Iterator[bytes | memoryview]:
    """The array, piece by piece; of the stats, at most the number of records, if asked for."""
    before = b"["
    for batch in batches:
        if batch.num_rows:
            yield before
            yield _joined(_render(batch, num_records=num_records))
            before = b","
    yield b"]" if before == b"," else b"[]"


def _render(batch: pa.RecordBatch, *, num_records: bool) -> pa.Array:
    parts: list[pa.Array | str] = [
        '{"path":"',
        _escaped(batch.column("path")),
        '","partitionValues":',
        batch.column("partition_values"),
        ',"size":',
        batch.column("size").cast(pa.string()),
        ',"modificationTime":',
        batch.column("modification_time").cast(pa.string()),
        ',"dataChange":true',
        *_optional(batch, "deletion_vector", "deletionVector"),
        *_optional(batch, "tags", "tags"),
        *_optional(batch, "base_row_id", "baseRowId"),
        *_optional(batch, "default_row_commit_version", "defaultRowCommitVersion"),
        *_provider(batch),
        *(_records(batch) if num_records else []),
        "}",
    ]
    return pc.binary_join_element_wise(*parts, "")


def _optional(batch: pa.RecordBatch, column: str, field: str) -> list[pa.Array | str]:
    """A field for those files that have it."""
    values = batch.column(column)
    if values.null_count == len(values):
        return []
    texts = pc.binary_join_element_wise(f',"{field}":', values.cast(pa.string()), "")
    return [pc.fill_null(texts, "")]


def _provider(batch: pa.RecordBatch) -> list[pa.Array | str]:
    names = batch.column("clustering_provider")
    if names.null_count == len(names):
        return []
    texts = pc.binary_join_element_wise(',"clusteringProvider":"', _escaped(names), '"', "")
    return [pc.fill_null(texts, "")]


def _records(batch: pa.RecordBatch) -> list[pa.Array | str]:
    counts = batch.column("num_records").cast(pa.string())
    texts = pc.binary_join_element_wise(',"stats":"{\\"numRecords\\":', counts, '}"', "")
    return [pc.fill_null(texts, "")]


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as they appear between quotes in JSON."""
    if not pc.any(pc.match_substring_regex(texts, _TO_ESCAPE)).as_py():
        return texts
    found = (None if text is None else orjson.dumps(text) for text in texts.to_pylist())
    return pa.array([text and text.decode()[1:-1] for text in found], pa.string())


def _joined(lines: pa.Array) -> memoryview:
    """All lines, separated by commas: the data of one string array, end to end."""
    # Each line begins with a comma; the first line's is dropped.
    parted = pc.binary_join_element_wise("", lines, ",")
    return memoryview(parted.buffers()[2])[1 : pc.sum(pc.binary_length(parted)).as_py()]


def with_row_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Files of a table that tracks its rows, each with a first row id: Delta reads none without.

    Those that a transaction has written get theirs when it commits.
    """
    ids = batch.column("base_row_id").to_pylist()
    if None not in ids:
        return batch
    found = [
        _FIRST + number * _ROWS_PER_FILE if value is None else value
        for number, value in enumerate(ids)
    ]
    versions = batch.column("default_row_commit_version").to_pylist()
    columns = {
        "base_row_id": found,
        "default_row_commit_version": [0 if value is None else value for value in versions],
    }
    for name, values in columns.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(
            place, batch.schema.field(place), pa.array(values, batch.schema.field(place).type)
        )
    return batch
