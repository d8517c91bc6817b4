"""Roles in PostgreSQL: each can do its job, and nothing else."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

import deltasql
from deltasql.errors import DatabaseError
from deltasql.lake.database import grants

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
ROLES = ("reader", "writer", "mirror")
RELATIONS = """
SELECT c.relname, c.relkind = 'r' FROM pg_class AS c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')
ORDER BY 1
"""
MIRROR_TABLES = {
    "dl_mirror_status",
    "dl_mirror_leases",
    "dl_trusted_versions",
    "dl_sessions",
}


@pytest.fixture
def names(postgres_server) -> dict[str, str]:
    """Roles of the cluster, with names that need quoting."""
    made = {role: f'{role} "{uuid.uuid4().hex[:8]}"' for role in ROLES}
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        for name in made.values():
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    return made


@pytest.fixture
def strict() -> bool:
    """Whether writers only call functions."""
    return False


@pytest.fixture
def connect_as(postgres_url, names, tmp_path, strict) -> Iterator[Callable[[str], deltasql.Lake]]:
    lakes = []

    def connect(role: str) -> deltasql.Lake:
        user = _in_url(names[role]) if role != "owner" else "postgres"
        url = postgres_url.replace("postgres@", f"{user}@")
        lake = deltasql.connect(
            url, location=str(tmp_path / "lake"), settings={"sql.timeout": "5s"}
        )
        lakes.append(lake)
        return lake

    owner = connect("owner")
    owner.create_table("t", ROWS.schema).append(ROWS)
    # An open lake mirrors for a moment what others commit.
    owner.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(grants(**names, strict=strict))
    yield connect
    for lake in lakes:
        lake.close()


def _in_url(name: str) -> str:
    return quote(name, safe="")


def test_reader_reads(connect_as):
    lake = connect_as("reader")
    table = lake.table("t")
    assert table.scan(where="id = 2").to_arrow().num_rows == 1
    assert table.snapshot(version=0).files().num_rows == 0
    assert len(table.history()) == 2
    assert len(lake.audit("2020-01-01", "2999-01-01")) == 2
    assert table.changes(0)
    assert table.mirror.status().lag_versions == 0
    assert table.mirror.validate().ok


def test_reader_cannot_commit(connect_as, tmp_path):
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    table = connect_as("reader").table("t")
    for attempt in (
        lambda: table.append(ROWS),
        lambda: table.overwrite(ROWS),
        lambda: connect_as("reader").create_table("x", ROWS.schema),
        lambda: connect_as("reader").drop_table("t"),
        table.mirror.pause,
    ):
        with pytest.raises(DatabaseError, match="permission denied"):
            attempt()
    with connect_as("reader").transaction() as tx, pytest.raises(DatabaseError, match="db grants"):
        tx.table("t").append(ROWS)
    assert connect_as("owner").table("t").version == 1
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("strict", [False, True])
def test_writer_commits_and_mirrors(connect_as):
    lake = connect_as("writer")
    table = lake.create_table("w", ROWS.schema, partition_by=["day"])
    table.append(ROWS)
    table.append(ROWS, app_id="job", app_version=1)
    table.overwrite(ROWS.slice(0, 1), where="day = 'a'")
    table.append(pa.table({"new": [1]}), schema_mode="merge")
    table.commit([{"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}])
    with lake.transaction() as tx:
        tx.table("w").append(ROWS)
        tx.table("t").append(ROWS)
    assert all(item.lag_versions == 0 for item in lake.mirror.status())
    lake.rename_table("w", "v")
    lake.drop_table("v")
    # Many rows take another way into the database.
    adds = [
        {"add": {"path": f"f{n}", "size": 1, "partitionValues": {}, "modificationTime": 1,
                 "dataChange": True}}
        for n in range(3000)
    ]  # fmt: skip
    lake.table("t").commit(adds)
    lake.mirror.run(once=True)


@pytest.mark.parametrize("strict", [True])
def test_a_strict_writer_clones_keeps_house_and_releases(connect_as, tmp_path):
    lake = connect_as("writer")
    table = lake.table("t")
    copy = table.clone("c")
    assert copy.scan().to_arrow().num_rows == 2
    assert copy.sources
    copy.append(ROWS)
    table.delete("id = 1")
    table.append(ROWS)
    table.optimize()
    table.vacuum()
    table.restore(version=1)
    table.mirror.pause()
    table.mirror.resume()
    assert copy.release() > 0
    assert lake.check("t").ok
    with pytest.raises(deltasql.LocationTakenError):
        lake.create_table("n", ROWS.schema, location=str(tmp_path / "lake" / "t" / "n"))


FORGED = {
    "a head is rewound": "UPDATE dl_table_heads SET current_version = 0",
    "a head is deleted": "DELETE FROM dl_table_heads",
    "a live file is deleted": "DELETE FROM dl_active_files",
    "a file is forged": "INSERT INTO dl_active_files SELECT * FROM dl_active_files",
    "a version is forged": "INSERT INTO dl_table_versions SELECT * FROM dl_table_versions",
    "a version is changed": "UPDATE dl_table_versions SET body = 'x'",
    "a version is deleted": "DELETE FROM dl_table_versions",
    "a removal is forged": "INSERT INTO dl_dead_files SELECT * FROM dl_dead_files",
    "a table is moved": "UPDATE dl_tables SET location = '/elsewhere'",
    "a table is stolen": "UPDATE dl_tables SET name = 'stolen'",
    "a place is taken": "UPDATE dl_places SET place = 'file:/elsewhere/'",
    "a place is forged": "INSERT INTO dl_places VALUES (999, 'file:/elsewhere/')",
    "metadata is forged": "INSERT INTO dl_metadata_updates SELECT * FROM dl_metadata_updates",
    "a protocol is forged": "INSERT INTO dl_protocol_updates SELECT * FROM dl_protocol_updates",
    "a transaction is forged": "INSERT INTO dl_txn_actions SELECT * FROM dl_txn_actions",
    "a domain is forged": "INSERT INTO dl_domain_metadata SELECT * FROM dl_domain_metadata",
    "changes are forged": "INSERT INTO dl_cdc_files SELECT * FROM dl_cdc_files",
    "sources are deleted": "DELETE FROM dl_table_sources",
    "a digest is changed": "UPDATE dl_mirror_status SET digest = ''",
    "the inner functions are called": "SELECT dl_write_version("
    "1, 0, 0, 'x', ''::bytea, 'raw', ''::bytea, NULL, NULL, NULL, NULL, false)",
    "inner rows are written": "SELECT dl_write_rows(1, 1, NULL, '[]'::json, NULL, NULL, false)",
    "files are restated": "SELECT dl_restate_files(1, 9, ARRAY[]::dl_added_file[])",
}
REFUSED_BY_CHECKS = {
    "an old version is written": "SELECT dl_write_next(1, 1, 1, 'x', sha256('x'::bytea), 'raw', "
    "'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "a version is skipped": "SELECT dl_write_next(1, 9, (extract(epoch FROM now()) * 1000)::bigint,"
    " 'x', sha256('x'::bytea), 'raw', 'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "a version is from the future": "SELECT dl_write_next(1, 2, 99999999999999, 'x', "
    "sha256('x'::bytea), 'raw', 'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "a digest lies": "SELECT dl_write_next(1, 2, (extract(epoch FROM now()) * 1000)::bigint, 'x', "
    "'lie'::bytea, 'raw', 'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "rows of an old version": "SELECT dl_write_next_rows("
    "1, 1, NULL, '[]'::json, NULL, NULL, false)",
    "a second head": "SELECT dl_create_head(1, 0)",
}


def _refusal(connection: psycopg.Connection, statement: str) -> str | None:
    """The state that a statement ends in; None where it is done."""
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize("strict", [True])
@pytest.mark.parametrize("role", ROLES)
def test_nobody_forges_the_log_by_plain_sql(connect_as, postgres_url, names, role):
    """Each statement, by each role: refused, and the table is what it was."""
    user = _in_url(names[role])
    with psycopg.connect(postgres_url.replace("postgres@", f"{user}@"), autocommit=True) as forger:
        for what, statement in FORGED.items():
            assert _refusal(forger, statement) == "42501", what
        for what, statement in REFUSED_BY_CHECKS.items():
            expected = "DL003" if role == "writer" else "42501"
            assert _refusal(forger, statement) == expected, what
    owner = connect_as("owner")
    assert owner.table("t").version == 1
    assert owner.check("t", full=True).ok


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
    assert found == MIRROR_TABLES | upkeep | others


@pytest.mark.parametrize("strict", [False, True])
def test_writers_cannot_have_live_files_deleted(connect_as, postgres_url, names, tmp_path):
    """By what they write into vacuum's journal: see tests/maintenance/test_vacuum_pending.py."""
    user = _in_url(names["writer"])
    table = connect_as("owner").table("t")
    (path,) = table.snapshot().files().column("path").to_pylist()
    with psycopg.connect(postgres_url.replace("postgres@", f"{user}@"), autocommit=True) as forger:
        for number, spelt in enumerate([path, "%70" + path[1:]]):
            for kind in ("DEAD", "VECTOR", "CHANGE", "ORPHAN"):
                forger.execute(
                    "INSERT INTO dl_vacuum_files VALUES (%s, 0, %s,"
                    " substr(sha256(%s::text::bytea), 1, 16), %s, 99, 1, now(), NULL, %s)",
                    (f"{kind}{number}", table.table_id, spelt, kind, spelt),
                )
    table.vacuum(dry_run=False)
    assert table.scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("strict", [True])
