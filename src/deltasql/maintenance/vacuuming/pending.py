"""What an earlier vacuum recorded, checked anew.

The journal only says which files somebody meant to delete: writers may write to it, and the log may
have advanced since. Whether a file may be deleted, and what it is, is decided by the log, for the
key of the object that would be deleted: a path can be spelled in several ways.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from deltasql.maintenance.vacuuming.dead import NEVER, lives_of
from deltasql.maintenance.vacuuming.keys import Place, vector_path
from deltasql.maintenance.vacuuming.orphans import Layout
from deltasql.maintenance.vacuuming.report import Candidate
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore
from deltasql.store.upkeep.interface import JournalRow, Kind, PendingDelete

_THREADS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """What a vacuum checks files against: `horizon` for those that the log knows, `older_than`
    (epoch milliseconds) and the layout for those that it does not.
    """

    table_id: int
    tables: Collection[int]
    horizon: int
    older_than: int
    layout: Layout

    def may_go(
        self,
        store: LogStore,
        objects: ObjectStore,
        place: Place,
        pending: Sequence[PendingDelete],
    ) -> Iterator[tuple[PendingDelete, Candidate | None]]:
        """Each recorded file as a vacuum would find it now; None if it would not."""
        keys = [place.key_of(item.row.path) for item in pending]
        known = self._known(store, place, {key for key in keys if key is not None})
        unknown = [key for key in keys if key is not None and key not in known]
        ages = _modified(objects, unknown)
        for item, key in zip(pending, keys, strict=True):
            if key is None:
                yield item, None
            elif key in known:
                yield item, self._known_to_the_log(item.row, key, known[key])
            else:
                yield item, self._orphan(item, key, ages[key])

    def by_key(
        self, store: LogStore, place: Place, candidates: Sequence[Candidate]
    ) -> Iterator[Candidate]:
        """Those of the log's own files that may go by all the paths that name their objects."""
        if not candidates:
            return
        known = self._known(store, place, {candidate.key for candidate in candidates})
        for candidate in candidates:
            lives = known.get(candidate.key)
            found = lives and self._known_to_the_log(candidate.row, candidate.key, lives)
            if found:
                yield found

    def _known(self, store: LogStore, place: Place, keys: set[str]) -> dict[str, _Lives]:
        found: dict[str, _Lives] = {}
        for table_id in self.tables:
            for batch in store.file_lives(table_id):
                for row in batch.to_pylist():
                    vector = row["deletion_vector"]
                    named = [(row["path"], Kind.CHANGE if row["is_change"] else Kind.DEAD)]
                    if vector is not None and (path := vector_path(vector)) is not None:
                        named.append((path, Kind.VECTOR))
                    for path, kind in named:
                        key = place.key_of(path)
                        if key in keys:
                            lives = found.setdefault(key, _Lives())
                            lives.add(kind, lives_of([row]), is_own=table_id == self.table_id)
        return found

    def _known_to_the_log(self, row: JournalRow, key: str, lives: _Lives) -> Candidate | None:
        # No writer makes a file of two kinds at once.
        if lives.is_live_elsewhere or len(lives.own) != 1:
            return None
        ((kind, found),) = lives.own.items()
        if kind is Kind.CHANGE:
            is_needed = any(version > self.horizon for version, _ in found)
        else:
            is_needed = any(end > self.horizon for _, end in found)
        if is_needed:
            return None
        return Candidate(key, JournalRow(row.path, kind, row.size), tuple(found))

    def _orphan(self, item: PendingDelete, key: str, modified: int | None) -> Candidate | None:
        if not self.layout.has(key):
            return None
        if modified is not None and modified >= self.older_than:
            return None
        row = JournalRow(item.row.path, Kind.ORPHAN, item.row.size)
        return Candidate(key, row, modified=modified)


@dataclass(slots=True)
class _Lives:
    own: dict[Kind, list[tuple[int, int]]] = field(default_factory=dict)
    is_live_elsewhere: bool = False

    def add(self, kind: Kind, lives: Collection[tuple[int, int]], *, is_own: bool) -> None:
        if is_own:
            self.own.setdefault(kind, []).extend(lives)
        elif any(end == NEVER for _, end in lives):
            self.is_live_elsewhere = True


def _modified(objects: ObjectStore, keys: Sequence[str]) -> Mapping[str, int | None]:
    """When the objects were last written; None for those that are gone."""
    with ThreadPoolExecutor(_THREADS) as threads:
        infos = list(threads.map(objects.head, keys))
    return {
        key: None if info is None else info.modified for key, info in zip(keys, infos, strict=True)
    }
