"""Checkpoints without a worker, written in the background by the process that mirrors commit files.

Each lake has one thread, which writes one checkpoint at a time and rests most of the time, so that
it does not slow commits down. If a worker is alive, the thread leaves checkpoints to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from deltasql.errors import DeltaSqlError
from deltasql.telemetry import logs

if TYPE_CHECKING:
    from deltasql.mirror.engine import Target

logger = logging.getLogger("deltasql.mirror")

# The rest before the next turn, as a multiple of the time that the last turn took.
_REST: Final = 4.0
# A turn writes the newest and the oldest, so that a table with many due catches up in the end.
TURN: Final = 2
# How soon to check whether the worker has written the checkpoints that were left to it.
_LOOK_AGAIN: Final = 60.0
# How long closing a lake waits for the checkpoints that are due.
_PATIENCE: Final = 2.0


class BackgroundCheckpoints:
    """Writes the checkpoints of the tables reported to it, when no worker does."""

    def __init__(
        self, write: Callable[[Target, int], int | None], has_worker: Callable[[], bool]
    ) -> None:
        """`write` writes some checkpoints of a table, and returns how many."""
        self._write = write
        self._has_worker = has_worker
        self._changed = threading.Condition()
        self._wanted: dict[int, Target] = {}
        self._thread: threading.Thread | None = None
        self._deadline: float | None = None

    def want(self, target: Target) -> None:
        """Report that a checkpoint of a table is due."""
        with self._changed:
            if self._deadline is not None:
                return
            self._wanted[target.table_id] = target
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="deltasql-checkpoints", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Finish what is due, unless that takes long; the next process does the rest."""
        with self._changed:
            self._deadline = time.monotonic() + _PATIENCE
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(_PATIENCE)

    def _run(self) -> None:
        while (target := self._next()) is not None:
            started = time.monotonic()
            with logs.bound(table=target.name):
                pause = self._turn(target)
            self._rest(pause + _REST * (time.monotonic() - started))

    def _next(self) -> Target | None:
        with self._changed:
            is_over = self._deadline is not None and time.monotonic() > self._deadline
            if is_over or not self._wanted:
                self._thread = None
                return None
            return self._wanted.pop(next(iter(self._wanted)))

    def _turn(self, target: Target) -> float:
        """Write a few; returns how long to wait before the next look."""
        try:
            if self._has_worker():
                if self._deadline is None:
                    self._again(target)
                return _LOOK_AGAIN
            if (self._write(target, TURN) or 0) >= TURN:
                self._again(target)
        except Exception as error:
            if self._deadline is not None:
                # The lake was closed in the meantime, so whatever broke, the checkpoint is given
                # up: the next process writes it.
                logger.debug("%s: no checkpoint: %s", target.name, error)
            elif isinstance(error, DeltaSqlError):
                # It is in the status of its version; the next checkpoint that is due retries it.
                facts = {"table_id": target.table_id, "error": error}
                logger.warning("%s: no checkpoint yet: %s", target.name, error, extra=facts)
            else:
                raise
        return 0.0

    def _again(self, target: Target) -> None:
        with self._changed:
            self._wanted.setdefault(target.table_id, target)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            while self._deadline is None and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