def test_a_strict_writer_claims_what_its_location_names(connect_as, postgres_url, names, tmp_path):
    owner = connect_as("owner")
    link = tmp_path / "link"
    (tmp_path / "behind").mkdir()
    link.symlink_to(tmp_path / "behind", target_is_directory=True)
    linked = owner.create_table("linked", ROWS.schema, location=str(link / "t"))
    victim = owner.table("t").location
    user = _in_url(names["writer"])
    with psycopg.connect(postgres_url.replace("postgres@", f"{user}@")) as forger:

        def claimed(location: str, place: str) -> bool:
            create = "SELECT table_id FROM dl_create_table('evil', %s, 1, 7, '{}')"
            (table_id,) = forger.execute(create, [location]).fetchone()
            claim = "SELECT count(*) FROM dl_claim_place(%s, %s)"
            (count,) = forger.execute(claim, [table_id, place]).fetchone()
            if not count:
                with pytest.raises(psycopg.Error) as caught:
                    forger.execute("SELECT dl_create_head(%s, 1)", [table_id])
                assert caught.value.sqlstate == "DL003"
            forger.rollback()
            return bool(count)

        for location in (
            victim,
            f"file://{victim}",
            f"{victim}/x/..",
            f"file://{victim[:-1]}%74",
            f"{victim}/within",
            str(tmp_path),
            linked.location,
            f"{linked.location}/within",
            "relative/t",
        ):
            assert not claimed(location, "file:/nowhere/"), location
        assert not claimed("/nowhere/", f"file:{victim}/")
        assert not claimed("s3://bucket/a", "s3://bucket/b/")
        assert not claimed("s3://bucket/a", "file:/nowhere/")
        assert not claimed("/nowhere", "s3://bucket/a/")
        assert claimed("/nowhere", "file:/nowhere/")
        assert claimed("s3a://bucket/a%20b", "s3://bucket/a b/")
    # Links of a writer's own are followed as ever.
    lake = connect_as("writer")
    lake.create_table("own", ROWS.schema, location=str(link / "own")).append(ROWS)
    lake.drop_table("linked")


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


