"""Live files as a JSON array of adds, assembled column by column in Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.spark.native.file_transfer import escaped, joined, optional


def files_as_json(
    batches: Iterable[pa.RecordBatch], *, num_records: bool
) -> Iterator[bytes | memoryview]:
    """The array, piece by piece; of the stats, at most the number of records, if asked for."""
    before = b"["
    for batch in batches:
        if batch.num_rows:
            yield before
            yield joined(_render(batch, num_records=num_records))
            before = b","
    yield b"]" if before == b"," else b"[]"


def _render(batch: pa.RecordBatch, *, num_records: bool) -> pa.Array:
    parts: list[pa.Array | str] = [
        '{"path":"',
        escaped(batch.column("path")),
        '","partitionValues":',
        batch.column("partition_values"),
        ',"size":',
        batch.column("size").cast(pa.string()),
        ',"modificationTime":',
        batch.column("modification_time").cast(pa.string()),
        ',"dataChange":true',
        *optional(batch, "deletion_vector", "deletionVector"),
        *optional(batch, "tags", "tags"),
        *optional(batch, "base_row_id", "baseRowId"),
        *optional(batch, "default_row_commit_version", "defaultRowCommitVersion"),
        *_provider(batch),
        *(_records(batch) if num_records else []),
        "}",
    ]
    return pc.binary_join_element_wise(*parts, "")


def _provider(batch: pa.RecordBatch) -> list[pa.Array | str]:
    names = batch.column("clustering_provider")
    if names.null_count == len(names):
        return []
    texts = pc.binary_join_element_wise(',"clusteringProvider":"', escaped(names), '"', "")
    return [pc.fill_null(texts, "")]


def _records(batch: pa.RecordBatch) -> list[pa.Array | str]:
    counts = batch.column("num_records").cast(pa.string())
    texts = pc.binary_join_element_wise(',"stats":"{\\"numRecords\\":', counts, '}"', "")
    return [pc.fill_null(texts, "")]
