"""Connections to a SQLite file: one that writes, and as many that read as are needed at once."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltasql.errors import DatabaseError
from deltasql.store.sqlite.failures import translated

_STATEMENTS = 256
_OLDEST = (3, 37, 0)


class Connections:
    """Opens connections and gives them out; a forked child starts with none."""

    def __init__(self, path: str, *, timeout: float, may_create: bool) -> None:
        self.path = str(Path(path).absolute())
        self._timeout = timeout
        self._writer: sqlite3.Connection | None = None
        self._idle: deque[sqlite3.Connection] = deque()
        # Every connection, so that none is closed by the collector in a forked child.
        self._all: set[sqlite3.Connection] = set()
        _check_release()
        _check_path(Path(self.path), may_create=may_create)
        _pools.add(self)

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection that writes; for the thread whose turn it is."""
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    @contextmanager
    def reader(self, doing: str) -> Iterator[sqlite3.Connection]:
        """A connection that reads, for one piece of work."""
        with translated(doing, self.path):
            connection = self.take()
            try:
                yield connection
            finally:
                self.give_back(connection)

    def take(self) -> sqlite3.Connection:
        """A connection that reads; it must be given back."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Take a reader back; one that the parent of a fork lent is left alone."""
        if connection in self._all:
            self._idle.append(connection)

    def close(self) -> None:
        """Close every connection."""
        connections, self._all = self._all, set()
        self._writer = None
        self._idle.clear()
        for connection in connections:
            connection.close()

    def forget(self) -> None:
        """In a forked child: never touch the parent's connections, not even to close them."""
        _inherited.append(self._all)
        self._all = set()
        self._idle = deque()
        self._writer = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._timeout,
            isolation_level=None,
            cached_statements=_STATEMENTS,
            # One thread at a time, but not always the same one.
            check_same_thread=False,
        )
        # NORMAL could lose a version that was acknowledged and mirrored.
        connection.execute("PRAGMA synchronous = FULL")
        self._all.add(connection)
        return connection


def _check_release() -> None:
    if sqlite3.sqlite_version_info < _OLDEST:
        raise DatabaseError(
            f"SQLite {sqlite3.sqlite_version} is too old",
            cause="the schema has STRICT tables, which came with 3.37",
            remedy="use a Python with a newer SQLite",
        )


def _check_path(path: Path, *, may_create: bool) -> None:
    if not path.parent.is_dir():
        raise DatabaseError(
            f"{path} can't be opened",
            cause=f"there is no directory {path.parent}",
            remedy="create it; in a URL a path from the root has four slashes: sqlite:////data/lake.db",
        )
    if path.is_dir():
        raise DatabaseError(
            f"{path} can't be opened", cause="it is a directory", remedy="name a file"
        )
    if not path.exists() and not may_create:
        raise DatabaseError(
            f"there is no database {path}",
            cause="sql.schema is error, so that none is created",
            remedy="correct the path, run `deltasql db migrate`, or set sql.schema to create",
        )
    writable = path if path.exists() else path.parent
    if not (os.access(writable, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise DatabaseError(
            f"{path} can't be opened",
            cause=f"this user may not write to {writable} or its directory",
            remedy="make the file and its directory writable for this user",
        )


_pools: weakref.WeakSet[Connections] = weakref.WeakSet()
_inherited: list[set[sqlite3.Connection]] = []


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


os.register_at_fork(after_in_child=_forget_all)
