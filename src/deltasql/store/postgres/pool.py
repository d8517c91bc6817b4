"""Connections to PostgreSQL: psycopg's for statements, ADBC's for Arrow.

No session state on any of them (no SET, LISTEN or session locks), so that a pooler between
us and the server may hand each transaction to another backend.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from adbc_driver_postgresql import dbapi
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from deltasql.errors import DatabaseError
from deltasql.store.postgres.failures import translated

Connection = psycopg.Connection[tuple[Any, ...]]

_ARROW_ERRORS = (dbapi.Error, pa.ArrowException, OSError)


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
        limit = round(timeout * 1000)
        # Whoever waits for a lock gives up in time, and whoever falls silent with one loses it.
        self._begin = (
            f"BEGIN; SET LOCAL lock_timeout = {limit};"
            f" SET LOCAL idle_in_transaction_session_timeout = {limit}"
        )
        self._pool = ConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=size,
            timeout=timeout,
            kwargs={"autocommit": True},
            configure=_prepare_only_without_pooler,
            open=False,
        )
        self._arrow: queue.LifoQueue[dbapi.Connection] = queue.LifoQueue(size)

    def open(self) -> None:
        """Connect; fails with the server's own words rather than by a timeout."""
        with translated("connecting"):
            psycopg.connect(self._conninfo, autocommit=True).close()
            self._pool.open()

    @contextmanager
    def statement(self, doing: str) -> Iterator[Connection]:
        """A connection for one piece of work."""
        with translated(doing), self._pool.connection() as connection:
            yield connection

    @contextmanager
    def transaction(self, doing: str) -> Iterator[Connection]:
        """A connection inside a transaction that commits at the end."""
        with translated(doing):
            connection = self._begun()
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if not connection.broken:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._pool.putconn(connection)

    def _begun(self) -> Connection:
        """A connection in a new transaction.

        After a restart of the server the pool is full of connections that are dead and don't
        know it; nothing was sent yet, so the next one may be tried.
        """
        for is_last in (*[False] * self._size, True):
            connection = self._pool.getconn()
            try:
                connection.execute(self._begin)
                return connection
            except psycopg.OperationalError:
                self._pool.putconn(connection)
                if is_last or not connection.broken:
                    raise
        raise AssertionError("unreachable")

    def rows(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query that only reads: with a dead connection it is asked again."""
        for is_last in (*[False] * self._size, True):
            try:
                with self.statement("reading the log") as connection:
                    return connection.execute(query, parameters).fetchall()
            except DatabaseError as error:
                if is_last or not error.details.get("connection_lost"):
                    raise
        raise AssertionError("unreachable")

    def arrow(self, query: str) -> Iterator[pa.RecordBatch]:
        """Record batches of a query without parameters, streamed; the first one is empty."""
        connection, cursor = self._run_arrow(query)
        healthy = False
        try:
            # The reader lives no longer than its cursor.
            reader = cursor.fetch_record_batch()
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader
            cursor.close()
            connection.rollback()
            healthy = True
        except _ARROW_ERRORS as error:
            raise _arrow_failure(error) from None
        finally:
            self._give_back(connection, healthy=healthy)

    def _run_arrow(self, query: str) -> tuple[dbapi.Connection, dbapi.Cursor]:
        """Run a query; a pooled connection that went stale is replaced, silently."""
        while True:
            try:
                connection, is_new = self._arrow.get_nowait(), False
            except queue.Empty:
                connection, is_new = self._connect_arrow(), True
            try:
                cursor = connection.cursor()
                cursor.execute(query)
                return connection, cursor
            except _ARROW_ERRORS as error:
                connection.close()
                if is_new:
                    raise _arrow_failure(error) from None

    def _connect_arrow(self) -> dbapi.Connection:
        try:
            return dbapi.connect(self._conninfo)
        except _ARROW_ERRORS as error:
            raise _arrow_failure(error) from None

    def _give_back(self, connection: dbapi.Connection, *, healthy: bool) -> None:
        if healthy:
            try:
                self._arrow.put_nowait(connection)
                return
            except queue.Full:
                pass
        connection.close()

    def connect_alone(self) -> Connection:
        """A connection outside the pool, for who needs a session of its own."""
        return psycopg.connect(self._conninfo, autocommit=True)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        while not self._arrow.empty():
            self._arrow.get_nowait().close()


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


def _arrow_failure(error: Exception) -> DatabaseError:
    return DatabaseError(
        "PostgreSQL failed while reading files",
        cause=str(error).strip(),
        remedy="see the cause; reading again is safe",
        connection_lost=True,
    )
