"""The mirror as read by an independent reader that shares no code with us, if one is installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from deltasql.errors import MirrorError


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentView:
    """What that reader found at a version: sizes by path, and the table's metadata."""

    reader: str
    sizes: Mapping[str, int]
    table_id: str
    columns: tuple[str, ...]
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    protocol: tuple[int, int]


def independent_view(
    location: str, version: int, options: Mapping[str, str]
) -> IndependentView | None:
    """The table as delta-rs reads it; None if that is not installed."""
    try:
        import deltalake
    except ImportError:
        return None
    try:
        table = deltalake.DeltaTable(location, version=version, storage_options=dict(options))
        files = pa.table(table.get_add_actions())
        metadata, protocol = table.metadata(), table.protocol()
        columns = tuple(field.name for field in table.schema().fields)
    except Exception as error:
        # Its layers may raise anything; a reader that gives up is a finding, not a crash.
        raise MirrorError(
            "delta-rs can't read the mirror",
            cause=(str(error).splitlines() or [type(error).__name__])[0],
            remedy="see the cause; a feature that delta-rs lacks is no drift",
        ) from error
    paths, sizes = files.column("path").to_pylist(), files.column("size_bytes").to_pylist()
    return IndependentView(
        reader=f"deltasql, delta-rs {deltalake.__version__}",
        sizes=dict(zip(paths, sizes, strict=True)),
        table_id=str(metadata.id),
        columns=columns,
        partition_columns=tuple(metadata.partition_columns),
        properties=metadata.configuration,
        protocol=(protocol.min_reader_version, protocol.min_writer_version),
    )