def test_writer_cannot_purge_and_learns_it_first(connect_as, tmp_path):
    lake = connect_as("writer")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DatabaseError, match="permission denied"):
        lake.drop_table("t", purge=True)
    assert lake.table("t").scan().to_arrow().num_rows == 2, "it is not even dropped"
    lake.drop_table("t")
    with pytest.raises(DatabaseError, match="permission denied"):
        lake.purge("t")
    assert sorted(tmp_path.rglob("*")) == before
    (found,) = lake.dropped()
    assert not found.is_purging
    owner = connect_as("owner")
    assert owner.purge("t").files == 1
    assert not list(tmp_path.rglob("*.parquet"))


def test_writer_cannot_adopt_and_learns_it_first(connect_as, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "lake" / "t", copy)
    before = sorted(tmp_path.rglob("*"))
    lake = connect_as("writer")
    with pytest.raises(DatabaseError, match="can't adopt") as caught:
        lake.adopt(str(copy), "u")
    assert "owner" in caught.value.remedy
    assert [item.status for item in lake.recover(str(copy)).tables] == ["failed"]
    assert sorted(tmp_path.rglob("*")) == before
    assert connect_as("owner").adopt(str(copy), "u").version == 1


def test_writer_takes_places(connect_as, postgres_url, tmp_path):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DELETE FROM dl_places")  # as after the migration
    lake = connect_as("writer")
    lake.create_table("elsewhere", ROWS.schema, location=str(tmp_path / "elsewhere"))
    with pytest.raises(deltasql.LocationTakenError):
        lake.create_table("within", ROWS.schema, location=str(tmp_path / "elsewhere" / "in"))


