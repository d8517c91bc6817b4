"""Arrow out of PostgreSQL: separate ADBC connections, reused, each for one query at a time.

This uses ADBC's plain handles: its DB-API layer imports pandas and Polars if they are installed,
which costs every process 65 MB and half a second.
"""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Final, Protocol

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, Error
from adbc_driver_postgresql import StatementOptions

from deltasql.errors import DatabaseError
from deltasql.secrecy import raise_alone
from deltasql.store.postgres.bulk.spool import spooled
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.forks import keep_untouched

# The approximate batch size. Larger ones are no faster, and several are in memory at a time.
_BATCH_BYTES: Final = 1024 * 1024

# How long a reader waits for another reader's connection, and how often it checks for room.
_FOR_ANOTHERS: Final = 1.0
_LOOK_EVERY: Final = 0.05

# The driver quotes our SQL, all of it.
_STATEMENT: Final = re.compile(r"\s*\bquery was:.*?(?=\. SQLSTATE: |$)", re.IGNORECASE | re.DOTALL)

_ERRORS = (Error, pa.ArrowException, OSError)


class Places(Protocol):
    """The pool that counts connections of both kinds."""

    def take_place(self) -> LogConnection:
        """Room for an ADBC connection; waits for it."""

    def give_place(self, place: LogConnection) -> None:
        """Give it back."""

    @property
    def has_room(self) -> bool:
        """Whether `take_place` would return at once."""

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for a connection of the other kind."""


class ArrowConnections:
    """As many connections as are used at once. Each takes a place in the pool that counts them, and
    keeps it while idle, until somebody there needs it more.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        size: int,
        places: Places,
    ) -> None:
        self._conninfo = conninfo
        self._size = size
        self._places = places
        self._idle: queue.LifoQueue[_Connection] = queue.LifoQueue(size)

    @property
    def idle(self) -> int:
        """How many hold a place in the pool without using it."""
        return self._idle.qsize()

    def begin_with(self, conninfo: str) -> None:
        """Use these settings for new connections."""
        self._conninfo = conninfo

    def batches(self, query: str, *, limit: float) -> Iterator[pa.RecordBatch]:
        """Record batches of a query without parameters, streamed; the first one is empty.

        Nobody waits longer than `limit` for the next one.
        """
        connection = self._taken()
        batches = self._batches(connection, query)
        return spooled(batches, limit=limit, cancel=connection.cancel)

    def _batches(
        self, connection: _Connection, query: str
    ) -> Generator[pa.RecordBatch, None, None]:
        healthy = False
        try:
            reader = self._run(connection, query)
            # It reads from the statement, which must outlive it.
            with reader:
                yield pa.RecordBatch.from_arrays(
                    [pa.nulls(0, item.type) for item in reader.schema], schema=reader.schema
                )
                yield from reader
            connection.end()
            healthy = True
        except _ERRORS as error:
            raise_alone(_failure(error))
        finally:
            self._give_back(connection, healthy=healthy)

    def _run(self, connection: _Connection, query: str) -> pa.RecordBatchReader:
        """Run a query; an idle connection that went stale is silently replaced."""
        if connection.is_open:
            try:
                return connection.run(query)
            except _ERRORS:
                connection.close()
        connection.open(self._conninfo)
        return connection.run(query)

    def _taken(self) -> _Connection:
        """An idle connection, or a new one; while there is no room for that, the next one given
        back, and after a while a regular place in the pool's queue.
        """
        with suppress(queue.Empty):
            return self._idle.get_nowait()
        deadline = time.monotonic() + _FOR_ANOTHERS
        while not self._places.has_room and time.monotonic() < deadline:
            with suppress(queue.Empty):
                return self._idle.get(timeout=_LOOK_EVERY)
        return _Connection(self._places.take_place())

    def _give_back(self, connection: _Connection, *, healthy: bool) -> None:
        if connection.place.is_inherited:
            keep_untouched(connection)
            return
        if healthy:
            try:
                self._idle.put_nowait(connection)
            except queue.Full:
                pass
            else:
                # A thread that began to wait before this one was idle did not see it.
                if self._places.is_wanted:
                    self.close_one()
                return
        connection.close()
        self._places.give_place(connection.place)

    def close_one(self) -> None:
        """Make room for another kind of connection, if one is idle."""
        with suppress(queue.Empty):
            connection = self._idle.get_nowait()
            connection.close()
            self._places.give_place(connection.place)

    def close(self) -> None:
        """Close the idle ones; the pool is already closed, and needs no place back."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def forget(self) -> None:
        """In a forked child: leave the parent's connections alone."""
        keep_untouched(self._idle)
        self._idle = queue.LifoQueue(self._size)


class _Connection:
    """A connection, its place in the pool, and its current statement."""

    def __init__(self, place: LogConnection) -> None:
        self.place = place
        self._statement: AdbcStatement | None = None
        self._connection: AdbcConnection | None = None
        self._database: AdbcDatabase | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self, conninfo: str) -> None:
        self._database = adbc_driver_postgresql.connect(conninfo)
        try:
            self._connection = AdbcConnection(self._database)
            # Within a transaction, a pooler keeps one backend between ADBC's messages.
            self._connection.set_autocommit(False)
        except BaseException:
            self.close()
            raise

    def run(self, query: str) -> pa.RecordBatchReader:
        assert self._connection is not None
        self._statement = AdbcStatement(self._connection)
        self._statement.set_options(
            **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
        )
        self._statement.set_sql_query(query)
        stream, _ = self._statement.execute_query()
        return pa.RecordBatchReader.from_stream(stream)

    def end(self) -> None:
        """End the statement and its transaction."""
        if self._statement is not None:
            self._statement.close()
            self._statement = None
        assert self._connection is not None
        self._connection.rollback()

    def cancel(self) -> None:
        """Tell the server, from another thread, that nobody waits for the answer any more."""
        statement = self._statement
        if statement is not None:
            with suppress(*_ERRORS):
                statement.cancel()

    def close(self) -> None:
        # After a connection broke, closing each of them fails once more.
        for part in (self._statement, self._connection, self._database):
            if part is not None:
                with suppress(*_ERRORS):
                    part.close()
        self._statement = self._connection = self._database = None


def _failure(error: Exception) -> DatabaseError:
    return DatabaseError(
        "PostgreSQL failed while reading files",
        cause=_told(error),
        remedy="see the cause; reading again is safe",
        is_transient=True,
    )


def _told(error: Exception) -> str:
    """What the driver says, without the statement that it repeats."""
    return " ".join(_STATEMENT.sub("", str(error)).split())
