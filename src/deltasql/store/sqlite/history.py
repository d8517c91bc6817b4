"""Loading histories into SQLite: rows bound by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from deltasql.store.history import HistoryRows
from deltasql.store.rows import AddRow, CommitRows, Row
from deltasql.store.sqlite.session import SqliteSession, prepare

_OTHERS: Final = {
    "txns_insert": "txns",
    "domains_insert": "domains",
    "cdc_insert": "cdc",
    "metadata_insert": "metadata",
    "protocol_insert": "protocol",
}
# The columns after the add in the row of a dead file.
_REMOVAL: Final = 4


def prepare_history(part: HistoryRows) -> HistoryRows:
    """The part with its lists as JSON."""
    adds = prepare(CommitRows(adds=[AddRow(*row[1:]) for row in part.adds])).adds
    dead = prepare(CommitRows(adds=[AddRow(*row[1:-_REMOVAL]) for row in part.dead])).adds
    return replace(
        part,
        adds=[(row[0], *add) for row, add in zip(part.adds, adds, strict=True)],
        dead=[(row[0], *add, *row[-_REMOVAL:]) for row, add in zip(part.dead, dead, strict=True)],
    )


def write_history(session: SqliteSession, table_id: int, part: HistoryRows) -> None:
    """Write a part, inside the open transaction."""
    place = (table_id,)
    _retire(session, table_id, part.retired)
    session.many("history_adds", (place + row for row in part.adds))
    session.many("history_dead", (place + row for row in part.dead))
    for name, kind in _OTHERS.items():
        found: list[Row] = getattr(part, kind)
        session.many(name, (place + row for row in found))
    session.many("partitions_insert", ((table_id, 0, *row) for row in part.partitions))
    session.many("history_version", ((table_id, *item[:10]) for item in part.versions))
    session.many(
        "history_status",
        (
            (table_id, item.version, item.checkpoint_written, item.in_commit_timestamp, item.digest)
            for item in part.versions
        ),
    )


def _retire(session: SqliteSession, table_id: int, retired: Sequence[Row]) -> None:
    removed = [(table_id, *row) for row in retired if row[-1] is not None]
    session.many("removed_unknown", removed)
    session.many("removed_keep", removed)
    session.many("removed_delete", ((table_id, *row[2:4]) for row in removed))
    restated = [(table_id, row[1], row[2], row[0]) for row in retired if row[-1] is None]
    session.many("restated_keep", restated)
    session.many("restated_delete", restated)
