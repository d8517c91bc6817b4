"""Arrow out of PostgreSQL: connections of ADBC's own, reused, each for one query at a time.

By ADBC's plain handles: its DB-API layer imports pandas and Polars wherever they are installed,
which costs every process of ours 65 MB and half a second.
"""

from __future__ import annotations

import queue
from collections.abc import Generator
from contextlib import suppress
from typing import Final

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, Error
from adbc_driver_postgresql import StatementOptions

from deltasql.errors import DatabaseError

# Of the batches, about. Larger ones are no faster, and several are in memory at a time.
_BATCH_BYTES: Final = 1024 * 1024

_ERRORS = (Error, pa.ArrowException, OSError)


class ArrowConnections:
    """As many as are used at once, and at most `size` kept."""

    def __init__(self, conninfo: str, *, size: int) -> None:
        self._conninfo = conninfo
        self._idle: queue.LifoQueue[_Connection] = queue.LifoQueue(size)

    def batches(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        """Record batches of a query without parameters, streamed; the first one is empty."""
        connection, reader = self._run(query)
        healthy = False
        try:
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

    def _run(self, query: str) -> tuple[_Connection, pa.RecordBatchReader]:
        """Run a query; an idle connection that went stale is replaced, silently."""
        while True:
            try:
                try:
                    connection, is_new = self._idle.get_nowait(), False
                except queue.Empty:
                    connection, is_new = _Connection(self._conninfo), True
            except _ERRORS as error:
                raise _failure(error) from None
            try:
                return connection, connection.run(query)
            except _ERRORS as error:
                connection.close()
                if is_new:
                    raise _failure(error) from None

    def _give_back(self, connection: _Connection, *, healthy: bool) -> None:
        if healthy:
            try:
                self._idle.put_nowait(connection)
                return
            except queue.Full:
                pass
        connection.close()

    def close(self) -> None:
        """Close those that are idle."""
        while not self._idle.empty():
            self._idle.get_nowait().close()


class _Connection:
    """A connection, and the statement that it is at."""

    def __init__(self, conninfo: str) -> None:
        self._statement: AdbcStatement | None = None
        self._database: AdbcDatabase = adbc_driver_postgresql.connect(conninfo)
        try:
            self._connection = AdbcConnection(self._database)
            # A transaction holds a pooler to one backend between ADBC's messages.
            self._connection.set_autocommit(False)
        except BaseException:
            self._database.close()
            raise

    def run(self, query: str) -> pa.RecordBatchReader:
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
        self._connection.rollback()

    def close(self) -> None:
        # Of a connection that broke, each of them says so once more.
        for part in (self._statement, self._connection, self._database):
            if part is not None:
                with suppress(*_ERRORS):
                    part.close()


def _failure(error: Exception) -> DatabaseError:
    return DatabaseError(
        "PostgreSQL failed while reading files",
        cause=str(error).strip(),
        remedy="see the cause; reading again is safe",
        is_transient=True,
    )
