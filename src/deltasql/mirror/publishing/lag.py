"""How far a table's mirror is behind, even if the database's clock jumps."""

from __future__ import annotations

import time
from collections.abc import Callable

from deltasql.store.mirroring.interface import Backlog


class LagWatch:
    """Measures how long tables have waited for their mirror, while it is watching.

    The database's clock says how old a version is. If that clock has gone back, versions seem to
    come from the future and nothing seems late. Then the lag is how long the same version has been
    the first one missing, by the clock of this process.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By table: the first missing version, and since when it has been seen missing.
        self._since: dict[int, tuple[int, float]] = {}

    def seconds(self, item: Backlog, now_ms: int) -> float:
        """The lag of a table, given the database's time."""
        if not item.versions or item.first_version is None:
            self._since.pop(item.table_id, None)
            return 0.0
        version, since = self._since.get(item.table_id, (None, 0.0))
        if version != item.first_version:
            since = self._clock()
            self._since[item.table_id] = (item.first_version, since)
        by_database = 0.0 if item.oldest is None else (now_ms - item.oldest) / 1000
        return max(by_database, self._clock() - since)

    def forget(self, table_id: int) -> None:
        """Forget a table that lacks nothing any more."""
        self._since.pop(table_id, None)


def is_due(attempt_ms: int | None, wait_ms: float, now_ms: int) -> bool:
    """Whether the wait after an attempt is over; an attempt in the future counts for nothing."""
    return attempt_ms is None or attempt_ms > now_ms or now_ms >= attempt_ms + wait_ms
