"""DuckLake: a lake whose catalogue is in the same PostgreSQL, written by DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from duckdb_extensions import import_extension

from bench.files import three_rows
from bench.workers import prepared

# More than a writer inserts in one round.
_INSERTS = 3_000


@contextmanager
def attached(port: int, database: str, data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the lake attached; rows go to files, not into the catalogue."""
    import_extension("ducklake")
    import_extension("postgres")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("LOAD postgres")
        connection.execute("LOAD ducklake")
        source = f"ducklake:postgres:dbname={database} host=127.0.0.1 port={port} user=postgres"
        connection.execute(
            f"ATTACH '{source}' AS lake (DATA_PATH '{data}', DATA_INLINING_ROW_LIMIT 0)"
        )
        yield connection


@contextmanager
def appender(
    port: int, database: str, data: Path, table: str, worker: int
) -> Iterator[Callable[[int], Any]]:
    """Inserts three given rows; conflicts are retried as DuckLake does by default."""

    def values(turn: int) -> list[Any]:
        rows = zip(*three_rows(worker, turn).values(), strict=True)
        return [value for row in rows for value in row]

    given = prepared(values, turns=_INSERTS)
    with attached(port, database, data) as connection:
        statement = f"INSERT INTO lake.{table} VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?)"
        yield lambda turn: connection.execute(statement, given(turn))


def create_tables(port: int, database: str, data: Path, names: list[str]) -> None:
    with attached(port, database, data) as connection:
        for name in names:
            connection.execute(f"CREATE TABLE lake.{name} (id BIGINT, name TEXT, amount DOUBLE)")


def count_rows(port: int, database: str, data: Path, names: list[str]) -> int:
    """Rows in all tables."""
    with attached(port, database, data) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM lake.{name}").fetchall() for name in names
        ]
    return sum(rows[0][0] for rows in counts)


def describe(port: int, database: str, data: Path) -> dict[str, str]:
    """Versions and the settings that decide retries."""
    with attached(port, database, data) as connection:
        settings = connection.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name LIKE 'ducklake%retry%' "
            "UNION ALL SELECT extension_name, extension_version FROM duckdb_extensions() "
            "WHERE extension_name IN ('ducklake', 'postgres_scanner')"
        ).fetchall()
    return {name: str(value) for name, value in settings}
