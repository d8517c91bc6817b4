"""Loading histories into DuckDB, as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltasql.store.duckdb.session import TYPES, DuckdbSession
from deltasql.store.history import HistoryRows, LoadedVersion
from deltasql.store.rows import (
    ADD_COLUMNS,
    CDC_COLUMNS,
    DOMAIN_COLUMNS,
    METADATA_COLUMNS,
    PARTITION_COLUMNS,
    PROTOCOL_COLUMNS,
    REMOVE_COLUMNS,
    TXN_COLUMNS,
    Row,
)

_HISTORY_TYPES = {
    **TYPES,
    **dict.fromkeys(("version", "removed_version", "in_commit_timestamp"), pa.int64()),
    **dict.fromkeys(("remove_data_change", "is_blind_append", "checkpoint_written"), pa.bool_()),
    **dict.fromkeys(("digest", "body"), pa.binary()),
}
_DEAD = (
    *ADD_COLUMNS,
    "removed_version",
    "deletion_timestamp",
    "remove_data_change",
    "remove_action",
)
# Each kind's statements and columns, in the order of writing.
_KINDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "retired",
        ("history_unknown", "history_keep", "incoming_delete"),
        ("removed_version", *REMOVE_COLUMNS),
    ),
    ("adds", ("history_adds",), ("version", *ADD_COLUMNS)),
    ("dead", ("history_dead",), ("version", *_DEAD)),
    ("txns", ("history_txns",), ("version", *TXN_COLUMNS)),
    ("domains", ("history_domains",), ("version", *DOMAIN_COLUMNS)),
    ("cdc", ("history_cdc",), ("version", *CDC_COLUMNS)),
    ("metadata", ("history_metadata",), ("version", *METADATA_COLUMNS)),
    ("protocol", ("history_protocol",), ("version", *PROTOCOL_COLUMNS)),
    ("partitions", ("partitions_insert",), PARTITION_COLUMNS),
    ("versions", ("history_versions", "history_status"), LoadedVersion._fields),
)
PreparedHistory = Sequence[tuple[tuple[str, ...], pa.Table]]


def prepare_history(part: HistoryRows) -> PreparedHistory:
    """The rows of each kind as an Arrow table, with the statements that take it."""
    return [
        (statements, _to_table(columns, found))
        for kind, statements, columns in _KINDS
        if (found := getattr(part, kind))
    ]


def write_history(session: DuckdbSession, table_id: int, prepared: PreparedHistory) -> None:
    """Write a part, inside the open transaction."""
    for statements, table in prepared:
        session.write_incoming(statements, table, table_id=table_id)


def _to_table(columns: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    arrays = [
        pa.array(column, _HISTORY_TYPES.get(name, pa.string()))
        for name, column in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=list(columns))
