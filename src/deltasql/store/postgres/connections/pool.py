"""Connections to PostgreSQL: psycopg's for statements, ADBC's for Arrow.

None of them has session state (no SET, LISTEN or session locks), so that a pooler between us and
the server may give each transaction to another backend.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import psycopg
import pyarrow as pa
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from deltasql.errors import DatabaseError
from deltasql.secrecy import Hidden, raise_alone
from deltasql.store import queries
from deltasql.store.postgres.bulk.arrow import ArrowConnections
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.failures import (
    FAILURES,
    not_committed,
    translate,
    translated,
)
from deltasql.store.postgres.connections.forks import forget_after_fork, keep_untouched
from deltasql.store.postgres.connections.limits import Limits
from deltasql.store.postgres.connections.takeover import ServerWatch, TakenOverError


class Connections:
    """A pool of autocommit connections, which counts those for Arrow, too."""

    def __init__(
        self, url: str, *, size: int, timeout: float, connecting: float | None = None
    ) -> None:
        # How long a connection may take; where others are as good, not the whole time.
        self._connecting = timeout if connecting is None else connecting
        # A peer that is gone without notice must not hold up a commit for ever.
        given_limits: dict[str, str | int] = {
            "connect_timeout": max(2, round(self._connecting)),
            "tcp_user_timeout": round(timeout * 1000),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "application_name": "deltasql",
        }
        with translated("reading the connection URL"):
            given = psycopg.conninfo.conninfo_to_dict(url)
            missing = {key: value for key, value in given_limits.items() if key not in given}
            self._conninfo = Hidden(make_conninfo(url, **missing))
        self._size = size
        self._limits = limits = Limits(timeout)
        # The lock timeout that a statement outside a transaction must set for itself: None if
        # connections start with it, which a pooler would not allow.
        self.lock_timeout: str | None = f"{limits.lock_ms}ms"
        self._arrow = ArrowConnections(self._conninfo, size=size, places=self)
        self._pool: ConnectionPool[LogConnection] | None = None
        # The user that the server takes us for, wherever that was set.
        self.user: str | None = None
        self.servers = ServerWatch()
        self._opening = threading.Lock()
        forget_after_fork(self)

    def open(self) -> None:
        """Connect; fails with the server's own message rather than by a timeout."""
        with translated("connecting"):
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                direct = not is_pooled(connection)
                self.user = connection.info.user or None
            if direct and "options" not in psycopg.conninfo.conninfo_to_dict(self._conninfo):
                options = self._limits.options
                self._conninfo = Hidden(
                    make_conninfo(self._conninfo, options=options.for_statements)
                )
                streams = make_conninfo(self._conninfo, options=options.for_streams)
                self._arrow.begin_with(Hidden(streams))
                self.lock_timeout = None
            self._pool = self._new_pool()

    def _new_pool(self, *, is_open: bool = True) -> ConnectionPool[LogConnection]:
        return ConnectionPool(
            self._conninfo,
            connection_class=LogConnection,
            min_size=1,
            max_size=self._size,
            timeout=self._connecting,
            kwargs={"autocommit": True},
            configure=self._configure,
            open=is_open,
        )

    def forget(self) -> None:
        """In a forked child: leave the parent's connections alone, and open others when needed."""
        keep_untouched(self._pool)
        self._pool = None
        self._opening = threading.Lock()
        self._arrow.forget()

    def _opened(self) -> ConnectionPool[LogConnection]:
        """The pool; in a forked child it starts with the first use."""
        if self._pool is None:
            with self._opening:
                if self._pool is None:
                    self._pool = self._new_pool()
        return self._pool

    def _configure(self, connection: LogConnection) -> None:
        _prepare_only_without_pooler(connection)
        self.servers.meet(connection)

    @contextmanager
    def statement(self, doing: str) -> Iterator[LogConnection]:
        """A connection for one task."""
        with translated(doing):
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def transaction(self, doing: str, *, is_long: bool = False) -> Iterator[LogConnection]:
        """A connection inside a transaction that commits at the end.

        A long transaction may run statements that take longer than the usual limit, as long as the
        server is alive.
        """
        with translated(doing):
            connection = self._begun(is_long=is_long)
            try:
                try:
                    yield connection
                except BaseException:
                    _roll_back(connection)
                    raise
                _commit(connection, doing)
            finally:
                self._give_back(connection)

    def begin_again(self, connection: LogConnection) -> None:
        """Discard what a long transaction did so far, and continue in a new one."""
        connection.execute("ROLLBACK")
        connection.execute(self._limits.begin_long)

    @contextmanager
    def limited(self, connection: LogConnection) -> Iterator[None]:
        """Inside a long transaction: a limit for statements that may wait for others."""
        limit = queries.load("postgres")["staging_limit"]
        connection.execute(limit, {"milliseconds": self._limits.statement_ms})
        yield
        connection.execute(limit, {"milliseconds": 0})

    def answer(self, query: str, parameters: Mapping[str, Any], doing: str) -> str:
        """The text that a statement returns; the statement is a transaction of its own."""
        # Spelled out: this is the hot path, and context managers cost as much as the pool.
        try:
            connection = self._take()
            try:
                return connection.answer(query, parameters)
            finally:
                self._give_back(connection)
        except FAILURES as error:
            raise_alone(translate(error, doing))

    def _take(self) -> LogConnection:
        takeovers = self.servers.takeovers
        pool = self._opened()
        if self._arrow.idle and self._is_exhausted(pool):
            self._arrow.close_one()
        connection = pool.getconn()
        if connection.takeovers != takeovers:
            self._refuse(connection)
        connection.patience = self._limits.patience
        connection.cancels = self.lock_timeout is not None
        connection.pulse = None
        return connection

    def _is_exhausted(self, pool: ConnectionPool[LogConnection]) -> bool:
        stats = pool.get_stats()
        return not stats.get("pool_available") and stats.get("pool_size", 0) >= self._size

    def _refuse(self, connection: LogConnection) -> NoReturn:
        """Refuse to go on after another server has taken over, before or while we waited: close
        connections to the old one, and raise as for a lost connection.
        """
        pool = self._opened()
        if connection.takeovers < self.servers.takeovers:
            pool.drain()
        pool.putconn(connection)
        raise TakenOverError

    def _give_back(self, connection: LogConnection) -> None:
        if connection.is_inherited:
            keep_untouched(connection)
            return
        if connection.is_spent:
            connection.close()
        self._opened().putconn(connection)

    @property
    def has_room(self) -> bool:
        """Whether a connection is available at once."""
        return not self._is_exhausted(self._opened())

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for a connection."""
        return self._opened().get_stats().get("requests_waiting", 0) > 0

    def take_place(self) -> LogConnection:
        """Room for an ADBC connection: one of ours is closed, and not replaced until the place is
        given back. So both kinds together never exceed the pool's size.
        """
        with translated("reading files"):
            connection = self._take()
            connection.close()
            connection.is_place = True
            return connection

    def give_place(self, place: LogConnection) -> None:
        """Let the pool connect again."""
        with suppress(psycopg.Error):
            self._opened().putconn(place)

    def _begun(self, *, is_long: bool) -> LogConnection:
        """A connection in a new transaction.

        After a restart of the server, the pool is full of connections that are dead but don't know
        it; nothing was sent yet, so the next one may be tried.
        """
        deadline = time.monotonic() + self._limits.timeout
        takeovers = self.servers.takeovers
        for is_last in (*[False] * self._size, True):
            connection = self._take()
            # The transaction has limits in the server itself.
            connection.cancels = False
            try:
                if connection.takeovers != takeovers:
                    raise TakenOverError
                connection.execute(self._limits.begin_long if is_long else self._limits.begin)
            except psycopg.OperationalError:
                self._give_back(connection)
                if is_last or not connection.closed or time.monotonic() > deadline:
                    raise
            else:
                if is_long:
                    connection.pulse = self._is_answered
                return connection
        raise AssertionError("unreachable")

    def _is_answered(self) -> bool:
        """Whether the server answers new connections: then a silent one is busy."""
        try:
            with LogConnection.connect(self._conninfo, autocommit=True) as connection:
                connection.patience = self._limits.patience
                connection.execute("SELECT 1", prepare=False)
        except psycopg.Error:
            return False
        return True

    def rows(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query that only reads; it is repeated if the connection was dead."""
        deadline = time.monotonic() + self._limits.timeout
        for is_last in (*[False] * self._size, True):
            try:
                with self.statement("reading the log") as connection:
                    return connection.execute(query, parameters).fetchall()
            except DatabaseError as error:
                if is_last or not error.is_transient or time.monotonic() > deadline:
                    raise
        raise AssertionError("unreachable")

    def arrow(self, query: str) -> Iterator[pa.RecordBatch]:
        """Record batches of a query without parameters, streamed; the first one is empty."""
        return self._arrow.batches(query, limit=self._limits.patience)

    def usage(self) -> tuple[int, int]:
        """How many connections are in use, and how many threads wait for one."""
        stats = self._opened().get_stats()
        idle = stats.get("pool_available", 0) + self._arrow.idle
        return stats.get("pool_size", 0) - idle, stats.get("requests_waiting", 0)

    def connect_alone(self) -> LogConnection:
        """A connection outside the pool, for callers that need their own session."""
        return LogConnection.connect(self._conninfo, autocommit=True)

    def close(self) -> None:
        """Close every connection."""
        # A forked child that never needed a pool has none; it gets none after its end.
        pool = self._pool = self._pool or self._new_pool(is_open=False)
        pool.close()
        self._arrow.close()


