"""A pooler that loses its server after the COMMIT, and tells the client so in its own words."""

from __future__ import annotations

import time
from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest

import deltasql
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.failures import translate
from tests.conftest import open_directory
from tests.faults.held_commits import commit_held
from tests.faults.matrix.outcomes import state_of
from tests.faults.matrix.verbs import VERBS, Place
from tests.parts import pgbouncer as pgbouncer_part
from tests.parts.pgbouncer import PgBouncer
from tests.parts.process import PartMissingError
from tests.parts.toxiproxy import Toxiproxy

KINDS = ("append", "append a new column", "overwrite", "transaction", "create with rows", "release")


@pytest.fixture(scope="module")
def pooler(toxiproxy: Toxiproxy, postgres_server):
    """pgbouncer before the shared server, with a network between them that can be cut."""
    try:
        pgbouncer_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    proxy = toxiproxy.proxy("behind_pgbouncer", postgres_server.port)
    with open_directory("pgbouncer") as directory, PgBouncer(directory, proxy.port) as pool:
        yield pool, proxy
    proxy.delete()


@contextmanager
def answer_lost(lake, proxy, monkeypatch):
    """The server does what it is told, and its answer to the commit never reaches the pooler."""
    struck = []

    def cut() -> None:
        # An answer that is long in coming takes another way through the driver.
        time.sleep(0.3)
        if not struck:
            struck.append(proxy.add("limit_data", bytes=0))

    commit, execute = lake.store.commit, LogConnection.execute

    def committing(*arguments, **options):
        cut()
        return commit(*arguments, **options)

    def executing(self, query, *arguments, **options):
        if query == "COMMIT":
            cut()
        try:
            return execute(self, query, *arguments, **options)
        finally:
            heal()

    def heal() -> None:
        if struck and struck[-1] is not None:
            proxy.remove(struck[-1])
            struck.append(None)

    call = LogConnection.answer

    def calling(self, *arguments, **options):
        try:
            return call(self, *arguments, **options)
        finally:
            heal()

    lake.store.commit = committing
    monkeypatch.setattr(LogConnection, "execute", executing)
    monkeypatch.setattr(LogConnection, "answer", calling)
    yield struck
    monkeypatch.undo()


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_is_lost_after_the_commit(pooler, postgres_dbname, tmp_path, monkeypatch, kind):
    pool, proxy = pooler
    settings = {"sql.timeout": "10s", "mirror.mode": "sync" if kind == "release" else "off"}
    url, location = pool.url(postgres_dbname), tmp_path.as_uri()
    with deltasql.connect(url, location=location, settings=settings) as lake:
        place = Place(lake, "s")
        place.prepare()
        with answer_lost(lake, proxy, monkeypatch) as struck:
            VERBS[kind].run(place)
        assert struck
        assert state_of(lake, place.names) == VERBS[kind].after(place)


def _append(table: deltasql.Table, rows: pa.Table) -> None:
    table.append(rows)


def _merge(table: deltasql.Table, rows: pa.Table) -> None:
    table.append(rows.append_column("n", pa.array([7])), schema_mode="merge")


def _overwrite(table: deltasql.Table, rows: pa.Table) -> None:
    table.overwrite(rows)


@pytest.mark.parametrize(
    ("write", "after"), [(_append, [1, 2, 3]), (_merge, [1, 2, 3]), (_overwrite, [3])]
)
def test_the_pooler_loses_the_server_during_the_commit(
    pooler, postgres_server, postgres_dbname, tmp_path, write, after
):
    """pgbouncer answers FATAL, 08P01, by itself; the server has committed all the same.

    Public calls only: the release before lost the rows of each of these.
    """
    pool, proxy = pooler
    settings = {"sql.timeout": "10s", "mirror.mode": "off"}
    url, location = pool.url(postgres_dbname), tmp_path.as_uri()

    def cut() -> None:
        # An answer that is long in coming takes another way through the driver.
        time.sleep(0.3)
        # What is there ends, and new connections are welcome at once.
        proxy.disable()
        proxy.enable()

    with deltasql.connect(url, location=location, settings=settings) as lake:
        table = lake.create_table("t", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2]}))
        with commit_held(postgres_server.url(postgres_dbname), cut) as happened:
            write(table, pa.table({"id": [3]}))
        assert happened.is_set()
    with deltasql.connect(url, location=location, settings=settings) as lake:
        assert lake.table("t").version == 2
        assert sorted(lake.table("t").scan().to_arrow()["id"].to_pylist()) == after


def test_only_what_is_listed_is_a_refusal(postgres_url):
    """An answer of the server is definite when it is an ERROR, is on the list, and no COMMIT's."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        states = {}
        for state, statement in {
            "23505": "INSERT INTO pairs VALUES (1), (1)",
            "42601": "SELEKT",
            "42P01": "SELECT * FROM absent",
            "22012": "SELECT 1/0",
            "40P01": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$",
            "08006": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '08006'; END $$",
            "40003": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40003'; END $$",
            "57P01": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '57P01'; END $$",
            "XX000": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'XX000'; END $$",
        }.items():
            connection.execute("CREATE TEMP TABLE IF NOT EXISTS pairs (id int PRIMARY KEY)")
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert caught.value.sqlstate == state
            states[state] = translate(caught.value, "committing").is_refusal
            assert not translate(caught.value, "committing", at_commit=True).is_refusal
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert [state for state, is_refusal in states.items() if is_refusal] == [
        "23505", "42601", "42P01", "22012", "40P01",
    ]  # fmt: skip
    # FATAL, whatever its state.
    lost = translate(caught.value, "committing")
    assert (lost.is_refusal, lost.is_transient) == (False, True)
