"""Nobody forges the log by SQL of their own."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest

import deltasql
from deltasql.lake.database import grants
from deltasql.log.timestamps import LATEST_MS
from deltasql.mirror.checkpoints.soundness import live_sums
from deltasql.store.checking.interface import Origin, TrustedVersion
from deltasql.store.rows import partition_key_of
from tests.cli.grants.statements import (
    FORGED,
    FORGED_NOTES,
    FORGED_STATUSES,
    FORGED_TIMES,
    REFUSED_BY_CHECKS,
    ROLES,
    ROWS,
    as_role,
    refusal,
)


@pytest.mark.parametrize("strict", [True])
@pytest.mark.parametrize("role", ROLES)
def test_nobody_forges_the_log_by_plain_sql(connect_as, postgres_url, names, role):
    """Each statement, by each role: refused, and the table is what it was."""
    with psycopg.connect(as_role(postgres_url, names[role]), autocommit=True) as forger:
        for what, statement in FORGED.items():
            assert refusal(forger, statement) == "42501", what
        for what, statement in REFUSED_BY_CHECKS.items():
            expected = "DL003" if role == "writer" else "42501"
            assert refusal(forger, statement) == expected, what
    owner = connect_as("owner")
    assert owner.table("t").version == 1
    assert owner.check("t", full=True).ok


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("role", ["writer", "mirror"])
def test_nobody_forges_the_status_of_a_version_to_come(connect_as, postgres_url, names, role):
    """The search path is the forger's own, and so is a table that it puts there."""
    with psycopg.connect(as_role(postgres_url, names[role]), autocommit=True) as forger:
        forger.execute(
            "CREATE TEMP TABLE dl_table_versions AS"
            " SELECT 1 AS table_id, 2 AS version, 'x'::bytea AS digest"
        )
        for what, statement in FORGED_STATUSES.items():
            assert refusal(forger, statement) == "DL003", what
    assert connect_as("writer").table("t").append(ROWS) == 2


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("role", ["writer", "mirror"])
def test_nobody_stops_a_mirror_by_a_forged_row(connect_as, postgres_url, names, role):
    """Who has the right to mirror can hold it up, but only for as long as it does so."""
    with psycopg.connect(as_role(postgres_url, names[role]), autocommit=True) as forger:
        forger.execute("CREATE TEMP TABLE dl_table_versions AS SELECT 1 AS table_id, 99 AS version")
        for what, statement in FORGED_NOTES.items():
            assert refusal(forger, statement) == "DL003", what
        # What a run may write, at its worst.
        forger.execute(
            "UPDATE dl_mirror_leases SET token = token + 1, holder = 'forger',"
            " expires_at = now() + interval '1 minute'"
        )
        assert refusal(forger, "UPDATE dl_mirror_leases SET token = token + 1") == "DL003"
        forger.execute("UPDATE dl_mirror_status SET status = 'FAILED', json_written = false,"
                       " retry_count = retry_count + 1, last_attempt_at = now()")  # fmt: skip
        # It ends by itself; here it is ended.
        forger.execute("UPDATE dl_mirror_leases SET expires_at = '1970-01-01'")
    writer = connect_as("writer")
    writer.table("t").append(ROWS)
    assert writer.mirror.run(once=True) >= 0
    assert connect_as("owner").mirror.validate().ok


@pytest.mark.parametrize("strict", [True])
def test_a_dropped_table_gets_no_other_head(connect_as, postgres_url, names):
    """Its row can be touched, and its head be gone: it is not one that is being created."""
    touches = (
        "SELECT dl_drop_table(1)",
        "UPDATE dl_tables SET mirror_paused = false WHERE table_id = 1",
    )
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        for touch in touches:
            forger.execute("BEGIN")
            forger.execute(touch)
            assert refusal(forger, "SELECT dl_create_head(1, 5)") == "DL003", touch
            forger.execute("ROLLBACK")
            with suppress(deltasql.TableNotFoundError):
                connect_as("writer").drop_table("t")
    assert connect_as("owner").undrop("t").version == 1


@pytest.mark.parametrize("strict", [False, True])
def test_partitions_have_the_keys_of_their_values(connect_as, postgres_url, names):
    """The first to name one would say what conditions make of all that is written to it later."""
    owner = connect_as("owner")
    owner.create_table("p", ROWS.schema, partition_by=["day"])
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        key = partition_key_of('{"day":"a"}')
        forged = f'{{"partitions":[{{"partition_key":{key},"partition_values":"{{}}"}}]}}'
        with pytest.raises(psycopg.Error) as caught:
            forger.execute(
                "SELECT dl_commit(2, 'forged', false, NULL, NULL, 0, 0, '{', '', '}', NULL,"
                " 'WRITE', '{}', NULL, true, ARRAY[]::dl_added_file[], NULL, NULL, %s, false)",
                [forged],
            )
        assert caught.value.sqlstate == "DL003"
        insert = "INSERT INTO dl_partitions VALUES (2, %s, '{}')"
        assert refusal(forger, insert.replace("%s", str(key))) in ("DL003", "42501")
    writer = connect_as("writer")
    writer.table("p").append(ROWS)
    assert writer.table("p").count("day = 'a'") == 1


@pytest.mark.parametrize("strict", [False, True])
def test_nobody_forges_where_others_put_rows(connect_as, postgres_url, names):
    """A delete that was slower finds its rows by it."""
    lake = connect_as("writer")
    table = lake.table("t")
    table.append(ROWS)
    table.optimize()
    forged = (
        "INSERT INTO dl_moved_rows VALUES (1, {}, '[2,2]', now())",
        "INSERT INTO dl_row_orders VALUES (1, {}, '[2,2]', 'x', now())",
    )
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        forger.execute("DELETE FROM dl_moved_rows")
        for statement in forged:
            for version in (table.version, table.version + 1):
                assert refusal(forger, statement.format(version)) == "DL003"
    table.append(ROWS)
    table.optimize()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        (found,) = connection.execute("SELECT count(*) FROM dl_moved_rows").fetchone()
    assert found == 1


