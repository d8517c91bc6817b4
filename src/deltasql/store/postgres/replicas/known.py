"""What this client knows about the heads of tables: no answer from a replica may be older, or be of
another history.

A version is known with its in-commit time. After a failover another server makes versions of the
same numbers, at other times.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

# How many versions of a table are remembered with their times, the newest ones.
_REMEMBERED: Final = 16


@dataclass(slots=True)
class _Entry:
    """The newest version, when it was noted and when the primary was last asked, and the times of
    some versions.
    """

    version: int = -1
    noted_at: float = float("-inf")
    asked_at: float = float("-inf")
    times: dict[int, int] = field(default_factory=dict)

    def forget_after(self, version: int) -> None:
        """Go back to a version: what followed was lost."""
        self.version = version
        self.times = {v: at for v, at in self.times.items() if v <= version}


class Known:
    """The newest version of each table that this client committed or saw on the primary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        # Tables whose rows this client changed without making a version of it.
        self._distrusted: set[int] = set()

    def version(self, table_id: int) -> int:
        """The newest version known; -1 if none is."""
        entry = self._entries.get(table_id)
        return -1 if entry is None else entry.version

    def age(self, table_id: int) -> float:
        """The seconds since the primary last said which version is the newest."""
        entry = self._entries.get(table_id)
        return float("inf") if entry is None else time.monotonic() - entry.asked_at

    def times(self, table_id: int) -> dict[int, int]:
        """The in-commit times of some versions."""
        with self._lock:
            entry = self._entries.get(table_id)
            return {} if entry is None else dict(entry.times)

    def saw(self, table_id: int, version: int, in_commit_timestamp: int | None) -> None:
        """Note a version that the primary has."""
        self._note(table_id, version, in_commit_timestamp, None)

    def asked(self, table_id: int, version: int, in_commit_timestamp: int, at: float) -> None:
        """Note what the primary said was the head, asked at this time of the monotonic clock."""
        self._note(table_id, version, in_commit_timestamp, at)

    def _note(
        self, table_id: int, version: int, in_commit_timestamp: int | None, asked: float | None
    ) -> None:
        with self._lock:
            entry = self._entries.setdefault(table_id, _Entry())
            is_other = in_commit_timestamp != entry.times.get(version, in_commit_timestamp)
            was_lost = asked is not None and version < entry.version and asked > entry.noted_at
            if (is_other and in_commit_timestamp is not None) or was_lost:
                # The primary is another server now, which never had them.
                entry.forget_after(version)
            if version >= entry.version:
                entry.version, entry.noted_at = version, time.monotonic()
            if in_commit_timestamp is not None:
                entry.times[version] = in_commit_timestamp
                while len(entry.times) > _REMEMBERED:
                    del entry.times[min(entry.times)]
            if asked is not None:
                entry.asked_at = max(entry.asked_at, asked)

    def distrust(self, table_id: int) -> None:
        """From now on, read this table from the primary alone: no version tells what changed."""
        self._distrusted.add(table_id)

    def is_trusted(self, table_id: int) -> bool:
        """Whether the version tells all that this client changed."""
        return table_id not in self._distrusted
