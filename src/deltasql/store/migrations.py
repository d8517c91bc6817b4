"""Bring a database to the schema of this release, or refuse it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Protocol

from deltasql.errors import ConfigError, SchemaVersionError
from deltasql.store import queries


class Connection(Protocol):
    """What psycopg, sqlite3 and duckdb connections have in common."""

    def execute(self, statement: Any, parameters: Any = ..., /) -> Any:
        """Run a statement; the answer has `fetchall`."""


def migrate(connection: Connection, dialect: str, mode: str) -> int:
    """Apply the missing migrations, in order; returns how many were applied.

    Runs in the caller's transaction, which makes it all or nothing; the caller's lock keeps two
    first connects apart. With mode `error`, nothing is applied, and a database that is behind is
    refused. One that is ahead is always refused.
    """
    if mode not in ("create", "error"):
        raise ConfigError(f"sql.schema can't be {mode!r}", remedy="set it to create or to error")
    known = queries.migrations(dialect)
    found = found_version(connection, dialect)
    missing = [migration for migration in known if migration[0] > found]
    if found > known[-1][0]:
        raise _too_new(found, known[-1][0])
    if missing and mode == "error":
        raise behind(found, dialect)
    record = queries.load(dialect)["migration_record"]
    for number, name, script in missing:
        for statement in _statements(script, dialect):
            connection.execute(statement)
        connection.execute(record, {"version": number, "name": name})
    return len(missing)


def newest_version(dialect: str) -> int:
    """The schema version of this release."""
    return queries.migrations("postgres" if dialect == "postgresql" else dialect)[-1][0]


def is_current(connection: Connection, dialect: str) -> bool:
    """Whether nothing needs to be done; this check needs no lock."""
    return found_version(connection, dialect) == queries.migrations(dialect)[-1][0]


def found_version(connection: Connection, dialect: str) -> int:
    """The number of the newest migration in the database; 0 if it is empty."""
    texts = queries.load(dialect)
    # The catalog is asked first: a failing query would abort a transaction in PostgreSQL.
    if not connection.execute(texts["migrations_exist"]).fetchall():
        return 0
    ((newest,),) = connection.execute(texts["migration_newest"]).fetchall()
    return int(newest or 0)


def _statements(script: str, dialect: str) -> Iterator[str]:
    """The whole script, except for SQLite, whose driver takes one statement at a time."""
    if dialect != "sqlite":
        yield script
        return
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def behind(found: int, dialect: str) -> SchemaVersionError:
    """The error for a database that may not be migrated; 0 stands for one that does not exist."""
    expected = queries.migrations(dialect)[-1][0]
    told = f"the database has schema version {found}; this release needs {expected}"
    cause = "an older release of deltasql made it, and sql.schema is error"
    if not found:
        told, cause = "there is no lake in this database", "it has no log, and sql.schema is error"
    return SchemaVersionError(
        told,
        cause=cause,
        remedy="connect once with sql.schema set to create, as a role that may create tables",
        found=found,
        expected=expected,
    )


def _too_new(found: int, expected: int) -> SchemaVersionError:
    return SchemaVersionError(
        f"the database has schema version {found}; this release knows {expected} at most",
        cause="a newer release of deltasql has migrated it",
        remedy="upgrade deltasql",
        found=found,
        expected=expected,
    )
