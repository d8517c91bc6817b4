"""Each way in which a connection fails has a remedy of its own."""

from __future__ import annotations

import psycopg
import pytest

import deltasql
from deltasql.errors import DatabaseError
from deltasql.lake.looking.examining import examine
from deltasql.settings.sources import resolve
from deltasql.store.postgres.bulk.arrow import _failure
from deltasql.store.postgres.connections.remedies import GENERAL, remedy_for
from tests.conftest import fresh_database
from tests.parts.process import free_port


def refused(url: str, **settings: str) -> str:
    with pytest.raises(DatabaseError) as caught:
        deltasql.connect(url, location="unused", settings={"sql.timeout": "5s", **settings})
    assert caught.value.remedy != GENERAL
    return caught.value.remedy


def test_no_such_database(postgres_server):
    assert "createdb nowhere" in refused(postgres_server.url("nowhere"))


def test_no_such_role(postgres_url):
    assert "createuser nobody" in refused(postgres_url.replace("postgres@", "nobody@"))


def test_nobody_listens():
    assert "is the server running" in refused(f"postgresql://me@127.0.0.1:{free_port()}/lake")


def test_no_such_host():
    assert "host" in refused("postgresql://me@no.such.host.invalid/lake")


def test_too_many_connections(private_postgres):
    private_postgres.create_database("lake")
    with psycopg.connect(private_postgres.url("lake"), autocommit=True) as connection:
        connection.execute("CREATE ROLE busy LOGIN CONNECTION LIMIT 0")
    url = private_postgres.url("lake").replace("postgres@", "busy@")
    assert "sql.pool_size" in refused(url)


def test_a_role_without_grants_learns_which(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS remedy_test")
        connection.execute("CREATE ROLE remedy_test LOGIN")
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        connection.execute("GRANT USAGE ON SCHEMA public TO remedy_test")
    url = postgres_url.replace("postgres@", "remedy_test@")
    assert "GRANT USAGE, CREATE ON SCHEMA public" in refused(url), "it can't create the log"
    deltasql.connect(postgres_url, location="unused").close()
    assert "deltasql db grants" in refused(url), "it can't read the log"
    told = refused(url, **{"sql.schema": "error"})
    assert "dl_schema_migrations" in told, "the lake is there, and nobody is to create it"
    (finding,) = [
        found
        for found in examine(resolve({"url": url, "location": "unused"}))
        if found.check == "database"
    ]
    assert (finding.state, "db grants" in finding.remedy) == ("problem", True)


@pytest.fixture(params=["postgres_server", "oldest_postgres"])
def closed_url(request):
    """A database in which a role may use no schema: the owner's address, and the role's."""
    server = request.getfixturevalue(request.param)
    with fresh_database(server) as name:
        url = server.url(name)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS shut_out")
            connection.execute("CREATE ROLE shut_out LOGIN")
            connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        yield url, url.replace("postgres@", "shut_out@")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY shut_out")
            connection.execute("DROP ROLE shut_out")


@pytest.mark.parametrize("mode", ["create", "error"])
def test_a_role_without_usage_of_the_schema_learns_that_the_lake_is_there(closed_url, mode):
    owner, url = closed_url
    deltasql.connect(owner, location="unused").close()
    with pytest.raises(DatabaseError, match="may not use the schema public, which has") as caught:
        deltasql.connect(url, location="unused", settings={"sql.schema": mode})
    assert "deltasql db grants" in caught.value.remedy


def test_a_role_without_a_schema_learns_which_grant_creates_the_log(closed_url):
    with pytest.raises(DatabaseError, match="can use no schema") as caught:
        deltasql.connect(closed_url[1], location="unused")
    assert "GRANT USAGE, CREATE ON SCHEMA public" in caught.value.remedy
    elsewhere = f"{closed_url[0]}?options=-csearch_path%3Dnowhere"
    with pytest.raises(DatabaseError, match="can use no schema"):
        deltasql.connect(elsewhere, location="unused")


def test_a_role_with_a_schema_of_its_own_has_a_log_of_its_own(closed_url):
    owner, url = closed_url
    deltasql.connect(owner, location="unused").close()
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA AUTHORIZATION shut_out")
    # Nobody is to create it, so the log of the other schema is the one that is meant.
    with pytest.raises(DatabaseError, match="may not use the schema public"):
        deltasql.connect(url, location="unused", settings={"sql.schema": "error"})
    deltasql.connect(url, location="unused").close()
    deltasql.connect(url, location="unused", settings={"sql.schema": "error"}).close()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('FATAL:  password authentication failed for user "me"', "PGPASSWORD"),
        ("fe_sendauth: no password supplied", "PGPASSWORD"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "me"', "pg_hba.conf"),
        ("FATAL:  sorry, too many clients already", "max_connections"),
        ("connection timeout expired", "firewall"),
    ],
)
def test_what_a_test_server_does_not_say(said, remedy):
    assert remedy in remedy_for(psycopg.OperationalError(said))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "NOT_FOUND: ERROR:  no x\nLINE 1: x\n ^\n\nQuery was: SELECT\nx. SQLSTATE: 42P01",
            "NOT_FOUND: ERROR: no x LINE 1: x ^. SQLSTATE: 42P01",
        ),
        ("IO: [libpq] cut. Query was: COPY (SELECT 1\nFROM t)", "IO: [libpq] cut."),
        ("terminating connection\n. SQLSTATE: 57P01", "terminating connection . SQLSTATE: 57P01"),
    ],
)
def test_a_failed_read_by_arrow_does_not_repeat_our_sql(said, told):
    assert _failure(OSError(said)).cause == told