@pytest.mark.parametrize("strict", [True])
def test_times_without_end_blind_nobody(connect_as, postgres_url, names):
    """They can hold upkeep up; who did it can be seen, and the mirror goes on."""
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        for statement in FORGED_TIMES.values():
            forger.execute(statement)
    owner = connect_as("owner")
    assert [item.expires_at for item in owner.pins()] == [LATEST_MS]
    assert [item.started_at.year for item in owner.sessions() if item.host == "h"] == [1]
    assert "VACUUM" in {job.work for job in owner.maintenance.queue()}
    table = owner.table("t")
    table.vacuum()
    table.expire()
    owner.mirror.status()
    owner.mirror.repair()
    assert table.mirror.status().lag_versions == 0


@pytest.mark.parametrize("strict", [True])
def test_odd_parameters_of_one_commit_hide_no_other(connect_as, postgres_url, names):
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        for number, odd in enumerate(("not json", "[1]", "[" * 900, '{"a":1e999}')):
            forger.execute(
                "SELECT dl_commit(1, %s, false, NULL, NULL, 0, 0,"
                " '{\"commitInfo\":{\"timestamp\":', ',\"inCommitTimestamp\":', '}}', NULL,"
                " 'WRITE', %s, NULL, true, ARRAY[]::dl_added_file[], NULL, NULL, NULL, false)",
                [f"forged{number}", odd],
            )
    owner = connect_as("owner")
    assert len(owner.audit("2020-01-01", "2999-01-01")) == 6
    newest, *_ = owner.table("t").history()
    assert newest.operation_params == {"unreadable": '{"a":1e999}'}


def _commit_without_its_row(forger: psycopg.Connection) -> None:
    """A next version whose commit file adds a file of which no row tells."""
    add = (
        b'{"add":{"dataChange":true,"modificationTime":1,"partitionValues":{},'
        b'"path":"forged.parquet","size":1}}\n'
    )
    (answer,) = forger.execute(
        "SELECT dl_commit(1, 'forged', false, NULL, NULL, 0, 0, %s, %s, %s, NULL, 'WRITE', '{}',"
        " NULL, true, ARRAY[]::dl_added_file[], NULL, NULL, NULL, false)",
        (b'{"commitInfo":{"inCommitTimestamp":', b',"timestamp":', b"}}\n" + add),
    ).fetchone()
    assert answer.startswith("COMMITTED 2 ")


@pytest.mark.parametrize("strict", [True])
def test_a_version_that_contradicts_its_rows_gets_no_checkpoint(
    connect_as, postgres_url, names, tmp_path
):
    """A strict writer can commit it; what others trust is not made from it, and a check tells."""
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        _commit_without_its_row(forger)
    writer = connect_as("writer")
    for _ in range(9):
        writer.table("t").append(ROWS)
    writer.close()
    mirror = connect_as("mirror")
    mirror.mirror.run(once=True)
    assert not list(tmp_path.rglob("*.checkpoint*"))
    (checked,) = mirror.check("t").tables.values()
    assert [found.path for found in checked.findings] == ["forged.parquet"]


@pytest.mark.parametrize("strict", [True])
def test_a_strict_writer_does_not_say_what_is_proven(connect_as, postgres_url, names, tmp_path):
    """Rows that it made up would be in the next checkpoint, and checks would begin after them."""
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        _commit_without_its_row(forger)
    writer = connect_as("writer")
    sums = live_sums(writer.store, 1, 2)
    for origin in Origin:
        with pytest.raises(deltasql.DatabaseError, match="permission denied"):
            writer.store.trust(TrustedVersion(1, origin, 2, sums))
    for _ in range(9):
        writer.table("t").append(ROWS)
    writer.close()
    connect_as("mirror").mirror.run(once=True)
    assert not list(tmp_path.rglob("*.checkpoint*"))


@pytest.mark.parametrize("strict", [True])
def test_a_strict_writer_writes_checkpoints_where_there_is_no_worker(connect_as, tmp_path):
    """It can't write down what it proved on the way, and the next one proves it again."""
    writer = connect_as("writer")
    for _ in range(20):
        writer.table("t").append(ROWS)
    assert writer.mirror.run(once=True) >= 0
    assert len(list(tmp_path.rglob("*.checkpoint.parquet"))) == 2
    assert connect_as("owner").check("t", full=True).ok


@pytest.mark.parametrize("strict", [False, True])
def test_writers_cannot_have_live_files_deleted(connect_as, postgres_url, names, tmp_path):
    """By what they write into vacuum's journal: see tests/maintenance/test_vacuum_pending.py."""
    table = connect_as("owner").table("t")
    (path,) = table.snapshot().files().column("path").to_pylist()
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
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
    with psycopg.connect(as_role(postgres_url, names["writer"])) as forger:

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
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with psycopg.connect(as_role(postgres_url, names["reader"]), autocommit=True) as reader:
        reader.execute(_FITS_BETTER)
    assert connect_as("writer").table("t").append(ROWS) == 2
    shown = program("db", "status", "--url", postgres_url)
    assert "REVOKE CREATE" in shown.err
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(grants(**names))
    assert "REVOKE CREATE" not in program("db", "status", "--url", postgres_url).err
    with (
        psycopg.connect(as_role(postgres_url, names["reader"]), autocommit=True) as reader,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        reader.execute("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
