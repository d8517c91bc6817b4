"""Arrow out of PostgreSQL: connections of ADBC's own, reused, each for one query at a time.

By ADBC's plain handles: its DB-API layer imports pandas and Polars wherever they are installed,
which costs every process of ours 65 MB and half a second.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Final, Protocol

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, Error
from adbc_driver_postgresql import StatementOptions

from deltasql.errors import DatabaseError
from deltasql.store.postgres.bulk.spool import spooled
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.forks import keep_untouched

# Of the batches, about. Larger ones are no faster, and several are in memory at a time.
_BATCH_BYTES: Final = 1024 * 1024

# How long a reader waits for a connection of another, and how often it looks for room meanwhile.
_FOR_ANOTHERS: Final = 1.0
_LOOK_EVERY: Final = 0.05

_ERRORS = (Error, pa.ArrowException, OSError)


class Places(Protocol):
    """The pool that connections of both kinds are counted in."""

    def take_place(self) -> LogConnection:
        """Room for one of ADBC's, waited for."""

    def give_place(self, place: LogConnection) -> None:
        """Give it back."""

    @property
    def has_room(self) -> bool:
        """Whether `take_place` would not have to wait."""

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for a connection of the other kind."""


class ArrowConnections:
    """As many as are used at once. Each takes a place in the pool that they are counted in, and
    keeps it while it is idle, until somebody there needs it more.
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
        """How many have a place in the pool and no use for it."""
        return self._idle.qsize()

    def begin_with(self, conninfo: str) -> None:
        """Connect with these settings from now on."""
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
            # It reads from the statement, which has to outlive it.
            with reader:
                yield pa.RecordBatch.from_arrays(
                    [pa.nulls(0, item.type) for item in reader.schema], schema=reader.schema
                )
                yield from reader
            connection.end()
            healthy = True
        except _ERRORS as error:
            raise _failure(error) from None
        finally:
            self._give_back(connection, healthy=healthy)

    def _run(self, connection: _Connection, query: str) -> pa.RecordBatchReader:
        """Run a query; an idle connection that went stale is replaced, silently."""
        if connection.is_open:
            try:
                return connection.run(query)
            except _ERRORS:
                connection.close()
        connection.open(self._conninfo)
        return connection.run(query)

    def _taken(self) -> _Connection:
        """One that is idle, or a new one; while there is no room for that, the next that is given
        back, and in the end one's turn among those who wait for the pool.
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
                # Whoever began to wait before it was there did not see it.
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
        """Close those that are idle; the pool is closed already, and needs no place back."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def forget(self) -> None:
        """In a forked child: leave the parent's connections alone."""
        keep_untouched(self._idle)
        self._idle = queue.LifoQueue(self._size)


class _Connection:
    """A connection, its place in the pool, and the statement that it is at."""

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
            # A transaction holds a pooler to one backend between ADBC's messages.
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
        """Tell the server, from another thread, that nobody waits for the answer."""
        statement = self._statement
        if statement is not None:
            with suppress(*_ERRORS):
                statement.cancel()

    def close(self) -> None:
        # Of a connection that broke, each of them says so once more.
        for part in (self._statement, self._connection, self._database):
            if part is not None:
                with suppress(*_ERRORS):
                    part.close()
        self._statement = self._connection = self._database = None


def _failure(error: Exception) -> DatabaseError:
    return DatabaseError(
        "PostgreSQL failed while reading files",
        cause=str(error).strip(),
        remedy="see the cause; reading again is safe",
        is_transient=True,
    )
