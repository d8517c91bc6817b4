"""How far a table's mirror is behind, whatever the database's clock does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from deltasql.store.mirroring.interface import Backlog


class LagWatch:
    """Counts how long tables have waited for their mirror, for as long as it looks.

    The database's clock says how old a version is. When that clock has gone back, versions
    seem to come from the future and nothing seems to be late: then the time counts during
    which the same version was the first to be missing, by the clock of this process.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By table: the version that is missing first, and since when it was seen to be.
        self._since: dict[int, tuple[int, float]] = {}

    def seconds(self, item: Backlog, now_ms: int) -> float:
        """The lag of a table, with the database's time."""
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
        """It lacks nothing any more."""
        self._since.pop(table_id, None)


def is_due(attempt_ms: int | None, wait_ms: float, now_ms: int) -> bool:
    """Whether the wait after an attempt is over; one that is yet to come proves nothing."""
    return attempt_ms is None or attempt_ms > now_ms or now_ms >= attempt_ms + wait_ms
