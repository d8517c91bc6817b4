"""PostgreSQL itself: the least that any log on it has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

_SCHEMA = """
CREATE TABLE heads (table_id bigint PRIMARY KEY, current_version bigint NOT NULL)
    WITH (fillfactor = 10);
CREATE TABLE versions (
    table_id bigint NOT NULL, version bigint NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (table_id, version));
ALTER TABLE versions ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO heads VALUES (1, 0);
"""
_COMMIT = """
WITH head AS (
    UPDATE heads SET current_version = current_version + 1
    WHERE table_id = %s
    RETURNING table_id, current_version)
INSERT INTO versions SELECT table_id, current_version, %s FROM head
RETURNING version
"""


def create_log(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SCHEMA)


def version(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_version FROM heads").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def committer(url: str, body_size: int, worker: int) -> Iterator[Callable[[int], Any]]:
    """One statement a commit: the head moves, a version of that size is written."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        filler = b"x" * max(0, body_size - 24)

        def commit(turn: int) -> None:
            body = b"%024d" % (worker * 10**12 + turn) + filler
            connection.execute(_COMMIT, (1, body), binary=True).fetchone()

        yield commit


# --- COPY -----------------------------------------------------------------------------


def create_twin(url: str, table: str, twin: str) -> None:
    """A table with the same columns, constraints and indexes."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {twin} (LIKE {table} INCLUDING ALL)")


def copy_out(url: str, query: str) -> list[bytes]:
    """The rows of a query as COPY text."""
    with (
        psycopg.connect(url) as connection,
        connection.cursor() as cursor,
        cursor.copy(f"COPY ({query}) TO STDOUT") as copy,
    ):
        text = b"".join(bytes(part) for part in copy)
    size = 1 << 18
    return [text[start : start + size] for start in range(0, len(text), size)]


def copy_in(connection: psycopg.Connection[Any], table: str, chunks: Sequence[bytes]) -> None:
    """COPY prepared text into a table and commit."""
    with (
        connection.transaction(),
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} FROM STDIN") as copy,
    ):
        for chunk in chunks:
            copy.write(chunk)


def settings(url: str) -> dict[str, str]:
    """The server's version and what decides its durability and speed."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ("
            "'server_version', 'fsync', 'synchronous_commit', 'full_page_writes', "
            "'wal_sync_method', 'shared_buffers', 'max_wal_size') ORDER BY name"
        ).fetchall()
    return dict(found)
