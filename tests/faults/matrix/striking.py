"""Failures at the moment of a commit, made below the store, where its driver would raise them.

A *commit point* is what ends a transaction: a `COMMIT`, or a statement outside of one. A strike
names the commit point that it meets, so that a verb with several is struck at each of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

import duckdb
import psycopg
import pytest

from deltasql.errors import DatabaseError
from deltasql.store.duckdb.session import DuckdbSession
from deltasql.store.duckdb.store import DuckdbStore
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.sqlite.session import SqliteSession
from deltasql.store.sqlite.store import SqliteStore


class Kind(Enum):
    """What becomes of a commit."""

    LOST_BEFORE = "the connection breaks before the commit is sent"
    LOST_AFTER = "it is committed, and the answer never comes"
    FATAL_AFTER = "it is committed, and the answer is a FATAL from whoever is in between"
    REFUSED = "the database refuses it"
    LOST_NEXT = "it is committed and answered, and what is asked next is lost"


@dataclass(frozen=True)
class Strike:
    """One failure: of which kind, at which commit point, and whether the database stays away."""

    kind: Kind
    at: int
    lasts: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name} at {self.at}{', lasting' if self.lasts else ''}"


class Striker:
    """Counts commit points once it is armed, and strikes at one of them."""

    def __init__(self, strike: Strike) -> None:
        self._strike = strike
        self._points = 0
        self._is_away = False
        self.is_armed = False
        self.has_struck = False

    def run(self, call: Callable[[], Any], *, commits: bool, driver: Driver) -> Any:
        """A statement, as it goes while the strike is in force."""
        if not self.is_armed:
            return call()
        if self._is_away:
            self._is_away = self._strike.lasts
            driver.lose()
        if not commits:
            return call()
        self._points += 1
        if self._points - 1 != self._strike.at:
            return call()
        self.has_struck, self._is_away = True, self._strike.lasts
        match self._strike.kind:
            case Kind.LOST_BEFORE:
                driver.lose()
            case Kind.REFUSED:
                driver.refuse()
            case Kind.LOST_AFTER:
                call()
                driver.lose()
            case Kind.FATAL_AFTER:
                call()
                driver.end()
            case Kind.LOST_NEXT:
                done = call()
                self._is_away = True
                return done
        raise AssertionError("a strike raises")


@dataclass(frozen=True)
class Driver:
    """How a database's driver tells of each failure, having made it happen."""

    lose: Callable[[], NoReturn]
    refuse: Callable[[], NoReturn]
    end: Callable[[], NoReturn]


@contextmanager
def striking(strike: Strike) -> Iterator[Striker]:
    """Every connection of this process is struck, whichever database it is to."""
    striker = Striker(strike)
    with pytest.MonkeyPatch.context() as patch:
        _watch_postgres(patch, striker)
        _watch_embedded(patch, striker, SqliteSession, _sqlite)
        _watch_embedded(patch, striker, DuckdbSession, _duckdb)
        _watch_reads(patch, striker, SqliteStore)
        _watch_reads(patch, striker, DuckdbStore)
        yield striker


def _watch_postgres(patch: pytest.MonkeyPatch, striker: Striker) -> None:
    execute, call = psycopg.Connection.execute, LogConnection.answer

    def watched_execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        return striker.run(
            lambda: execute(self, query, *arguments, **options),
            commits=isinstance(query, str) and query.strip().upper().startswith("COMMIT"),
            driver=_postgres(self, execute),
        )

    def watched_call(self: Any, *arguments: Any, **options: Any) -> Any:
        return striker.run(
            lambda: call(self, *arguments, **options),
            commits=self.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE,
            driver=_postgres(self, execute),
        )

    patch.setattr(psycopg.Connection, "execute", watched_execute)
    patch.setattr(LogConnection, "answer", watched_call)


def _postgres(connection: Any, execute: Callable[..., Any]) -> Driver:
    def lose() -> NoReturn:
        connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def refuse() -> NoReturn:
        execute(connection, "SELECT 1 / 0")
        raise AssertionError("PostgreSQL can divide by zero")

    def end() -> NoReturn:
        # Answered by the server itself, or by the pooler before it, in its own words.
        execute(connection, "SELECT pg_terminate_backend(pg_backend_pid())")
        raise AssertionError("the backend is still there")

    return Driver(lose, refuse, end)


def _watch_embedded(
    patch: pytest.MonkeyPatch,
    striker: Striker,
    session: type,
    driver: Callable[[Any], Driver],
) -> None:
    begin = session.__init__

    class Watched:
        """A connection; the drivers' own classes take no other `execute`."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def execute(self, statement: str, *arguments: Any) -> Any:
            return striker.run(
                lambda: self._inner.execute(statement, *arguments),
                commits=statement == "COMMIT",
                driver=driver(self._inner),
            )

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    def watched(self: Any, connection: Any, *arguments: Any, **options: Any) -> None:
        begin(self, Watched(connection), *arguments, **options)

    patch.setattr(session, "__init__", watched)


def _watch_reads(patch: pytest.MonkeyPatch, striker: Striker, store: type) -> None:
    """Embedded databases read on other connections than they write."""
    rows = store._rows

    def watched(self: Any, name: str, /, **parameters: Any) -> Any:
        return striker.run(
            lambda: rows(self, name, **parameters),
            commits=False,
            driver=Driver(_no_read, _no_read, _no_read),
        )

    patch.setattr(store, "_rows", watched)


def _no_read() -> NoReturn:
    raise DatabaseError("reading the log failed", cause="disk I/O error")


def _sqlite(connection: sqlite3.Connection) -> Driver:
    def failure(name: str, text: str) -> sqlite3.OperationalError:
        error = sqlite3.OperationalError(text)
        error.sqlite_errorname = name
        return error

    def lose() -> NoReturn:
        connection.rollback()
        raise failure("SQLITE_IOERR_FSYNC", "disk I/O error")

    def refuse() -> NoReturn:
        connection.rollback()
        raise failure("SQLITE_FULL", "database or disk is full")

    return Driver(lose, refuse, lose)


def _duckdb(connection: duckdb.DuckDBPyConnection) -> Driver:
    def undo() -> None:
        try:
            connection.rollback()
        except duckdb.TransactionException:
            # Committed, or never begun.
            return

    def lose() -> NoReturn:
        undo()
        raise duckdb.IOException("IO Error: could not fsync file")

    def refuse() -> NoReturn:
        undo()
        raise duckdb.ConstraintException("Constraint Error: duplicate key")

    def end() -> NoReturn:
        undo()
        raise duckdb.FatalException("FATAL Error: the database has been invalidated")

    return Driver(lose, refuse, end)
