"""A long history for a table, generated in SQL: old versions, and files long dead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from tests.parts.postgres import PostgresServer

# A file lives this many versions at most.
_LIFETIME = 50

_VERSIONS = """
INSERT INTO dl_table_versions (
    table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
    operation_params, transaction_id, is_blind_append, digest, body_encoding, body)
SELECT h.table_id, v, 'generated-' || v, to_timestamp((h.last_ict + v) / 1000.0), h.last_ict + v,
       'bench', 'WRITE', '{}', NULL, false, sha256(v::text::bytea), 'raw', '{}'
FROM dl_table_heads AS h, generate_series(h.current_version + 1, %(versions)s::bigint) AS v
WHERE h.table_id = %(table_id)s
"""
_STATUSES = """
INSERT INTO dl_mirror_status (table_id, version, status, digest)
SELECT table_id, version, 'PENDING', digest FROM dl_table_versions AS v
WHERE table_id = %(table_id)s
  AND NOT EXISTS (SELECT FROM dl_mirror_status AS s
                  WHERE s.table_id = v.table_id AND s.version = v.version)
"""
_HEAD = """
UPDATE dl_table_heads
SET last_ict = last_ict + %(versions)s, current_version = %(versions)s
WHERE table_id = %(table_id)s
"""
# Rows as wide as the live ones: each is one of those with another path and other versions.
_DEAD = """
INSERT INTO dl_dead_files ({columns}, path, path_key, version, removed_version,
                           deletion_timestamp, remove_data_change, remove_action)
SELECT {taken}, d.path, substring(sha256(d.path::bytea) FOR 16), d.version,
       d.version + 1 + d.n %% %(lifetime)s, 1770000000000 + d.version, true,
       '{{"dataChange":true,"deletionTimestamp":1770000000000,"path":"' || d.path || '"}}'
FROM (
    SELECT n, 'day=2026-02-01/part-00000-dead-' || lpad(n::text, 26, '0')
              || '-c000.snappy.parquet' AS path,
           %(first)s + n * (%(versions)s - %(lifetime)s - %(first)s) / %(dead)s AS version
    FROM generate_series(0, %(dead)s::bigint - 1) AS n
) AS d
JOIN (
    SELECT a.*, row_number() OVER () - 1 AS place
    FROM (SELECT * FROM dl_active_files WHERE table_id = %(table_id)s LIMIT 1000) AS a
) AS t ON t.place = d.n %% 1000
"""


@contextmanager
def database_copy(server: PostgresServer, source: str, name: str) -> Iterator[str]:
    """A copy of a whole database that nobody is connected to."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        connection.execute(copy.format(sql.Identifier(name), sql.Identifier(source)))
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)


def generate(url: str, name: str, *, versions: int, dead_files: int) -> None:
    """Bring a table to version `versions`, and give it files that came and went meanwhile.

    The live files stay as they are. Bodies of the versions are empty: opening reads none.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        table_id, first = _one(
            connection,
            "SELECT table_id, current_version + 1 FROM dl_tables JOIN dl_table_heads "
            "USING (table_id) WHERE name = %s",
            name,
        )
        values = {
            "table_id": table_id,
            "first": first,
            "versions": versions,
            "dead": dead_files,
            "lifetime": _LIFETIME,
        }
        for statement in (_VERSIONS, _STATUSES, _HEAD):
            connection.execute(statement, values)
        insert_dead(connection, _DEAD, values)


def insert_dead(
    connection: psycopg.Connection, statement: LiteralString, values: Mapping[str, Any]
) -> None:
    """Rows of dead files, which take the columns that `statement` leaves out from live ones.

    Indexes are made anew afterwards: the same indexes, in a fraction of the time.
    """
    indexes = connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'dl_dead_files'"
    ).fetchall()
    given = {"path", "path_key", "version"}
    columns = [
        sql.Identifier(row[0])
        for row in connection.execute(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_name = 'dl_active_files' AND table_schema = 'public' "
            "ORDER BY ordinal_position"
        )
        if row[0] not in given
    ]
    filled = sql.SQL(statement).format(
        columns=sql.SQL(", ").join(columns),
        taken=sql.SQL(", ").join(sql.SQL("t.{}").format(column) for column in columns),
    )
    with connection.transaction():
        for index, _ in indexes:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(index)))
        connection.execute(filled, values)
        for _, definition in indexes:
            connection.execute(definition)


def _one(connection: psycopg.Connection, query: str, *parameters: object) -> tuple[int, int]:
    row = connection.execute(query, parameters).fetchone()
    assert row is not None
    return row[0], row[1]
