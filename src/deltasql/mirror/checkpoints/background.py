"""Checkpoints without a worker: written in the background of whoever mirrors commit files.

One thread a lake, one checkpoint at a time, and most of the time it rests, so that commits are
not held up. Where a worker is alive it leaves them to that.
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

# How many times as long as a turn took it rests before the next.
_REST: Final = 4.0
# The newest and the oldest: what a turn writes, so that a table with many is caught up in the end.
TURN: Final = 2
# How soon it looks again whether the worker that it left a table to has done it.
_LOOK_AGAIN: Final = 60.0
# How long a lake that closes waits for what is due.
_PATIENCE: Final = 2.0


class BackgroundCheckpoints:
    """Writes the checkpoints of tables that it is told of, when nobody else does."""

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
        """Say that a checkpoint of a table is due."""
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
        """Finish what is due, unless that takes long; the next process goes on with the rest."""
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
        """Write a few; returns how long to wait before anything else is looked at."""
        try:
            if self._has_worker():
                if self._deadline is None:
                    self._again(target)
                return _LOOK_AGAIN
            if (self._write(target, TURN) or 0) >= TURN:
                self._again(target)
        except DeltaSqlError as error:
            # It is in the status of its version; the next one that is due brings it up again.
            logger.warning("%s: no checkpoint yet: %s", target.name, error)
        except Exception as error:
            if self._deadline is None:
                raise
            # The lake has closed meanwhile: whatever breaks then, the checkpoint is given up.
            logger.debug("%s: no checkpoint: %s", target.name, error)
        return 0.0

    def _again(self, target: Target) -> None:
        with self._changed:
            self._wanted.setdefault(target.table_id, target)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            while self._deadline is None and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
