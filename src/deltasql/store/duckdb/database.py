"""One DuckDB instance per file and process, shared by every store that is open on it.

DuckDB refuses a second process, and two instances of a file in one process would not see each
other's locks.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import duckdb

from deltasql.errors import DatabaseError
from deltasql.store.duckdb.failures import forked, translated
from deltasql.store.embedded.turns import Turns
from deltasql.store.migrations import behind


class Database:
    """An instance, its queue of writers, and its idle connections."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.turns = Turns()
        self.users = 0
        self._pid = os.getpid()
        self._idle: deque[duckdb.DuckDBPyConnection] = deque()
        with translated("opening the database", path):
            self._root = _opened(path)
            self._writer: duckdb.DuckDBPyConnection | None = self._root.cursor()

    @property
    def writer(self) -> duckdb.DuckDBPyConnection:
        """The connection for writing; only for the thread whose turn it is."""
        if self._writer is None:
            self._writer = self._root.cursor()
        return self._writer

    def discard_writer(self) -> None:
        """Make the next writer use a new connection; only for the thread whose turn it is."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @contextmanager
    def reader(self, doing: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one reading task."""
        with translated(doing, self.path):
            connection = self.take()
            try:
                yield connection
            finally:
                self.give_back(connection)

    def take(self) -> duckdb.DuckDBPyConnection:
        """A connection for reading; it must be given back."""
        self.check_process()
        try:
            return self._idle.pop()
        except IndexError:
            return self._root.cursor()

    def give_back(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self.users:
            self._idle.append(connection)
        else:
            connection.close()

    def check_process(self) -> None:
        """Refuse to work in a forked child."""
        if os.getpid() != self._pid:
            raise forked(self.path)

    def close(self) -> None:
        """Release the file; a result that is still being read keeps it open until it ends."""
        while self._idle:
            self._idle.pop().close()
        self.discard_writer()
        self._root.close()


def _opened(path: str) -> duckdb.DuckDBPyConnection:
    """An instance of a file, even after a crash.

    DuckDB can't replay comments on columns in the file that it opens itself; it can in a file that
    is attached to another instance.
    """
    try:
        return duckdb.connect(path)
    except duckdb.InternalException:
        with duckdb.connect() as helper:
            helper.execute(_attachment(path, "crashed"))
            helper.execute("CHECKPOINT crashed")
            helper.execute("DETACH crashed")
        return duckdb.connect(path)


def _attachment(path: str, name: str) -> str:
    # ATTACH takes no parameters.
    quoted = path.replace("'", "''")
    return f"ATTACH '{quoted}' AS {name}"


def open_database(path: str, *, may_create: bool) -> Database:
    """The process's instance of a file."""
    place = Path(path).absolute().resolve()
    if not place.parent.is_dir():
        raise DatabaseError(
            f"{place} can't be opened",
            cause=f"there is no directory {place.parent}",
            remedy="create it; in a URL a path from the root has four slashes: "
            "duckdb:////data/lake.duckdb",
        )
    if not place.exists() and not may_create:
        raise behind(0, "duckdb")
    with _mutex:
        database = _databases.get(str(place))
        if database is None:
            database = _databases[str(place)] = Database(str(place))
        database.check_process()
        database.users += 1
        return database


def close_database(database: Database) -> None:
    """Release one use; the last one closes the file."""
    with _mutex:
        database.users -= 1
        if not database.users:
            _databases.pop(database.path, None)
            database.close()


_mutex = Lock()
_databases: dict[str, Database] = {}