def test_mirror_mirrors(connect_as, postgres_url, tmp_path):
    owner = deltasql.connect(
        postgres_url, location=str(tmp_path / "lake"), settings={"mirror.mode": "off"}
    )
    for _ in range(12):
        owner.table("t").append(ROWS)
    owner.close()
    lake = connect_as("mirror")
    assert lake.mirror.run(once=True) >= 12
    table = lake.table("t")
    assert table.mirror.status().lag_versions == 0
    next((tmp_path / "lake" / "t" / "_delta_log").glob("*05.json")).unlink()
    assert table.mirror.repair().restored == [5]
    assert table.mirror.validate().ok
    table.mirror.cleanup(dry_run=False)
    table.mirror.pause()
    table.mirror.resume()


def test_mirror_cannot_commit(connect_as):
    table = connect_as("mirror").table("t")
    with pytest.raises(DatabaseError, match="permission denied"):
        table.append(ROWS)
    assert table.version == 1


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
    user = _in_url(names["mirror"])
    url = postgres_url.replace("postgres@", f"{user}@")
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


_FITS_BETTER = """
CREATE FUNCTION dl_commit(
    smallint, text, boolean, text, smallint, smallint, smallint, bytea, bytea, bytea, text, text,
    text, text, boolean, text, text, text, text, boolean
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this ran as %', current_user;
END $$
"""


def test_a_function_of_a_readers_own_is_not_called(connect_as, postgres_url, names, program):
    """Where everybody may create functions, as up to PostgreSQL 14: our calls name their types."""
    user = _in_url(names["reader"])
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with psycopg.connect(postgres_url.replace("postgres@", f"{user}@"), autocommit=True) as reader:
        reader.execute(_FITS_BETTER)
    assert connect_as("writer").table("t").append(ROWS) == 2
    shown = program("db", "status", "--url", postgres_url)
    assert "REVOKE CREATE" in shown.err
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(grants(**names))
    assert "REVOKE CREATE" not in program("db", "status", "--url", postgres_url).err
    with (
        psycopg.connect(postgres_url.replace("postgres@", f"{user}@"), autocommit=True) as reader,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        reader.execute("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
