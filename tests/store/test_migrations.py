"""Migrations from zero give the head schema, and the head schemas of the dialects agree."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from deltasql.errors import ConfigError, LocationTakenError, SchemaVersionError
from deltasql.store import queries
from deltasql.store.connect import open_log
from deltasql.store.migrations import migrate
from deltasql.testing.proposals import create
from tests.parts.postgres import PostgresServer

Catalog = list[tuple[Any, ...]]


def head(dialect: str) -> str:
    folder = files("deltasql.store") / "sql" / dialect
    names = ("schema.sql", "functions.sql") if dialect == "postgres" else ("schema.sql",)
    return "\n".join((folder / name).read_text() for name in names)


# --- migrations equal the head schema -------------------------------------------------


def sqlite_catalog(connection: sqlite3.Connection) -> Catalog:
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()


def test_sqlite_migrations_equal_head():
    migrated, made = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    assert migrate(migrated, "sqlite", "create") == len(queries.migrations("sqlite"))
    made.executescript(head("sqlite"))
    assert sqlite_catalog(migrated) == sqlite_catalog(made)


DUCKDB_CATALOGS = (
    "SELECT table_name, sql, comment FROM duckdb_tables() ORDER BY 1",
    "SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal ORDER BY 1",
    (
        "SELECT table_name, column_name, data_type, column_default, is_nullable, comment"
        " FROM duckdb_columns() WHERE NOT internal ORDER BY 1, column_index"
    ),
    "SELECT table_name, constraint_text FROM duckdb_constraints() ORDER BY 1, 2",
    "SELECT index_name, sql FROM duckdb_indexes() ORDER BY 1",
    "SELECT sequence_name, sql FROM duckdb_sequences() ORDER BY 1",
)


def test_duckdb_migrations_equal_head():
    migrated, made = duckdb.connect(), duckdb.connect()
    migrate(migrated, "duckdb", "create")
    made.execute(head("duckdb"))
    for catalog in DUCKDB_CATALOGS:
        assert migrated.execute(catalog).fetchall() == made.execute(catalog).fetchall()


POSTGRES_CATALOGS = (
    (
        "SELECT table_name, table_type FROM information_schema.tables"
        " WHERE table_schema = 'public' ORDER BY 1"
    ),
    (
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
        " a.attidentity, a.attstorage, pg_get_expr(d.adbin, d.adrelid),"
        " col_description(c.oid, a.attnum), obj_description(c.oid), c.reloptions"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
        " LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum"
        " WHERE c.relkind IN ('r', 'v') ORDER BY 1, a.attnum"
    ),
    (
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
    ),
    (
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indrelid AND c.relnamespace = 'public'::regnamespace"
        " ORDER BY 1"
    ),
    (
        "SELECT proname, pg_get_functiondef(oid), obj_description(oid) FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace ORDER BY 1, 2"
    ),
    "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY 1",
)


def test_postgres_migrations_equal_head(postgres_server: PostgresServer, postgres_dbname: str):
    other = f"{postgres_dbname}_head"
    postgres_server.create_database(other)
    try:
        with (
            psycopg.connect(postgres_server.url(postgres_dbname)) as migrated,
            psycopg.connect(postgres_server.url(other)) as made,
        ):
            migrate(migrated, "postgres", "create")
            made.execute(head("postgres"))
            for catalog in POSTGRES_CATALOGS:
                assert migrated.execute(catalog).fetchall() == made.execute(catalog).fetchall()
    finally:
        postgres_server.drop_database(other)


# --- dialects agree -------------------------------------------------------------------


def sqlite_columns() -> dict[str, list[str]]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(head("sqlite"))
    found = connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid"
    )
    return grouped(found.fetchall())


def duckdb_columns() -> dict[str, list[str]]:
    connection = duckdb.connect()
    connection.execute(head("duckdb"))
    found = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
        " ORDER BY table_name, column_index"
    )
    return grouped(found.fetchall())


def grouped(rows: Catalog) -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {}
    for table, column in rows:
        tables.setdefault(table, []).append(column)
    return tables


def test_dialects_have_the_same_tables_and_columns(postgres_url: str):
    with psycopg.connect(postgres_url) as connection:
        connection.execute(head("postgres"))
        found = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        ).fetchall()
    assert sqlite_columns() == duckdb_columns() == grouped(found)


def test_everything_is_commented_alike():
    comment = r"COMMENT ON COLUMN (\S+) IS '((?:[^']|'')*)';"
    postgres = dict(re.findall(comment, head("postgres")))
    assert dict(re.findall(comment, head("duckdb"))) == postgres
    commented = {
        f"{table}.{column}" for table, columns in duckdb_columns().items() for column in columns
    }
    views = ("dl_add_files.", "dl_remove_files.", "vw_")
    assert {name for name in commented if not name.startswith(views)} == set(postgres)
    for table, text in re.findall(
        r"CREATE TABLE (\w+) \((.*?)\n\) STRICT", head("sqlite"), re.DOTALL
    ):
        first, *lines = text.splitlines()
        assert "-- " in first, table
        for line in lines:
            assert "-- " in line or line.strip().startswith(("PRIMARY", "UNIQUE")), line


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres"])
def test_dialect_says_why_it_differs(dialect: str):
    folder = Path(str(files("deltasql.store"))) / "sql" / dialect
    for file in folder.glob("*.sql"):
        if file.name not in ("schema.sql", "functions.sql", "grants.sql"):
            assert file.read_text().startswith("-- Differs: "), file


# --- finding the version --------------------------------------------------------------


def test_empty_database_is_refused_with_error(empty_url: str):
    if empty_url.startswith("postgresql"):
        with pytest.raises(SchemaVersionError) as caught:
            open_log(empty_url, schema="error")
        assert (caught.value.found, caught.value.expected) == (0, newest("postgres"))
        assert caught.value.remedy
    open_log(empty_url).close()
    open_log(empty_url, schema="error").close()


@pytest.mark.parametrize("connect", [sqlite3.connect, duckdb.connect])
def test_behind_is_refused_with_error(connect: Any):
    dialect = "sqlite" if connect is sqlite3.connect else "duckdb"
    connection = connect(":memory:")
    with pytest.raises(SchemaVersionError) as caught:
        migrate(connection, dialect, "error")
    assert (caught.value.found, caught.value.expected) == (0, newest(dialect))
    assert migrate(connection, dialect, "create") == len(queries.migrations(dialect))
    assert migrate(connection, dialect, "error") == 0


def test_newer_database_is_refused(empty_url: str):
    store = open_log(empty_url)
    with store.locked([]) as log:
        log.execute("INSERT INTO dl_schema_migrations (version, name) VALUES (999, 'later')")
    store.close()
    for schema in ("create", "error"):
        with pytest.raises(SchemaVersionError, match="999") as caught:
            open_log(empty_url, schema=schema)
        assert caught.value.found == 999
        assert "upgrade" in caught.value.remedy


def test_tables_from_version_1_hold_their_places(empty_url: str, monkeypatch: pytest.MonkeyPatch):
    everything = queries.migrations
    with monkeypatch.context() as patch:
        patch.setattr(queries, "migrations", lambda dialect: everything(dialect)[:1])
        store = open_log(empty_url)
        with store.locked([]) as log:
            log.execute(
                "INSERT INTO dl_tables (name, location, protocol_min_reader, protocol_min_writer,"
                " properties) VALUES ('old', 'memory:///a', 1, 2, '{}')"
            )
        store.close()
    store = open_log(empty_url)
    with pytest.raises(LocationTakenError, match="old"):
        create(store, "new", location="memory:///a/b")
    create(store, "new", location="memory:///b")
    with store.locked([]) as log:
        found = log.execute("SELECT place FROM dl_places ORDER BY table_id")
    assert found == [("memory:///a/",), ("memory:///b/",)]
    store.close()


def test_unknown_mode_is_refused():
    with pytest.raises(ConfigError, match="maybe"):
        migrate(sqlite3.connect(":memory:"), "sqlite", "maybe")


def test_first_connects_do_not_race(empty_url: str):
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: open_log(empty_url), range(8)))
    for store in stores:
        assert store.tables() == []
        store.close()


def newest(dialect: str) -> int:
    return queries.migrations(dialect)[-1][0]


def test_leases_outlive_the_columns_that_they_get():
    """SQLite's are made anew: what the mirror knows of each table goes along."""
    connection = sqlite3.connect(":memory:")
    for number, _, script in queries.migrations("sqlite"):
        if number < 10:
            connection.executescript(script)
    connection.execute(
        "INSERT INTO dl_mirror_leases (table_id, work, holder, token, expires_at, mirrored_version,"
        " total_files, total_bytes) VALUES (1, 'COMMITS', 'me', 7, '2026-01-01', 5, 6, 7)"
    )
    (script,) = [text for number, _, text in queries.migrations("sqlite") if number == 10]
    connection.executescript(script)
    assert connection.execute("SELECT * FROM dl_mirror_leases").fetchall() == [
        (1, "COMMITS", "me", 7, "2026-01-01", 5, 6, 7, None, None, None)
    ]
