"""A table's publisher in this process, which mirrors commits while their writers wait.

The holder of the table's lease mirrors all versions, including those of other processes, and keeps
the lease while there is work. So under load, many commits share the cost of a publish run.
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
from deltasql.mirror.leases import LeaseLostError
from deltasql.mirror.publishing.publish_run import PublishRun
from deltasql.store.mirroring.interface import Look
from deltasql.telemetry import logs

logger = logging.getLogger("deltasql.mirror")

# The pause between two runs while others wait, so that their commits can gather.
_GATHER: Final = 0.001
# How long a publish run waits for more work before it gives the lease back.
_LINGER: Final = 0.03
# How long it may hold the lease; then repair or cleanup gets a chance.
_TENURE: Final = 2.0
# How often a writer checks whether another process has mirrored its version, once that is expected:
# at the object if that is free, else in SQL. Also how soon it checks whether there still is another
# process.
_LOOK_AT_OBJECT: Final = 0.001
_LOOK_AT_SQL: Final = 0.008
_LOOK_AT_LEASE: Final = 0.03
# And once nobody waits any more, in case the process that holds the lease has died.
_LOOK_LATER: Final = 1.0


class Publisher:
    """Mirrors one table on behalf of the writers of this process."""

    def __init__(
        self,
        *,
        name: str,
        publish_run: Callable[[], AbstractContextManager[PublishRun | None]],
        look: Callable[[int], Look],
        is_visible: Callable[[int], bool] | None,
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        self._name = name
        self._publish_run = publish_run
        self._look = look
        self._is_visible = is_visible
        self._start = start
        self._changed = threading.Condition()
        self._is_running = False
        self._is_watched = False
        self._is_followed = False
        self._is_stopped = False
        self._wanted = self._mirrored = self._given_up = -1
        # How long others took recently: the first check comes no sooner.
        self._patience = 0.0

    @property
    def is_publishing(self) -> bool:
        """Whether it is mirroring, or holds the lease and waits for more to mirror."""
        return self._is_running

    def want(self, version: int) -> None:
        """Report a version to the publish run that is under way."""
        with self._changed:
            self._wanted = max(self._wanted, version)
            if self._is_running:
                self._changed.notify_all()

    def wait(self, version: int, deadline: float) -> bool:
        """Wait until the version is mirrored, by a publish run of ours if nobody else does it.

        Returns False if it is left to others, or for later.
        """
        while (left := deadline - time.monotonic()) > 0:
            with self._changed:
                if max(self._mirrored, self._given_up) >= version or self._is_stopped:
                    return self._mirrored >= version
                if self._is_running or self._is_watched:
                    self._changed.wait(left)
                    continue
                self._is_watched = True
            self._watch_or_give_up(version, deadline)
        self._follow_up(version)
        return False

    def stop(self) -> None:
        """Stop after the version, or the few, that are being written."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _follow_up(self, version: int) -> None:
        """Go on looking in the background: whoever holds the lease may have died with it."""
        with self._changed:
            is_settled = max(self._mirrored, self._given_up) >= version
            if is_settled or self._is_running or self._is_followed or self._is_stopped:
                return
            self._is_followed = True
        threading.Thread(target=self._follow, name="deltasql-mirror-later", daemon=True).start()

    def _follow(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(_LOOK_LATER)
                version = self._wanted
                is_settled = max(self._mirrored, self._given_up) >= version
                if is_settled or self._is_stopped:
                    self._is_followed = False
                    return
                if self._is_running or self._is_watched:
                    continue
                self._is_watched = True
            self._watch_or_give_up(version, time.monotonic())

    def _watch_or_give_up(self, version: int, deadline: float) -> None:
        """Called by the one who has set `_is_watched`."""
        try:
            self._watch(version, deadline)
        except DeltaSqlError as error:
            logger.warning("%s: can't look at the mirror: %s", self._name, error)
            self._settle(given_up=version)
        finally:
            with self._changed:
                self._is_watched = False
                self._changed.notify_all()

    def _watch(self, version: int, deadline: float) -> None:
        """Wait until another process has mirrored the version, or start a publish run."""
        started = time.monotonic()
        # If another process did it last time, it is probably still at it.
        if self._patience and self._appears(version, deadline):
            self._patience += (time.monotonic() - started - self._patience) / 4
            self._settle(mirrored=version)
            return
        look = self._look(version)
        self._patience = 0.0 if look.is_free else max(self._patience, _LOOK_AT_SQL)
        if look.is_mirrored:
            self._settle(mirrored=version)
        elif look.is_free:
            self._take_off(version)

    def _take_off(self, version: int) -> None:
        self._is_running = True
        try:
            self._start(self._fly)
        except RuntimeError:
            # The lake was closed in the meantime; the version waits for the next run.
            self._is_running = False
            self._settle(given_up=version)

    def _appears(self, version: int, deadline: float) -> bool:
        """Whether the object becomes visible in time; if checking costs a request, just wait."""
        if self._is_visible is None:
            time.sleep(_LOOK_AT_SQL * random.uniform(0.5, 1.0))
            return False
        pause = self._patience * random.uniform(0.5, 0.9)
        until = min(deadline, time.monotonic() + self._patience + _LOOK_AT_LEASE)
        while time.monotonic() < until:
            time.sleep(pause)
            if self._is_visible(version):
                return True
            # Many processes check: the longer it takes, the less constant checking helps.
            pause = max(_LOOK_AT_OBJECT, self._patience / 8)
        return False

    def _fly(self) -> None:
        try:
            with logs.bound(table=self._name):
                self._mirror()
        except LeaseLostError:
            logger.info("%s: another process now mirrors this table", self._name)
        except DeltaSqlError as error:
            message = "%s: version %s was not mirrored: %s"
            facts = {"table": self._name, "error": error}
            logger.warning(message, self._name, self._wanted, error, extra=facts)
            self._settle(given_up=self._wanted)
        except BaseException:
            self._settle(given_up=self._wanted)
            raise
        finally:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()

    def _settle(self, *, mirrored: int = -1, given_up: int = -1) -> None:
        with self._changed:
            self._mirrored = max(self._mirrored, mirrored)
            self._given_up = max(self._given_up, given_up)
            self._changed.notify_all()

    def _mirror(self) -> None:
        """Mirror the table while there is work, unless another process does."""
        with self._publish_run() as publish_run:
            if publish_run is not None:
                self._mirror_by(publish_run)
                publish_run.tell()

    def _mirror_by(self, publish_run: PublishRun) -> None:
        begun = active = time.monotonic()
        pause = _GATHER
        while True:
            with self._changed:
                wanted = self._wanted
            # If looking at objects is free, writers elsewhere look at those and not at SQL.
            is_lazy = self._is_visible is not None
            done = publish_run.run(lazily=is_lazy, fills=False, is_stopped=lambda: self._is_stopped)
            if self._is_stopped:
                # Whoever closes the lake does not wait for a backlog of others.
                self._settle(mirrored=publish_run.published, given_up=wanted)
                return
            if wanted > self._mirrored or not done:
                publish_run.tell()
            if publish_run.is_waiting:
                self._settle(given_up=wanted)
                return
            # What was wanted before the run had been committed before it.
            self._settle(mirrored=wanted)
            # Last, because nobody waits for the versions that a bridge left out.
            done += publish_run.fill()
            now = time.monotonic()
            # Writers in this process wake it; it polls for others, less and less often.
            active, pause = (now, _GATHER) if done else (active, min(pause * 2, _LINGER / 4))
            if now - begun > _TENURE:
                return
            if now - active > _LINGER:
                if not publish_run.is_finishing:
                    return
                # Checksum files are still being written; commits made in the meantime need not wait
                # for them.
                pause = _LINGER
            if not self._gathered(wanted, now + pause, is_shared=done > 1):
                return

    def _gathered(self, wanted: int, until: float, *, is_shared: bool) -> bool:
        """Wait for more; False if it is time to stop.

        With a single writer, the next commit is mirrored at once. With several, it waits for
        theirs.
        """
        with self._changed:
            while not self._is_stopped:
                left = until - time.monotonic()
                if left <= 0 or (self._wanted > wanted and not is_shared):
                    return True
                self._changed.wait(left)
            return False
