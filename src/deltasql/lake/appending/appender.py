"""The appender: collects the appends of any number of threads into one file and one commit."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from concurrent.futures import Future, wait
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from deltasql.data.computing.completing import completed_table
from deltasql.data.conform import as_arrow
from deltasql.errors import ConfigError, ValidationError
from deltasql.lake import writing
from deltasql.lake.appending import batch
from deltasql.lake.appending.entries import Entry, Receipt
from deltasql.lake.arguments import checked
from deltasql.settings.keys import parse_duration
from deltasql.spec.actions import Txn

if TYPE_CHECKING:
    from deltasql.lake.table import Table

logger = logging.getLogger("deltasql.appender")

MAX_DELAY: Final = "200ms"
MAX_ROWS: Final = 100_000
# A batch is also complete at this many bytes of rows.
_MAX_BYTES: Final = 64 << 20
_LONGEST: Final = 86_400.0
# How many batches may wait before callers are blocked.
_WAITING: Final = 2
# How long the thread stays alive with nothing to do.
_IDLE: Final = 5.0
# How many appends that can't join a batch are skipped in search of those that can.
_LOOK_PAST: Final = 1000
# How many failed appends are remembered until somebody asks about them.
_REMEMBERED: Final = 100
# How long to wait for callers who were just served: this share of the time that the commit took,
# and at most this many seconds.
_PATIENCE: Final = 0.5
_LONGEST_PATIENCE: Final = 0.02


@checked
class Appender:
    """Collects appends: `with table.appender() as a: a.append(rows)`, from any thread.

    A commit takes everything that arrived while the previous one was under way. If none is, rows of
    `append` are committed at once; rows of `submit`, which nobody waits for, are held until
    `max_delay` is over or `max_rows` are there. An error in one append is reported to its own
    caller alone.
    """

    def __init__(
        self, table: Table, *, max_delay: timedelta | str | float, max_rows: int = MAX_ROWS
    ) -> None:
        self._table = table
        self._delay = _seconds(max_delay)
        if max_rows < 1:
            raise ValidationError(f"max_rows can't be {max_rows}", remedy="give 1 or more")
        self._max_rows = max_rows
        self._begin()
        self._is_closed = False
        table._lake.appenders.add(self)
        _appenders.add(self)

    def _begin(self) -> None:
        """Start empty, as in a new process: what its parent was handed, the parent commits."""
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._queue: deque[Entry] = deque()
        self._rows = self._bytes = 0
        # The threads that wait for something in the queue.
        self._waiters: set[int] = set()
        # How many threads are expected back soon after the last commit, and until when.
        self._company, self._company_until = 0, 0.0
        self._under_way: list[Entry] = []
        self._thread: threading.Thread | None = None
        self._failed: deque[Receipt] = deque(maxlen=_REMEMBERED)

    def __repr__(self) -> str:
        return f"<Appender of {self._table.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.finish()

    # --- rows ---------------------------------------------------------------------------

    def append(
        self, data: Any, *, app_id: str | None = None, app_version: int | None = None
    ) -> int:
        """Add rows; returns the version when they are durable, as `Table.append` does."""
        self._must_not_wait_for_itself("append()", remedy="call submit(), which does not wait")
        waiter = threading.get_ident()
        entry = self._entry(data, writing.txn_actions(app_id, app_version), waiter)
        self._hand_in(entry)
        return entry.receipt.result()

    def submit(
        self, data: Any, *, app_id: str | None = None, app_version: int | None = None
    ) -> Receipt:
        """Hand in rows without waiting; the future has their version once they are durable.

        Rows that don't fit the table are refused at once. Blocks while too many rows are waiting.
        With `app_id` and `app_version` the append happens once; the versions of an `app_id` must be
        handed in in their order, since one that comes after a higher one is skipped.
        """
        entry = self._entry(data, writing.txn_actions(app_id, app_version))
        self._hand_in(entry)
        return entry.receipt

    def _hand_in(self, entry: Entry) -> None:
        with self._lock:
            # A receipt's callback runs in the thread that makes room: it must not wait for itself.
            while not (self._is_closed or self._is_own_thread) and self._queue and self._is_full():
                self._room.wait()
            if self._is_closed:
                raise ValidationError(
                    f"the appender of {self._table.name} is closed",
                    cause="these rows were not written",
                    remedy="make another one with table.appender()",
                )
            self._queue.append(entry)
            self._rows += entry.fitted.num_rows
            self._bytes += entry.size
            if entry.waiter is not None:
                self._waiters.add(entry.waiter)
            self._keep_working()
            if len(self._queue) == 1 or self._is_enough() or entry.waiter is not None:
                self._work.notify()

    def _entry(self, data: Any, txns: list[Any], waiter: int | None = None) -> Entry:
        if not isinstance(data, pa.Table):
            rows = as_arrow(data)
            data = rows if isinstance(rows, pa.Table) else rows.read_all()
        limit = self._table.memory_limit
        metadata = self._table._lake.states.current(self._table.table_id).metadata
        try:
            fitted = completed_table(metadata, data, memory_limit=limit)
        except Exception:  # noqa: BLE001 - raised again, unless the schema has changed
            metadata = self._table._lake.states.refresh(self._table.table_id).metadata
            fitted = completed_table(metadata, data, memory_limit=limit)
        txn: Txn | None = txns[0] if txns else None
        return Entry(
            data, fitted, metadata, txn, Receipt(), time.monotonic(), fitted.nbytes, waiter
        )

    def _is_enough(self) -> bool:
        return self._rows >= self._max_rows or self._bytes >= _MAX_BYTES

    def _is_full(self) -> bool:
        return self._rows >= _WAITING * self._max_rows or self._bytes >= _WAITING * _MAX_BYTES

    # --- the end ------------------------------------------------------------------------

    def flush(self) -> None:
        """Commit what was handed in so far and wait for it; raises errors nobody asked about."""
        self._must_not_wait_for_itself("flush()", remedy="call it from another thread")
        with self._lock:
            for entry in self._queue:
                entry.since = -math.inf
            waited = [entry.receipt for entry in (*self._under_way, *self._queue)]
            self._work.notify()
        wait(waited)
        with self._lock:
            self._failed.extend(receipt for receipt in waited if _has_failed(receipt))
        self._raise_unheard()

    def close(self) -> None:
        """Commit what was handed in, then take no more; raises errors nobody asked about."""
        self._finish()
        self._raise_unheard()

    def finish(self) -> None:
        """Close, and only log errors."""
        self._finish()
        for receipt in self._unheard():
            message = "%s: submitted rows were not committed: %s"
            logger.error(message, self._table.name, receipt.exception())

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _must_not_wait_for_itself(self, call: str, *, remedy: str) -> None:
        if self._is_own_thread:
            raise ValidationError(
                f"{call} in a callback of a future would wait for itself",
                cause="callbacks run in the thread that commits",
                remedy=remedy,
            )

    def _finish(self) -> None:
        self._must_not_wait_for_itself("close()", remedy="call it from another thread")
        with self._lock:
            self._is_closed = True
            self._work.notify_all()
            self._room.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._table._lake.appenders.discard(self)

    def _unheard(self) -> list[Receipt]:
        with self._lock:
            found = [receipt for receipt in self._failed if not receipt.was_asked]
            self._failed.clear()
        return found

    def _raise_unheard(self) -> None:
        for receipt in self._unheard():
            receipt.result()

    # --- the thread ---------------------------------------------------------------------

    def _keep_working(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._commit_batches, name="deltasql-appender", daemon=True
            )
            self._thread.start()

    def _commit_batches(self) -> None:
        while True:
            with self._lock:
                entries = self._next()
                self._under_way = entries
                if not entries:
                    self._thread = None
                    return
            started = time.monotonic()
            batch.commit(self._table, entries)
            with self._lock:
                self._expect_company(entries, time.monotonic() - started)
                self._under_way = []
                self._failed.extend(
                    entry.receipt for entry in entries if _has_failed(entry.receipt)
                )

    def _next(self) -> list[Entry]:
        """Wait for the next batch; empty when there is nothing left to do."""
        while True:
            if self._queue:
                left = self._due() - time.monotonic()
                if left <= 0 or self._is_closed or self._is_enough():
                    taken = self._taken()
                    self._room.notify_all()
                    if taken:
                        return taken
                    continue
                self._work.wait(left)
            elif (self._is_closed or not self._work.wait(_IDLE)) and not self._queue:
                return []

    def _due(self) -> float:
        """When to commit the queue: at once, if a thread waits and no others are expected."""
        due = self._queue[0].since + self._delay
        if not self._waiters:
            return due
        return min(due, 0.0 if len(self._waiters) >= self._company else self._company_until)

    def _expect_company(self, served: list[Entry], seconds: float) -> None:
        """Expect the threads just served to come back: else two halves would take turns."""
        threads = self._waiters.union(entry.waiter for entry in served if entry.waiter is not None)
        self._company = len(threads)
        patience = min(_PATIENCE * seconds, _LONGEST_PATIENCE)
        self._company_until = time.monotonic() + patience

    def _taken(self) -> list[Entry]:
        """The oldest appends; one transaction per application, as a commit can hold only one."""
        taken: list[Entry] = []
        later: list[Entry] = []
        app_ids: set[str] = set()
        rows = size = 0
        while self._queue and rows < self._max_rows and size < _MAX_BYTES:
            entry = self._queue.popleft()
            if entry.app_id in app_ids:
                later.append(entry)
                if len(later) > _LOOK_PAST:
                    break
                continue
            self._rows -= entry.fitted.num_rows
            self._bytes -= entry.size
            if not entry.receipt.set_running_or_notify_cancel():
                continue
            if entry.app_id is not None:
                app_ids.add(entry.app_id)
            rows += entry.fitted.num_rows
            size += entry.size
            taken.append(entry)
        self._queue.extendleft(reversed(later))
        self._waiters = {entry.waiter for entry in self._queue if entry.waiter is not None}
        return taken


def _has_failed(receipt: Receipt) -> bool:
    # Call the base class: the override would record that somebody asked.
    return not receipt.cancelled() and Future.exception(receipt) is not None


def _seconds(given: timedelta | str | float) -> float:
    try:
        if isinstance(given, timedelta):
            found = given.total_seconds()
        else:
            found = parse_duration("max_delay", given)
    except ConfigError as error:
        raise ValidationError(error.problem, cause=error.cause) from None
    if not 0 <= found <= _LONGEST:
        raise ValidationError(
            f"max_delay can't be {given}",
            cause="it must be at least 0 and at most a day",
            remedy='give a duration such as "200ms"',
        )
    return found


def _begin_anew() -> None:
    for appender in list(_appenders):
        appender._begin()


_appenders: weakref.WeakSet[Appender] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begin_anew)
