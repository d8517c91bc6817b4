"""Connections to PostgreSQL: psycopg's for statements, ADBC's for Arrow.

No session state on any of them (no SET, LISTEN or session locks), so that a pooler between
us and the server may hand each transaction to another backend.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from deltasql.errors import DatabaseError
from deltasql.store.postgres.arrow import ArrowConnections
from deltasql.store.postgres.connection import Call, LogConnection, Values
from deltasql.store.postgres.failures import FAILURES, not_committed, translate, translated

# More than a server needs to say that it gave up on a lock.
_GRACE = 1.0
# Looked up once: an enumeration's members are slow to reach.
_IDLE = pq.TransactionStatus.IDLE
# How often a connection is used before the pool gets to look at it.
_USES_AT_HAND = 1_000


class Connections:
    """A pool of autocommit connections, and a few for Arrow beside it."""

    def __init__(self, url: str, *, size: int, timeout: float) -> None:
        # A peer that is gone without a word must not hold a commit for ever.
        limits: dict[str, str | int] = {
            "connect_timeout": max(2, round(timeout)),
            "tcp_user_timeout": round(timeout * 1000),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "application_name": "deltasql",
        }
        with translated("reading the connection URL"):
            given = psycopg.conninfo.conninfo_to_dict(url)
            missing = {key: value for key, value in limits.items() if key not in given}
            self._conninfo = make_conninfo(url, **missing)
        self._size = size
        self._patience = timeout + _GRACE
        self._timeout = timeout
        limit = round(timeout * 1000)
        # The limit on waiting for locks that a statement outside a transaction has to set for
        # itself: none where connections begin with it, which a pooler would not let them.
        self.lock_timeout: str | None = f"{limit}ms"
        # Whoever waits for a lock gives up in time, and whoever falls silent with one loses it.
        self._begin = (
            f"BEGIN; SET LOCAL lock_timeout = {limit};"
            f" SET LOCAL idle_in_transaction_session_timeout = {limit}"
        )
        self._arrow = ArrowConnections(self._conninfo, size=size)
        self._at_hand: deque[LogConnection] = deque()
        self._waiting = 0
        self._counting = threading.Lock()

    def open(self) -> None:
        """Connect; fails with the server's own words rather than by a timeout."""
        with translated("connecting"):
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                direct = not is_pooled(connection)
            conninfo = self._conninfo
            if direct and "options" not in psycopg.conninfo.conninfo_to_dict(conninfo):
                conninfo = make_conninfo(conninfo, options=f"-c lock_timeout={self.lock_timeout}")
                self.lock_timeout = None
            self._pool = ConnectionPool(
                conninfo,
                connection_class=LogConnection,
                min_size=1,
                max_size=self._size,
                timeout=self._timeout,
                kwargs={"autocommit": True},
                configure=_prepare_only_without_pooler,
                open=True,
            )

    @contextmanager
    def statement(self, doing: str) -> Iterator[LogConnection]:
        """A connection for one piece of work."""
        with translated(doing):
            connection = self._take(self._patience)
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def transaction(self, doing: str, *, is_long: bool = False) -> Iterator[LogConnection]:
        """A connection inside a transaction that commits at the end.

        A long one may have statements that take longer than anyone should wait for an answer.
        """
        with translated(doing):
            connection = self._begun(None if is_long else self._patience)
            try:
                try:
                    yield connection
                except BaseException:
                    _roll_back(connection)
                    raise
                _commit(connection, doing)
            finally:
                self._give_back(connection)

    def call(self, call: Call, values: Values, doing: str) -> str:
        """The answer to a call that is a transaction of its own."""
        # Written out: context managers would take longer than the work between them.
        try:
            connection = self._take(self._patience)
            try:
                return connection.call(call, values)
            finally:
                self._give_back(connection)
        except FAILURES as error:
            raise translate(error, doing) from None

    def _take(self, patience: float | None) -> LogConnection:
        try:
            connection = self._at_hand.pop()
        except IndexError:
            connection = self._wait_for_one()
        connection.patience = patience
        return connection

    def _wait_for_one(self) -> LogConnection:
        with self._counting:
            self._waiting += 1
        try:
            # Whoever gave one back before seeing us wait has left it here.
            return self._at_hand.pop() if self._at_hand else self._pool.getconn()
        except IndexError:
            return self._pool.getconn()
        finally:
            with self._counting:
                self._waiting -= 1

    def _give_back(self, connection: LogConnection) -> None:
        """Keep one connection at hand, past the pool: its bookkeeping is a tenth of a commit.

        It goes to the pool now and then, which retires old ones, and at once when it is not as
        it was or somebody waits there.
        """
        connection.uses += 1
        is_clean = connection.pgconn.transaction_status == _IDLE
        if not is_clean or connection.uses % _USES_AT_HAND == 0:
            self._pool.putconn(connection)
            return
        self._at_hand.append(connection)
        if self._waiting or len(self._at_hand) > 1:
            with suppress(IndexError):
                self._pool.putconn(self._at_hand.popleft())

    def _begun(self, patience: float | None) -> LogConnection:
        """A connection in a new transaction.

        After a restart of the server the pool is full of connections that are dead and don't
        know it; nothing was sent yet, so the next one may be tried.
        """
        for is_last in (*[False] * self._size, True):
            connection = self._take(self._patience)
            try:
                connection.execute(self._begin)
            except psycopg.OperationalError:
                self._give_back(connection)
                if is_last or not connection.closed:
                    raise
            else:
                connection.patience = patience
                return connection
        raise AssertionError("unreachable")

    def rows(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query that only reads: with a dead connection it is asked again."""
        for is_last in (*[False] * self._size, True):
            try:
                with self.statement("reading the log") as connection:
                    return connection.execute(query, parameters).fetchall()
            except DatabaseError as error:
                if is_last or not error.is_transient:
                    raise
        raise AssertionError("unreachable")

    def arrow(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        """Record batches of a query without parameters, streamed; the first one is empty."""
        return self._arrow.batches(query)

    def usage(self) -> tuple[int, int]:
        """How many connections are in use, and how many threads wait for one."""
        stats = self._pool.get_stats()
        idle = stats.get("pool_available", 0) + len(self._at_hand)
        return stats.get("pool_size", 0) - idle, stats.get("requests_waiting", 0)

    def connect_alone(self) -> LogConnection:
        """A connection outside the pool, for who needs a session of its own."""
        return LogConnection.connect(self._conninfo, autocommit=True)

    def close(self) -> None:
        """Close every connection."""
        while self._at_hand:
            self._pool.putconn(self._at_hand.pop())
        self._pool.close()
        self._arrow.close()


def _commit(connection: LogConnection, doing: str) -> None:
    """End a transaction; whatever goes wrong here, it may have been committed."""
    try:
        answer = connection.execute("COMMIT").statusmessage
    except FAILURES as error:
        raise translate(error, doing, at_commit=True) from None
    if answer != "COMMIT":
        raise not_committed(doing)


def _roll_back(connection: LogConnection) -> None:
    """Undo a transaction; the failure that led here is the one to show."""
    if connection.closed:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        # Never to be used again, so that nobody commits what is open in it.
        connection.close()


def _prepare_only_without_pooler(connection: psycopg.Connection[Any]) -> None:
    """Behind a pooler the process id we were told is not the backend's: then no prepared
    statements, since the next transaction may run on another backend.
    """
    if is_pooled(connection):
        connection.prepare_threshold = None


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler stands between us and the server."""
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return row is None or bool(row[0] != connection.info.backend_pid)
