"""Conversion of live files between Arrow, as in snapshots, and add actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.spec import codec
from deltasql.spec.actions import AddFile
from deltasql.spec.codec import wire_fields
from deltasql.store.rows import FILES_SCHEMA


def from_batch(batch: pa.RecordBatch) -> Iterator[AddFile]:
    """The adds in a batch of `FILES_SCHEMA`."""
    for row in batch.to_pylist():
        vector = row["deletion_vector"]
        yield AddFile(
            path=row["path"],
            size=row["size"],
            modification_time=row["modification_time"],
            partition_values=codec.load_partition_values(row["partition_values"]),
            data_change=row["data_change"],
            stats=row["stats"],
            tags=_object(row["tags"], "tags"),
            deletion_vector=None if vector is None else codec.vector_from_wire(codec.loads(vector)),
            base_row_id=row["base_row_id"],
            default_row_commit_version=row["default_row_commit_version"],
            clustering_provider=row["clustering_provider"],
            extra=_object(row["extra"], "further fields") or {},
        )


def to_table(adds: Iterable[AddFile], *, version: int = -1) -> pa.Table:
    """Adds as a table of `FILES_SCHEMA`."""
    return pa.Table.from_pylist([_row(add, version) for add in adds], schema=FILES_SCHEMA)


def _row(add: AddFile, version: int) -> dict[str, Any]:
    vector = add.deletion_vector
    return {
        "path": add.path,
        "size": add.size,
        "modification_time": add.modification_time,
        "partition_values": codec.dumps(add.partition_values).decode(),
        "stats": add.stats,
        "deletion_vector": None if vector is None else codec.dumps(wire_fields(vector)).decode(),
        "num_records": record_count(load_stats(add.stats)),
        "data_change": add.data_change,
        "tags": None if add.tags is None else codec.dumps(add.tags).decode(),
        "base_row_id": add.base_row_id,
        "default_row_commit_version": add.default_row_commit_version,
        "clustering_provider": add.clustering_provider,
        "version": version,
        "extra": codec.dumps(add.extra).decode() if add.extra else None,
    }


def _object(text: str | None, what: str) -> dict[str, Any] | None:
    return None if text is None else codec.load_object(text, what=what)
