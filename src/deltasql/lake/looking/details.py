"""What a table is, at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow.compute as pc

from deltasql.lake.snapshot import Snapshot
from deltasql.log.timestamps import from_ms
from deltasql.mirror.released import is_released


def detail_of(
    snapshot: Snapshot, name: str, location: str, sources: Iterable[str]
) -> dict[str, Any]:
    """See `Table.detail`."""
    files, metadata = snapshot.files(), snapshot.metadata
    created = metadata.created_time
    return {
        "format": "delta",
        "id": metadata.id,
        "name": name,
        "description": metadata.description,
        "location": location,
        "sources": list(sources),
        "createdAt": None if created is None else from_ms(created),
        "lastModified": snapshot.timestamp,
        "partitionColumns": list(metadata.partition_columns),
        "numFiles": files.num_rows,
        "sizeInBytes": pc.sum(files.column("size")).as_py() or 0,
        "properties": dict(metadata.configuration),
        "minReaderVersion": snapshot.protocol.min_reader_version,
        "minWriterVersion": snapshot.protocol.min_writer_version,
        "tableFeatures": sorted(snapshot.state.reader_features | snapshot.state.writer_features),
    }


def kind_of(read_only_reason: str | None) -> str:
    """See `Table.kind`."""
    if read_only_reason is None:
        return "live"
    return "released" if is_released(read_only_reason) else "read-only"
