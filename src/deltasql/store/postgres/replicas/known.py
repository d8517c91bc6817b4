"""What this client knows about the heads of tables: no answer from a replica may be older."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple


class _Entry(NamedTuple):
    """The newest version seen, and when the primary was last asked for it."""

    version: int
    asked_at: float


_NOTHING = _Entry(-1, float("-inf"))


class Known:
    """The newest version of each table that this client committed or saw."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        # Tables whose rows this client changed without making a version of it.
        self._distrusted: set[int] = set()

    def version(self, table_id: int) -> int:
        """The newest version known; -1 if none is."""
        return self._entries.get(table_id, _NOTHING).version

    def age(self, table_id: int) -> float:
        """The seconds since the primary last said which version is the newest."""
        return time.monotonic() - self._entries.get(table_id, _NOTHING).asked_at

    def saw(self, table_id: int, version: int) -> None:
        """Note a version that was seen, wherever that was."""
        self._note(table_id, version, _NOTHING.asked_at)

    def asked(self, table_id: int, version: int, at: float) -> None:
        """Note what the primary said was the head, asked at this time of the monotonic clock."""
        self._note(table_id, version, at)

    def _note(self, table_id: int, version: int, asked_at: float) -> None:
        with self._lock:
            before = self._entries.get(table_id, _NOTHING)
            self._entries[table_id] = _Entry(
                max(before.version, version), max(before.asked_at, asked_at)
            )

    def distrust(self, table_id: int) -> None:
        """From now on, read this table from the primary alone: no version tells what changed."""
        self._distrusted.add(table_id)

    def is_trusted(self, table_id: int) -> bool:
        """Whether the version tells all that this client changed."""
        return table_id not in self._distrusted
