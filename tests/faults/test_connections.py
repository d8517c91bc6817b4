"""Connections that are not to be had, and poolers in between."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import (
    DatabaseError,
    MetadataChangedError,
    SchemaVersionError,
    StoreTimeoutError,
)
from deltasql.log.conflict import Reads
from deltasql.store import queries
from tests.faults.waiting import Background, within
from tests.parts.process import free_port
from tests.stress import swarm
from tests.stress.database import query, read_tables
from tests.stress.writers import SCHEMA, new_add

SHORT = {"sql.timeout": "1s"}


@pytest.fixture
def location(tmp_path) -> str:
    return tmp_path.joinpath("lake").as_uri()


def _create(lake: deltasql.Lake, name: str = "a") -> deltasql.Table:
    return lake.create_table(name, schema=SCHEMA, partition_by=["p"], exists_ok=True)


class TestTimeouts:
    def test_pool_is_exhausted(self, postgres_url, location):
        settings = {**SHORT, "sql.pool_size": 1}
        with deltasql.connect(postgres_url, location=location, settings=settings) as lake:
            table = _create(lake)
            lake.states.current(table.table_id)
            with lake.store.locked([table.table_id]) as log:
                waiting = Background(lambda: table.commit([new_add("pool", 1)]))
                # Not idle, or the server would end the transaction after the same time.
                log.execute("SELECT pg_sleep(0.8)")
                log.execute("SELECT pg_sleep(0.8)")
                with pytest.raises(StoreTimeoutError, match="pool_size") as failure:
                    waiting.result()
                assert "sql.timeout" in failure.value.remedy
            assert table.version == 0
            assert table.commit([new_add("pool", 1)]) == 1

    @pytest.mark.parametrize("kind", ["append", "remove", "transaction", "large"])
    def test_head_is_locked_by_someone_else(self, postgres_url, location, kind):
        with deltasql.connect(postgres_url, location=location, settings=SHORT) as lake:
            table = _create(lake)
            file = new_add("held", 1)
            table.commit([file])
            with psycopg.connect(postgres_url) as other:
                other.execute("SELECT * FROM dl_table_heads FOR UPDATE")
                with within(3), pytest.raises(StoreTimeoutError, match="lock") as failure:
                    _commit(lake, table, kind, file)
            assert "sql.timeout" in failure.value.remedy
            assert table.version == 1
            assert table.snapshot().files().num_rows == 1
            assert _commit(lake, table, kind, file) == 2

    def test_a_holder_that_hangs_is_thrown_out(self, postgres_url, location):
        """A client that goes silent with a lock does not keep it for ever."""
        with deltasql.connect(postgres_url, location=location, settings=SHORT) as lake:
            table = _create(lake)
            with (
                deltasql.connect(
                    postgres_url, location=location, settings={"sql.timeout": "5s"}
                ) as patient,
                pytest.raises(DatabaseError),
                lake.store.locked([table.table_id]),
                within(4),
            ):
                assert patient.table("a").commit([new_add("patient", 1)]) == 1
            assert table.version == 1

    @pytest.mark.parametrize("kind", ["drop", "rename", "first connect"])
    def test_nothing_waits_for_ever(self, postgres_url, location, kind):
        """Whoever needs a lock gives up in time, not only who commits."""
        with deltasql.connect(postgres_url, location=location, settings=SHORT) as lake:
            _create(lake)
            if kind == "first connect":
                query(postgres_url, "DELETE FROM dl_schema_migrations")
            calls = {
                "drop": lambda: lake.drop_table("a"),
                "rename": lambda: lake.rename_table("a", "b"),
                "first connect": lambda: deltasql.connect(postgres_url, location, settings=SHORT),
            }
            with psycopg.connect(postgres_url) as other:
                other.execute("SELECT * FROM dl_table_heads, dl_tables FOR UPDATE")
                # The lock that keeps two migrations apart.
                other.execute(queries.load("postgres")["migration_lock"])
                waiting = Background(calls[kind])
                waiting.join(5)
                gave_up = not waiting.is_alive()
            with pytest.raises(StoreTimeoutError):
                waiting.result()
            assert gave_up

    def test_connecting_waits_for_no_lock(self, postgres_url, location):
        """Where there is nothing to migrate, anyone may hold the lock of migrations."""
        deltasql.connect(postgres_url, location=location).close()
        with psycopg.connect(postgres_url) as other:
            other.execute(queries.load("postgres")["migration_lock"])
            for mode in ("create", "error"):
                settings = {"sql.timeout": "3s", "sql.schema": mode}
                with within(2):
                    deltasql.connect(postgres_url, location=location, settings=settings).close()

    @pytest.mark.parametrize("size", [1, 2])
    def test_as_many_transactions_as_connections(self, postgres_url, location, size):
        """With heads locked, nobody asks on another connection whether the table is writable."""
        settings = {"sql.timeout": "4s", "sql.pool_size": size}
        names = [f"t{number}" for number in range(2 * size)]
        with deltasql.connect(postgres_url, location=location) as other:
            for name in names:
                _create(other, name)
        with deltasql.connect(postgres_url, location=location, settings=settings) as lake:

            def commit(name: str) -> int:
                with lake.transaction() as tx:
                    tx.table(name).commit([new_add(name, 1)])
                return tx.versions[name]

            with within(3):
                running = [Background(lambda name=name: commit(name)) for name in names]
                assert [item.result() for item in running] == [1] * len(names)

    def test_one_connection_is_enough_for_a_commit(self, postgres_url, location):
        """The metadata changes after the first look and before the lock is taken."""
        settings = {"sql.timeout": "3s", "sql.pool_size": 1}
        with (
            deltasql.connect(postgres_url, location=location) as other,
            deltasql.connect(postgres_url, location=location, settings=settings) as lake,
        ):
            table = _create(lake)
            request = table.request(
                [new_add("one", 1)], operation="WRITE", read_version=0, reads=Reads.all()
            )
            lock = lake.store.locked

            def locked_too_late(table_ids):
                there = other.table("a")
                there.commit([replace(there.snapshot().metadata, description="changed")])
                return lock(table_ids)

            lake.store.locked = locked_too_late
            with within(2), pytest.raises(MetadataChangedError):
                lake.commits.commit_all([request])


def _commit(lake, table, kind, file) -> int:
    match kind:
        case "append":
            return table.commit([new_add("append", 1)])
        case "remove":
            remove = deltasql.RemoveFile(path=file.path, deletion_timestamp=1)
            return table.commit([remove], read_version=1, reads="all")
        case "large":
            return table.commit([new_add("large", 1) for _ in range(1_100)])
        case _:
            with lake.transaction() as tx:
                tx.table(table.name).commit([new_add("transaction", 1)])
            return tx.versions[table.name]


class TestConnecting:
    def test_server_is_down(self, location):
        port = free_port()
        url = f"postgresql://someone:s3cret@127.0.0.1:{port}/lake"
        with within(5), pytest.raises(DatabaseError, match="refused") as failure:
            deltasql.connect(url, location=location)
        assert str(port) in str(failure.value)

    def test_unknown_database(self, postgres_server, location):
        with within(5), pytest.raises(DatabaseError, match='"nowhere" does not exist'):
            deltasql.connect(postgres_server.url("nowhere"), location=location)

    def test_unknown_host(self, location):
        with within(10), pytest.raises(DatabaseError, match=r"nowhere\.invalid"):
            deltasql.connect("postgresql://u@nowhere.invalid/lake", location=location)

    def test_host_is_silent(self, location):
        """Packets to it are dropped: only the timeout ends that."""
        with within(5), pytest.raises((DatabaseError, StoreTimeoutError)):
            deltasql.connect("postgresql://u@192.0.2.1/lake", location=location, settings=SHORT)

    def test_schema_is_missing(self, postgres_url, sqlite_url, duckdb_url, location):
        for url in (postgres_url, sqlite_url, duckdb_url):
            if url is not postgres_url:
                _empty(url)
            with pytest.raises(SchemaVersionError, match="there is no lake in this database"):
                deltasql.connect(url, location=location, settings={"sql.schema": "error"})
        assert query(postgres_url, "SELECT 1 FROM pg_tables WHERE tablename LIKE 'dl_%'") == []

    def test_schema_is_newer(self, store_url, location):
        deltasql.connect(store_url, location=location).close()
        _execute(store_url, "INSERT INTO dl_schema_migrations (version, name) VALUES (9999, 'x')")
        for mode in ("create", "error"):
            with pytest.raises(SchemaVersionError, match="9999"):
                deltasql.connect(store_url, location=location, settings={"sql.schema": mode})


def _empty(url: str) -> None:
    query(url, "SELECT 1")


def _execute(url: str, statement: str) -> None:
    query(url, statement)


@pytest.mark.parametrize("url_of", ["postgres_url", "sqlite_url"])
def test_first_connects_at_once(request, url_of, location):
    url = request.getfixturevalue(url_of)
    children = [swarm.start(_connect_and_create, url, location, n % 2) for n in range(8)]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    with deltasql.connect(url, location=location) as lake:
        assert [table.name for table in lake.tables()] == ["t0", "t1"]
        assert [table.version for table in lake.tables()] == [4, 4]
    assert query(url, "SELECT count(*) FROM dl_schema_migrations") == [
        (len(query(url, "SELECT DISTINCT version FROM dl_schema_migrations")),)
    ]


def _connect_and_create(url: str, location: str, number: int) -> None:
    with deltasql.connect(url, location=location) as lake:
        _create(lake, f"t{number}").commit([new_add("first", 1)])


class TestPgBouncer:
    """Transaction pooling: each transaction may run on another backend."""

    def test_everything_works(self, pgbouncer_url, location):
        with deltasql.connect(pgbouncer_url, location=location) as lake:
            a, b = _create(lake, "a"), _create(lake, "b")
            rows = pa.table({"id": [1, 2], "p": [1, 2], "v": ["x", "y"]}, schema=SCHEMA)
            assert a.append(rows) == 1
            assert a.overwrite(rows.slice(0, 1), where="p = 1") == 2
            with lake.transaction() as tx:
                tx.table("a").append(rows)
                tx.table("b").append(rows)
                assert tx.table("b").scan().to_arrow().num_rows == 2
            assert tx.versions == {"a": 3, "b": 1}
            assert a.commit([new_add("large", 3) for _ in range(1_100)]) == 4
            assert a.snapshot(3).files().num_rows == 4
            assert a.snapshot(3).files(where="p = 2").num_rows == 2
            assert a.snapshot(3).scan().to_arrow().num_rows == 4
            assert [entry.version for entry in a.history()] == [4, 3, 2, 1, 0]
            assert len(a.changes(1, 3)) == 3
            assert b.version == 1
            with ThreadPoolExecutor(8) as threads:
                commits = [threads.submit(b.commit, [new_add(n, n % 3)]) for n in range(50)]
            assert sorted(commit.result() for commit in commits) == list(range(2, 52))
            assert b.snapshot().files().num_rows == 52
        assert lake.store is not None

    def test_another_first_connect(self, pgbouncer_url, location):
        with ThreadPoolExecutor(4) as threads:
            lakes = [
                threads.submit(deltasql.connect, pgbouncer_url, location=location) for _ in range(4)
            ]
            for lake in lakes:
                lake.result().close()


@pytest.mark.parametrize("kind", ["append", "remove", "transaction", "large"])
def test_clock_that_went_back(store_url, location, kind):
    """The head is ahead of the clock, as after the clock was set back by a day."""
    ahead = time.time_ns() // 1_000_000 + 86_400_000
    with deltasql.connect(store_url, location=location) as lake:
        table = _create(lake)
        file = new_add("clock", 1)
        table.commit([file])
    _execute(store_url, f"UPDATE dl_table_heads SET last_ict = {ahead}")
    with deltasql.connect(store_url, location=location) as lake:
        table = lake.table("a")
        assert _commit(lake, table, kind, file) == 2
        table.commit([new_add("clock", 1)])
    versions = read_tables(store_url)["a"].versions
    assert [version.timestamp for version in versions[2:]] == [ahead + 1, ahead + 2]
    assert [version.info.in_commit_timestamp for version in versions[2:]] == [ahead + 1, ahead + 2]


def test_closed_lake_says_so(store_url, location):
    lake = deltasql.connect(store_url, location=location)
    table = _create(lake)
    before = threading.active_count()
    lake.close()
    lake.close()
    with within(10), pytest.raises(DatabaseError):
        table.commit([new_add("closed", 1)])
    assert threading.active_count() <= before
