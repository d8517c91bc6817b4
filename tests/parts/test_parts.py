"""The parts do what their names promise; a test that trusts them would not notice."""

import time

import psycopg
import pytest


def _select(url: str, query: str = "SELECT 1") -> object:
    # Without prepared statements, as every client behind a transaction pool.
    with psycopg.connect(url, prepare_threshold=None, connect_timeout=5) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_postgres_is_durable(private_postgres):
    url = private_postgres.url()
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        assert _select(url, f"SHOW {name}") == "on"
    assert str(_select(url, "SHOW server_version")).startswith("18")


def test_the_shared_postgres_waits_for_no_disk(postgres_url):
    assert _select(postgres_url, "SHOW fsync") == "off"
    assert _select(postgres_url, "SHOW synchronous_commit") == "on"


@pytest.mark.parametrize("how", ["kill", "immediate", "restart"])
def test_postgres_keeps_what_it_acknowledged(private_postgres, how):
    url = private_postgres.create_database("kept")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7 AS a")
    match how:
        case "kill":
            private_postgres.kill()
            private_postgres.start()
        case "immediate":
            private_postgres.stop("immediate")
            private_postgres.start()
        case "restart":
            private_postgres.restart()
    assert _select(url, "SELECT a FROM t") == 7


def test_pgbouncer_pools_transactions(pgbouncer, pgbouncer_url):
    assert _select(pgbouncer_url) == 1
    pgbouncer.restart()
    assert _select(pgbouncer_url) == 1


def test_toxiproxy_slows_cuts_and_refuses(postgres_server, postgres_dbname, postgres_proxy):
    url = postgres_server.url(postgres_dbname, port=postgres_proxy.port)
    assert _select(url) == 1

    with postgres_proxy.toxic("latency", latency=100):
        started = time.monotonic()
        assert _select(url) == 1
        assert time.monotonic() - started > 0.1

    with psycopg.connect(url) as connection, postgres_proxy.toxic("limit_data", bytes=0):
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()

    postgres_proxy.disable()
    with pytest.raises(psycopg.OperationalError):
        _select(url)
    postgres_proxy.enable()
    assert _select(url) == 1


def test_each_store_has_its_address(store_url):
    assert store_url.startswith(("sqlite:////", "duckdb:////", "postgresql://"))