def _is_news(record: logging.LogRecord) -> bool:
    """False for the pool's warning that a place or a spent connection came back closed."""
    given = record.args if isinstance(record.args, tuple) else ()
    return not any(
        isinstance(item, LogConnection) and (item.is_place or item.is_spent) for item in given
    )


logging.getLogger("psycopg.pool").addFilter(_is_news)


def _commit(connection: LogConnection, doing: str) -> None:
    """End a transaction; if anything goes wrong here, it may still have been committed."""
    try:
        answer = connection.execute("COMMIT").statusmessage
    except FAILURES as error:
        raise_alone(translate(error, doing, at_commit=True))
    if answer != "COMMIT":
        raise not_committed(doing)


def _roll_back(connection: LogConnection) -> None:
    """Undo a transaction; the original failure is the one to report."""
    if connection.closed or connection.is_inherited:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        # Never used again, so that nobody commits its open transaction.
        connection.close()


def _prepare_only_without_pooler(connection: LogConnection) -> None:
    """Disable prepared statements behind a pooler, where the next transaction may run on another
    backend: the process id that we were given is then not the backend's.
    """
    if is_pooled(connection):
        connection.is_pooled = True
        connection.prepare_threshold = None


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether there is a pooler between us and the server."""
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    return row is None or bool(row[0] != connection.info.backend_pid)
