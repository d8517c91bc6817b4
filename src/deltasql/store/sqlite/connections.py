"""Connections to a SQLite file: one that writes, and as many readers as are needed at once."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from deltasql.errors import DatabaseError
from deltasql.store.embedded.failures import closed
from deltasql.store.migrations import behind
from deltasql.store.sqlite.failures import forked_in_use, translated

_STATEMENTS = 256
_OLDEST = (3, 37, 0)


class Connections:
    """Opens connections and lends them.

    SQLite does not survive a fork: a child's connections would take the parent's locks for their
    own and hold none. So idle ones are closed before a fork and reopened after it; if some were in
    use, the child may not open the file at all.
    """

    def __init__(self, path: str, *, timeout: float, may_create: bool) -> None:
        self.path = str(Path(path).absolute())
        self._timeout = timeout
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._in_use: set[sqlite3.Connection] = set()
        self._is_closed = False
        _check_release()
        _check_path(Path(self.path), may_create=may_create)
        _pools.add(self)

    def take_writer(self) -> sqlite3.Connection:
        """The connection for writing; only for the thread whose turn it is."""
        with _gate:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._in_use.add(writer)
                return writer
        return self._connect()

    def give_back_writer(self, connection: sqlite3.Connection, *, is_spent: bool = False) -> None:
        """Keep it for the next writer; a spent one is closed."""
        with _gate:
            if self._is_kept(connection):
                if is_spent:
                    connection.close()
                else:
                    self._writer = connection

    def take(self) -> sqlite3.Connection:
        """A connection for reading; it must be given back."""
        with _gate:
            if self._idle:
                connection = self._idle.pop()
                self._in_use.add(connection)
                return connection
        return self._connect()

    def give_back(self, connection: sqlite3.Connection) -> None:
        with _gate:
            if self._is_kept(connection):
                self._idle.append(connection)

    @contextmanager
    def reader(self, doing: str) -> Iterator[sqlite3.Connection]:
        """A connection for one reading task."""
        connection = self.take()
        try:
            with translated(doing, self.path):
                yield connection
        finally:
            self.give_back(connection)

    def close(self) -> None:
        """Close every connection; those in use are closed when they are given back."""
        with _gate:
            self._is_closed = True
            self.close_idle()

    def close_idle(self) -> None:
        """Close idle connections; the caller holds the gate."""
        idle, self._idle = self._idle, []
        if self._writer is not None:
            idle.append(self._writer)
            self._writer = None
        for connection in idle:
            connection.close()

    def forget(self) -> None:
        """In a forked child: never touch what the parent had in use, not even to close it."""
        if self._in_use:
            _unusable.add(self.path)
            _inherited.append(self._in_use)
            self._in_use = set()

    def _is_kept(self, connection: sqlite3.Connection) -> bool:
        if connection not in self._in_use:
            return False
        self._in_use.remove(connection)
        if self._is_closed:
            connection.close()
        return not self._is_closed

    def _connect(self) -> sqlite3.Connection:
        """A new connection, in use."""
        with _gate:
            connection = self._open()
            self._in_use.add(connection)
        try:
            with translated("connecting", self.path):
                # NORMAL could lose a version that was acknowledged and mirrored.
                connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            with _gate:
                self._in_use.discard(connection)
            connection.close()
            raise
        return connection

    def _open(self) -> sqlite3.Connection:
        if self.path in _unusable:
            raise forked_in_use(self.path)
        if self._is_closed:
            raise closed(self.path)
        with translated("connecting", self.path):
            return sqlite3.connect(
                self.path,
                timeout=self._timeout,
                isolation_level=None,
                cached_statements=_STATEMENTS,
                # Used by one thread at a time, but not always the same one.
                check_same_thread=False,
            )


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
        raise behind(0, "sqlite")
    writable = path if path.exists() else path.parent
    if not (os.access(writable, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise DatabaseError(
            f"{path} can't be opened",
            cause=f"this user may not write to {writable} or its directory",
            remedy="make the file and its directory writable for this user",
        )


# --- forks ----------------------------------------------------------------------------

_pools: weakref.WeakSet[Connections] = weakref.WeakSet()
# Held while connections change hands, and while a fork is under way.
_gate = Lock()
_unusable: set[str] = set()
_inherited: list[set[sqlite3.Connection]] = []


def _before_fork() -> None:
    _gate.acquire()
    for pool in list(_pools):
        pool.close_idle()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.forget()
    _gate.release()


os.register_at_fork(
    before=_before_fork, after_in_parent=_gate.release, after_in_child=_after_fork_in_child
)
