"""Checks for our newest commit file while the data files of the next commit are written.

A publish run must know that the version before is still there. If every check costs a request, one
made a moment ago, in parallel with the upload of the data, saves the commit that request.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from dataclasses import dataclass
from typing import Final

from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import StoreError
from deltasql.objectstore import ObjectStore

# How long a check is valid: no longer than a publish run goes on without another.
FRESH: Final = 2.0
# A check this recent is not repeated for the next writer.
_YOUNG: Final = 0.5
_LONGEST: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Look:
    version: int
    begun: float
    # When the check was sent, if the file was there.
    seen: Future[float | None]


class LookBacks:
    """One check per table at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._looks: dict[int, _Look] = {}

    def begin(self, table_id: int, version: int, objects: ObjectStore) -> None:
        """Start to check whether a version's commit file is there."""
        now = time.monotonic()
        with self._lock:
            known = self._looks.get(table_id)
            if known is not None and known.version == version and now - known.begun < _YOUNG:
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    self._threads, thread_name_prefix="deltasql-look-back"
                )
            try:
                seen = self._pool.submit(_look, objects, version)
            except RuntimeError:
                return  # the lake was closed in the meantime
            self._looks[table_id] = _Look(version, now, seen)

    def has_seen(self, table_id: int, version: int) -> bool:
        """Whether the commit file was seen a moment ago; waits for a check that is under way."""
        with self._lock:
            known = self._looks.pop(table_id, None)
        if known is None or known.version != version:
            return False
        try:
            at = known.seen.result(timeout=_LONGEST)
        except (StoreError, NotYetError):
            return False  # the caller then checks for itself
        return at is not None and time.monotonic() - at < FRESH

    def close(self) -> None:
        """Start no more."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)


def _look(objects: ObjectStore, version: int) -> float | None:
    begun = time.monotonic()
    return None if objects.head(LOG + commit_name(version)) is None else begun
