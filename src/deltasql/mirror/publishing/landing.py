"""How long versions took from their commit to the mirror, whichever process wrote them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Backlog
from deltasql.telemetry import metrics

# In one look; the rest follows in the next.
_MOST: Final = 1_000


class LandingWatch:
    """Looks at what SQL says of versions that have reached the mirror since it looked last.

    So writers' own publish runs count, late and retried ones, and version 0. By the database's
    clock alone: those of writers and workers may differ.
    """

    def __init__(self, log: LogStore) -> None:
        self._log = log
        # By table: the newest version that was counted, or was there in the beginning.
        self._seen: dict[int, int] | None = None

    def observe(self, found: Sequence[Backlog]) -> None:
        """Count what has landed. What landed before the first look is not counted."""
        newest = {
            item.table_id: item.head if item.first_version is None else item.first_version - 1
            for item in found
        }
        if self._seen is None:
            self._seen = newest
            return
        for table_id in self._seen.keys() - newest.keys():
            del self._seen[table_id]
        for table_id, version in newest.items():
            before = self._seen.get(table_id, -1)
            if version > before:
                self._seen[table_id] = self._count(table_id, before, version)

    def _count(self, table_id: int, before: int, version: int) -> int:
        landed = self._log.landed(table_id, after=before, upto=version, most=_MOST)
        for _, waited in landed:
            metrics.MIRROR_PUBLISH_LATENCY.observe(max(0, waited))
        return landed[-1][0] if len(landed) == _MOST else version
