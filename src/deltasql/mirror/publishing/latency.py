"""How long versions took from commit to mirror, whichever process wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from deltasql.store.interface import LogStore
from deltasql.store.mirroring.interface import Backlog
from deltasql.telemetry import metrics

# Per look; the next one takes the rest.
_MOST: Final = 1_000
# Commits may become visible in a different order than their times suggest.
_MARGIN_MS: Final = 60_000


class LatencyWatch:
    """Observes in SQL which versions have reached the mirror since the last look.

    So it covers the publish runs of writers, late and retried ones, and version 0. It uses the
    database's clock alone, because those of writers and workers may differ.
    """

    def __init__(self, log: LogStore) -> None:
        self._log = log
        # By table: its newest version, and the newest one that was counted or existed at the start.
        self._heads: dict[int, int] = {}
        self._seen: dict[int, int] | None = None
        # The tables with versions that were not counted yet.
        self._waiting: set[int] = set()
        self._since = -1

    def observe(self, found: Sequence[Backlog], *, is_whole: bool = True) -> None:
        """Count what has landed. What landed before the first look is not counted.

        A look at the whole lake also finds what was committed while the clock had gone back.
        """
        is_first = self._seen is None
        since = -1 if is_first or is_whole else self._since - _MARGIN_MS
        changed = self._log.mirror_heads(since=since)
        self._since = max((at for _, _, at in changed), default=self._since)
        self._heads.update((table_id, version) for table_id, version, _ in changed)
        first = {item.table_id: item.first_version for item in found}
        if self._seen is None:
            self._seen = {t: self._newest(t, first) for t in self._heads}
            self._waiting = {t for t, version in self._seen.items() if version < self._heads[t]}
            return
        if is_whole:
            for table_id in self._heads.keys() - {table_id for table_id, _, _ in changed}:
                del self._heads[table_id]
                self._seen.pop(table_id, None)
                self._waiting.discard(table_id)
        for table_id in {*self._waiting, *(table_id for table_id, _, _ in changed)}:
            before, version = self._seen.get(table_id, -1), self._newest(table_id, first)
            if version > before:
                self._seen[table_id] = before = self._count(table_id, before, version)
            is_over = before >= self._heads[table_id]
            (self._waiting.discard if is_over else self._waiting.add)(table_id)

    def _newest(self, table_id: int, first: Mapping[int, int | None]) -> int:
        """The newest version in the mirror, given the first one missing there."""
        missing = first.get(table_id)
        return self._heads[table_id] if missing is None else missing - 1

    def _count(self, table_id: int, before: int, version: int) -> int:
        landed = self._log.landed(table_id, after=before, upto=version, most=_MOST)
        for _, waited in landed:
            metrics.MIRROR_PUBLISH_LATENCY.observe(max(0, waited))
        return landed[-1][0] if len(landed) == _MOST else version
