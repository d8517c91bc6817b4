"""What the application's own statements do to a session: the lake never meets it again."""

import psycopg
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ValidationError

IDS = pa.schema([("id", pa.int64())])
HIDING = "CREATE TEMPORARY TABLE dl_table_heads (x int)"
ELSEWHERE = "SELECT set_config('search_path', 'nowhere', false)"


@pytest.fixture(
    params=[
        ("sqlite_url", HIDING),
        ("duckdb_url", HIDING),
        ("postgres_url", HIDING),
        ("postgres_url", ELSEWHERE),
        ("pgbouncer_url", HIDING),
        ("pgbouncer_url", ELSEWHERE),
    ],
    ids=lambda given: "-".join([given[0].removesuffix("_url"), given[1].split()[1].split("(")[0]]),
)
def place(request):
    name, statement = request.param
    return request.getfixturevalue(name), statement


def test_the_next_commit_goes_where_it_belongs(place, tmp_path):
    url, statement = place
    settings = {"sql.pool_size": 1} if url.startswith("postgres") else {}
    with deltasql.connect(url, location=(tmp_path / "lake").as_uri(), settings=settings) as lake:
        table = lake.create_table("t", IDS)
        for number in (1, 2):
            with lake.transaction() as tx:
                tx.table("t").append(pa.table({"id": [number]}))
                tx.sql_execute(statement)
            assert table.append(pa.table({"id": [10 * number]})) == 2 * number
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 10, 20]


@pytest.mark.parametrize("name", ["postgres_url", "pgbouncer_url"])
@pytest.mark.postgres
def test_a_lock_does_not_outlive_a_rollback(request, name, tmp_path):
    url, own = request.getfixturevalue(name), "SELECT pg_advisory_lock(7)"
    with deltasql.connect(url, location=(tmp_path / "lake").as_uri()) as lake:
        table = lake.create_table("t", IDS)

        def fail() -> None:
            with lake.transaction() as tx:
                tx.table("t").append(pa.table({"id": [1]}))
                tx.sql_execute(own)
                tx.sql_execute("SELECT 1 / 0")

        with pytest.raises(deltasql.DatabaseError, match="division by zero"):
            fail()
        assert table.version == 0
        with psycopg.connect(request.getfixturevalue("postgres_url")) as other:
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7"
            assert other.execute(held).fetchone() == (0,)


def test_a_setting_of_the_session_is_refused(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        table = lake.create_table("t", IDS)
        with pytest.raises(ValidationError, match="outlasts"), lake.transaction() as tx:
            tx.sql_execute("PRAGMA query_only = 1")
        table.append(pa.table({"id": [1]}))
