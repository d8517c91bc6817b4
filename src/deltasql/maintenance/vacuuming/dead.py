"""Files that the log knows but no version within the retention has: SQL says which.

Finding them needs no listing. A path may have several rows, one for each deletion vector it had,
and a file may hold the vectors of many; it is deleted when none of them is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

from deltasql.maintenance.vacuuming.keys import Place, vector_path
from deltasql.maintenance.vacuuming.report import Candidate
from deltasql.spec.paths import is_elsewhere
from deltasql.store.interface import LogStore
from deltasql.store.upkeep.interface import JournalRow, Kind

# The end version of files that are still live.
NEVER = 2**63 - 1


def dead_files(
    store: LogStore, table_id: int, place: Place, *, horizon: int
) -> Iterator[Candidate]:
    """Data files that were removed by the version `horizon` or an earlier one."""
    rows = (
        row for batch in store.dead_files(table_id, horizon=horizon) for row in batch.to_pylist()
    )
    for path, group in groupby(rows, key=lambda row: row["path"]):
        key = place.key_of(path)
        if key is None:
            continue
        found = list(group)
        size = max((row["size_bytes"] or 0 for row in found), default=0)
        yield Candidate(key, JournalRow(path, Kind.DEAD, size), lives_of(found))


def vector_files(
    store: LogStore, table_id: int, place: Place, *, horizon: int
) -> Iterator[Candidate]:
    """Files of deletion vectors that no row after `horizon` refers to."""
    lives: dict[str, list[tuple[int, int]]] = {}
    for batch in store.vector_rows(table_id):
        for row in batch.to_pylist():
            path = vector_path(row["deletion_vector"])
            if path is not None and not is_elsewhere(path):
                lives.setdefault(path, []).extend(lives_of([row]))
    if not lives:
        return
    deleted = _deleted(store, table_id)
    for path, found in lives.items():
        key = place.key_of(path)
        needed = any(end > horizon for _, end in found)
        if key is not None and not needed and path not in deleted:
            yield Candidate(key, JournalRow(path, Kind.VECTOR), tuple(found))


def change_files(
    store: LogStore, table_id: int, place: Place, *, horizon: int, pins: Collection[int]
) -> Iterator[Candidate]:
    """Change files from before the retention; a pinned version keeps its own and later ones."""
    newest = min([horizon, *(version - 1 for version in pins)])
    deleted: Collection[str] | None = None
    for batch in store.change_rows(table_id):
        for row in batch.to_pylist():
            if row["version"] > newest:
                continue
            if deleted is None:
                deleted = _deleted(store, table_id)
            path = row["path"]
            key = place.key_of(path)
            if key is not None and path not in deleted:
                since = (row["version"], row["version"] + 1)
                yield Candidate(key, JournalRow(path, Kind.CHANGE, row["size_bytes"]), (since,))


def encoded_keys(store: LogStore, tables: Iterable[int], place: Place) -> set[str]:
    """The keys whose paths can be spelled in other ways: some path of theirs has an escape."""
    return {
        key
        for table_id in tables
        for batch in store.encoded_paths(table_id)
        for path in batch.column("path").to_pylist()
        if (key := place.key_of(path)) is not None
    }


def lives_of(rows: list[dict[str, Any]]) -> tuple[tuple[int, int], ...]:
    """From which version until which; files from before our time may be as old as the table."""
    return tuple(
        (
            -1 if row["version"] is None else row["version"],
            NEVER if row["removed_version"] is None else row["removed_version"],
        )
        for row in rows
    )


def _deleted(store: LogStore, table_id: int) -> set[str]:
    return {
        path for batch in store.deleted_paths(table_id) for path in batch.column("path").to_pylist()
    }
