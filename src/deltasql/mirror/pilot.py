"""A table's pilot in this process: mirrors what its writers commit, while they wait.

Whoever holds the table's lease mirrors everybody's versions, those of other processes too, and
keeps it while there is work. So under load the price of a flight is shared by many commits.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from deltasql.errors import DeltaSqlError
from deltasql.mirror.flight import CommitFlight, LeaseLostError
from deltasql.store.mirror_log import Look

logger = logging.getLogger("deltasql.mirror")

# Between two runs of a flight that others wait for: time for their commits to gather.
_GATHER: Final = 0.002
# How long a flight waits for more before it gives the lease back.
_LINGER: Final = 0.03
# And how long it may hold it: then somebody who repairs or cleans up has a chance.
_TENURE: Final = 2.0
# How often a writer looks whether another process has mirrored its version: at the object where
# that costs nothing, and at SQL.
_LOOK_AT_OBJECT: Final = 0.001
_LOOK_AT_SQL: Final = 0.008


class Pilot:
    """Mirrors one table on behalf of the writers of this process."""

    def __init__(
        self,
        *,
        name: str,
        flight: Callable[[], AbstractContextManager[CommitFlight | None]],
        look: Callable[[int], Look],
        is_visible: Callable[[int], bool] | None,
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        self._name = name
        self._flight = flight
        self._look = look
        self._is_visible = is_visible
        self._start = start
        self._changed = threading.Condition()
        self._is_flying = False
        self._is_stopped = False
        self._wanted = self._mirrored = self._given_up = -1
        self._deadline = 0.0

    @property
    def is_flying(self) -> bool:
        """Whether it works, or waits for work with the lease in hand."""
        return self._is_flying

    def want(self, version: int, deadline: float) -> None:
        """Ask for a version; somebody flies from now on."""
        with self._changed:
            self._wanted = max(self._wanted, version)
            self._deadline = max(self._deadline, deadline)
            if self._is_flying:
                self._changed.notify_all()
                return
            self._is_flying = True
        self._start(self._fly)

    def wait(self, version: int, deadline: float) -> bool:
        """Wait until the version is mirrored; False when it is left to others, or to later."""
        with self._changed:
            while max(self._mirrored, self._given_up) < version:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            return self._mirrored >= version

    def stop(self) -> None:
        """End when the run under way has ended."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _fly(self) -> None:
        while (wanted := self._next()) is not None:
            try:
                if not self._flew(wanted):
                    self._watch(wanted)
            except LeaseLostError:
                logger.info("%s: another flight has taken over", self._name)
            except DeltaSqlError as error:
                logger.warning("%s: version %s was not mirrored: %s", self._name, wanted, error)
                self._settle(given_up=self._wanted)
            except BaseException:
                self._settle(given_up=self._wanted)
                with self._changed:
                    self._is_flying = False
                raise

    def _next(self) -> int | None:
        with self._changed:
            is_late = self._is_stopped or time.monotonic() > self._deadline
            if is_late or max(self._mirrored, self._given_up) >= self._wanted:
                self._given_up = self._wanted
                self._is_flying = False
                self._changed.notify_all()
                return None
            return self._wanted

    def _settle(self, *, mirrored: int = -1, given_up: int = -1) -> None:
        with self._changed:
            self._mirrored = max(self._mirrored, mirrored)
            self._given_up = max(self._given_up, given_up)
            self._changed.notify_all()

    def _flew(self, wanted: int) -> bool:
        """Mirror the table for as long as there is work; False when somebody else does."""
        look = self._look(wanted)
        if look.is_mirrored:
            self._settle(mirrored=wanted)
            return True
        if not look.is_free:
            return False
        with self._flight() as flight:
            if flight is None:
                return False
            begun = active = time.monotonic()
            while True:
                with self._changed:
                    wanted = self._wanted
                done = flight.run()
                if flight.is_waiting:
                    self._settle(given_up=wanted)
                    return True
                # What was wanted before the run was committed before it.
                self._settle(mirrored=wanted)
                now = time.monotonic()
                active = now if done else active
                if now - active > _LINGER or now - begun > _TENURE:
                    return True
                if not self._gathered(wanted, now, is_shared=done > 1):
                    return True

    def _gathered(self, wanted: int, now: float, *, is_shared: bool) -> bool:
        """Wait for more; False when it is time to stop.

        Alone, the next commit is mirrored at once. Among others it waits for theirs.
        """
        with self._changed:
            while not self._is_stopped:
                left = now + _GATHER - time.monotonic()
                if left <= 0 or (self._wanted > wanted and not is_shared):
                    return True
                self._changed.wait(left)
            return False

    def _watch(self, wanted: int) -> None:
        """Wait while somebody else mirrors the version, or until the lease is free."""
        until = time.monotonic() + _LOOK_AT_SQL * random.uniform(0.75, 1.25)
        while time.monotonic() < until and not self._is_stopped:
            if self._is_visible is None:
                time.sleep(until - time.monotonic())
            elif self._is_visible(wanted):
                self._settle(mirrored=wanted)
                return
            else:
                time.sleep(_LOOK_AT_OBJECT)
