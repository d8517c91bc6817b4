"""This process as vacuum sees it: what it writes, and which versions it reads.

A process that writes has one row in the database, made with its first write and kept alive in the
background, so that a commit costs nothing more. Reads are tracked in memory; those that last longer
than a heartbeat hold their version by a pin.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from deltasql.errors import DatabaseError, StoreError, TableNotFoundError
from deltasql.store.upkeep.interface import SILENCE, UpkeepLog

logger = logging.getLogger("deltasql.sessions")

HEARTBEAT: Final = 20.0
# How long a version is held unless its holder renews the pin.
PIN_SECONDS: Final = SILENCE
# A pin outlives this many heartbeats, so that one that comes late loses nothing.
_BEATS: Final = 3
_UNKNOWN: Final = "this process could not be entered in dl_sessions: %s"


def clock() -> float:
    """Seconds, including those during which the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


# The process itself is a little older.
_IMPORTED: Final = clock()


@dataclass(slots=True)
class _Reading:
    """A read under way; it has a `pin_id` once it holds its version in the database."""

    table_id: int
    version: int
    since: float
    reason: str
    pin_id: str | None = None
    seconds: float = PIN_SECONDS


class Presence:
    """What this process is doing with a lake."""

    def __init__(
        self,
        store: UpkeepLog,
        *,
        committer: str | None = None,
        heartbeat: float = HEARTBEAT,
        kind: str | None = None,
    ) -> None:
        self._store = store
        self._committer = committer
        self._heartbeat = heartbeat
        self._kind = kind
        self._begin()

    def _begin(self) -> None:
        """Start empty, as in a new process: a child has neither its parent's row nor its thread,
        and nobody who would release the lock that a thread of the parent held.
        """
        self._lock = threading.RLock()
        self._holding = threading.Lock()
        self._pid = os.getpid()
        self._session_id = str(uuid.uuid4())
        self._is_known = False
        # Why the database would not have this process's row.
        self._refused: StoreError | None = None
        self._heard_at = clock()
        # When it was last found out that others had taken this process for dead.
        self._lost_at: float | None = None
        self._writes: dict[object, float] = {}
        self._reads: dict[object, _Reading] = {}
        self._watched: list[Callable[[], set[tuple[int, int]]]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def session_id(self) -> str | None:
        """The id of this process's row; None while it has written nothing."""
        return self._session_id if self._is_known and self._pid == os.getpid() else None

    # --- writing ------------------------------------------------------------------------

    def writing(self) -> AbstractContextManager[None]:
        """A write, from its first file to its commit: vacuum spares what it has written."""
        return _Writing(self)

    def begin_write(self, token: object) -> None:
        """Note a write as `writing` does, until it is ended."""
        self._here()
        self._writes[token] = clock()
        if not self._is_known:
            try:
                self._become_known()
            except BaseException:
                self.end_write(token)
                raise

    def end_write(self, token: object, *, is_done: bool = False) -> None:
        """Forget a write."""
        self._writes.pop(token, None)
        if is_done and self._refused is not None:
            logger.warning(_UNKNOWN, self._refused)
            self._refused = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """The life of a worker: it has a row from the beginning, whether it writes or not."""
        with self.writing():
            self._keep_alive()
        self._quietly(self.beat)
        try:
            yield
        finally:
            self.close()

    def was_given_up(self) -> bool:
        """Whether this process was silent for so long that vacuum may have taken it for dead,
        during a write that is still under way.

        Then files that it has not committed yet may be gone. The call makes it known again.
        """
        self._here()
        if self._is_known and clock() - self._heard_at >= SILENCE / 2:
            self.beat()
        # The heartbeat may have found it out before us.
        lost = self._lost_at
        return lost is not None and min(list(self._writes.values()), default=lost) <= lost

    # --- reading ------------------------------------------------------------------------

    @contextmanager
    def reading(self, table_id: int, version: int, reason: str = "read") -> Iterator[None]:
        """A read of a version, which is held in the database once the read takes long."""
        self._here()
        token = object()
        self._reads[token] = _Reading(table_id, version, clock(), reason)
        try:
            self._keep_alive()
            yield
        finally:
            found = self._reads.pop(token, None)
            if found is not None and found.pin_id is not None:
                self._quietly(partial(self._store.unpin, found.pin_id))

    @contextmanager
    def pinned(
        self, table_id: int, version: int, reason: str, *, seconds: float = PIN_SECONDS
    ) -> Iterator[str]:
        """Hold a version until the block ends; yields the id of the pin.

        If the process dies, the pin expires after `seconds`, or after three heartbeats.
        """
        self._here()
        seconds = max(seconds, _BEATS * self._heartbeat)
        pin_id = str(uuid.uuid4())
        session = self.session_id
        held = self._store.pin(
            pin_id, table_id, version, seconds=seconds, reason=reason, session_id=session
        )
        if not held:
            raise TableNotFoundError(
                f"table {table_id} is gone",
                cause="it was dropped",
                remedy="look it up again by its name",
            )
        token = object()
        held_now = _Reading(table_id, version, clock(), reason, pin_id, seconds)
        self._reads[token] = held_now
        try:
            self._keep_alive()
            yield pin_id
        finally:
            self._reads.pop(token, None)
            # It has another pin if the first one expired.
            self._quietly(partial(self._store.unpin, held_now.pin_id or pin_id))

    @contextmanager
    def held(self, table_id: int, version: int, reason: str) -> Iterator[None]:
        """Hold a version as `pinned` does, unless this role may only read the log."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self.pinned(table_id, version, reason))
            except DatabaseError as error:
                if not error.is_refusal:
                    raise
                logger.debug("version %s of table %s is not held: %s", version, table_id, error)
            yield

    def watch(self, ask: Callable[[], set[tuple[int, int]]]) -> None:
        """Hold what `ask` says is being read, ids of tables and versions; each heartbeat asks."""
        self._here()
        self._watched.append(ask)
        self._keep_alive()

    def _look(self) -> None:
        found: set[tuple[int, int]] = set()
        is_whole = True
        for ask in self._watched:
            try:
                found |= ask()
            except Exception as error:  # noqa: BLE001 - whoever answers may have ended
                is_whole = False
                logger.debug("what is being read is not known: %s", error)
        with self._holding:
            for read in found:
                reading = self._reads.setdefault(read, _Reading(*read, clock(), "query"))
                if reading.pin_id is None:
                    self._quietly(partial(self._hold, reading))
            if not is_whole:
                return
            over = [key for key in list(self._reads) if isinstance(key, tuple) and key not in found]
            for key in over:
                pin_id = self._reads.pop(key).pin_id
                if pin_id is not None:
                    self._quietly(partial(self._store.unpin, pin_id))

    # --- the row ------------------------------------------------------------------------

    def _here(self) -> None:
        if self._pid != os.getpid():
            self._begin()

    def _become_known(self) -> None:
        with self._lock:
            now = clock()
            try:
                self._store.begin_session(
                    self._session_id,
                    kind=self._kind or _kind(),
                    host=platform.node(),
                    pid=self._pid,
                    committer=self._committer,
                    age=now - _IMPORTED,
                    writing=self._writing_for(now) or 0.0,
                )
            except StoreError as error:
                # The write itself will show whether the database can be reached; files that are
                # younger than the retention are safe without the row.
                if error.is_refusal:
                    # Whoever may not write learns that from the write, and nothing before it.
                    self._refused = error
                else:
                    logger.warning(_UNKNOWN, error)
                return
            self._heard_at, self._is_known = now, True
        self._keep_alive()

    def _writing_for(self, now: float) -> float | None:
        """For how many seconds the oldest write has been under way."""
        begun = list(self._writes.values())
        return now - min(begun) if begun else None

    def beat(self) -> bool:
        """Report that this process lives, and hold what it reads; False if it was given up."""
        self._hold_reads()
        is_known = self._tell()
        if self._watched:
            # At last: whoever answers may take long.
            self._look()
        return is_known

    def _tell(self) -> bool:
        with self._lock:
            if not self._is_known:
                if self._kind is not None:
                    # The database could not be reached when it began.
                    self._become_known()
                return True
            now = clock()
            if self._store.beat(self._session_id, writing=self._writing_for(now)):
                self._heard_at = now
                return True
            self._is_known, self._lost_at = False, now
            self._become_known()
            return False

    def _hold_reads(self) -> None:
        # Of two threads one holds a read, not both.
        with self._holding:
            for token, reading in list(self._reads.items()):
                self._quietly(partial(self._hold, reading))
                if token not in self._reads and reading.pin_id is not None:
                    # The read ended meanwhile, perhaps before it held its version.
                    self._quietly(partial(self._store.unpin, reading.pin_id))

    def _hold(self, reading: _Reading) -> None:
        if reading.pin_id is not None and self._store.renew_pin(
            reading.pin_id, seconds=reading.seconds
        ):
            return
        # Not the id of a pin that expired: whoever asks for that one must learn that it did.
        reading.pin_id = str(uuid.uuid4())
        self._store.pin(
            reading.pin_id,
            reading.table_id,
            reading.version,
            seconds=reading.seconds,
            reason=reading.reason,
            session_id=self.session_id,
        )

    def _keep_alive(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                # Not a method: the thread must not keep alive a lake that nobody uses any more.
                self._thread = threading.Thread(
                    target=_beat_until,
                    args=(weakref.ref(self), self._stop, self._heartbeat),
                    name="deltasql-presence",
                    daemon=True,
                )
                self._thread.start()

    def close(self) -> None:
        """Delete this process's row."""
        self._stop.set()
        if self._pid != os.getpid():
            return
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)
        for reading in list(self._reads.values()):
            if reading.pin_id is not None:
                self._quietly(partial(self._store.unpin, reading.pin_id))
        if self._is_known:
            self._is_known = False
            self._quietly(lambda: self._store.end_session(self._session_id))

    def sweep(self) -> None:
        """Delete the rows of dead processes."""
        self._store.sweep()

    @staticmethod
    def _quietly(do: Callable[[], object]) -> None:
        try:
            do()
        except StoreError as error:
            # The row expires by itself.
            logger.debug("upkeep: %s", error)


def _kind() -> str:
    return "spark" if "pyspark" in sys.modules else "python"


def _beat_until(
    presence: weakref.ReferenceType[Presence], stop: threading.Event, seconds: float
) -> None:
    beats = 0
    while not stop.wait(seconds):
        living = presence()
        if living is None:
            return
        try:
            living.beat()
            if living.session_id is not None and beats % 30 == 0:
                living.sweep()
        except Exception as error:  # noqa: BLE001 - the next beat tries again
            logger.debug("heartbeat: %s", error)
        beats += 1
        del living


# A class, because a generator costs a small write three times as much.
class _Writing:
    """The block of `Presence.writing`; it is the token of its write, too."""

    __slots__ = ("_presence",)

    def __init__(self, presence: Presence) -> None:
        self._presence = presence

    def __enter__(self) -> None:
        self._presence.begin_write(self)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._presence.end_write(self, is_done=kind is None)
