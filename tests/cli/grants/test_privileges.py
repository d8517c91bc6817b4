"""The rights that each role has, and no others."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.cli.grants.statements import MIRROR_TABLES, RELATIONS, ROLES, as_role


@pytest.mark.parametrize("strict", [True])
def test_a_strict_writer_has_no_right_to_rows_of_the_log(connect_as, postgres_url, names):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        found = {
            relation
            for relation, _ in connection.execute(RELATIONS).fetchall()
            for privilege in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
            if connection.execute(
                "SELECT has_table_privilege(%s, %s, %s)", (names["writer"], relation, privilege)
            ).fetchone()[0]
        }
    upkeep = {"dl_pins", "dl_vacuums", "dl_vacuum_files", "dl_optimize_bins", "dl_moved_rows"}
    others = {"dl_maintenance_jobs", "dl_namespaces", "dl_row_orders", "dl_table_sources"}
    assert found == MIRROR_TABLES - {"dl_trusted_versions"} | upkeep | others


def test_the_functions_of_writers_are_the_owners_and_nobody_elses(connect_as, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT proname, proconfig, has_function_privilege('public', oid, 'EXECUTE')"
            " FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef"
        ).fetchall()
    assert {name for name, _, _ in found} >= {"dl_commit", "dl_write_next", "dl_drop_table"}
    for name, settings, is_everybodys in found:
        assert "search_path=public, pg_temp" in settings, name
        assert not is_everybodys, name


@pytest.mark.parametrize("role", ROLES)
def test_privileges_are_exactly_these(connect_as, postgres_url, names, role):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        relations = connection.execute(RELATIONS).fetchall()
        found = {
            (relation, privilege)
            for relation, is_table in relations
            for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
            if connection.execute(
                "SELECT has_table_privilege(%s, %s, %s)", (names[role], relation, privilege)
            ).fetchone()[0]
        }
    everything = {relation for relation, _ in relations}
    assert {relation for relation, privilege in found if privilege == "SELECT"} == everything
    changes = {(relation, kind) for relation, kind in found if kind != "SELECT"}
    mirroring = {(table, kind) for table in MIRROR_TABLES for kind in ("INSERT", "UPDATE")}
    # Some of its columns only.
    mirroring.remove(("dl_mirror_status", "UPDATE"))
    if role == "reader":
        assert not changes
    elif role == "mirror":
        assert changes == mirroring | {("dl_sessions", "DELETE")}
    else:
        assert mirroring <= changes
        assert ("dl_table_versions", "INSERT") in changes
        # What is committed stays.
        assert not {kind for table, kind in changes if table == "dl_table_versions"} - {"INSERT"}
        assert not {kind for table, kind in changes if table == "dl_dead_files"} - {"INSERT"}
        assert not {table for table, kind in changes if kind == "TRUNCATE"}


def test_the_mirror_role_cannot_touch_actions(connect_as, postgres_url, names):
    url = as_role(postgres_url, names["mirror"])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        tables = [name for name, is_table in connection.execute(RELATIONS) if is_table]
    with psycopg.connect(url, autocommit=True) as connection:
        for name in sorted(set(tables) - MIRROR_TABLES):
            for form in ("DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES", "TRUNCATE {}"):
                statement = sql.SQL(form).format(sql.Identifier(name))
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE dl_table_heads SET current_version = 0")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE dl_mirror_status SET digest = ''")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE dl_tables SET name = 'stolen'")
