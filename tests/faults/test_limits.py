"""Nothing takes longer than it may: statements, queues, reads, purges, and who counts as one."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

import deltasql
from deltasql.errors import DatabaseError, StoreTimeoutError
from tests.faults.waiting import Background, until, within
from tests.stress.database import query
from tests.stress.writers import SCHEMA, new_add

TIMEOUT = 1.0
SHORT = {"sql.timeout": TIMEOUT}
ROUTES = pytest.mark.parametrize("url_of", ["postgres_url", "pgbouncer_url"])
SLEEPERS = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'"


def _create(lake: deltasql.Lake, name: str = "a") -> deltasql.Table:
    return lake.create_table(name, SCHEMA, partition_by=["p"], exists_ok=True)


@ROUTES
def test_statement_of_the_application_ends_on_the_server(request, postgres_url, tmp_path, url_of):
    url = request.getfixturevalue(url_of)
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=SHORT) as lake:
        table = _create(lake)

        def run() -> None:
            with lake.transaction() as tx:
                tx.table("a").commit([new_add("a", 1)])
                tx.sql_execute("SELECT pg_sleep(60)")

        with within(2 * TIMEOUT + 1), pytest.raises(StoreTimeoutError):
            run()
        assert query(postgres_url, SLEEPERS) == [(0,)]
        with within(TIMEOUT):
            assert table.commit([new_add("b", 1)]) == 1


@ROUTES
def test_commit_that_takes_too_long_is_known_to_have_failed(
    request, postgres_url, tmp_path, url_of
):
    """Not by a lock: so only the limit of the statement as a whole ends it."""
    url = request.getfixturevalue(url_of)
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=SHORT) as lake:
        table = _create(lake)
        table.commit([new_add("a", 1)])
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION snooze() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;"
                "CREATE TRIGGER snooze BEFORE INSERT ON dl_table_versions"
                " FOR EACH ROW EXECUTE FUNCTION snooze()"
            )
            with within(2 * TIMEOUT + 1), pytest.raises(StoreTimeoutError):
                table.commit([new_add("b", 1)])
            until(lambda: query(postgres_url, SLEEPERS) == [(0,)], 1)
            connection.execute("DROP TRIGGER snooze ON dl_table_versions")
        assert table.version == 1
        assert table.commit([new_add("c", 1)]) == 2


def test_commit_behind_several_locks(postgres_url, tmp_path):
    """Each is to be had within the limit, and not all of them together."""
    with deltasql.connect(postgres_url, location=tmp_path.as_uri(), settings=SHORT) as lake:
        tables = [_create(lake, name) for name in "abc"]

        def run() -> None:
            with lake.transaction() as tx:
                for name in "abc":
                    tx.table(name).commit([new_add(name, 1)])

        holders = [psycopg.connect(postgres_url) for _ in tables]
        for holder, table in zip(holders, tables, strict=True):
            lock = "SELECT 1 FROM dl_table_heads WHERE table_id = %s FOR UPDATE"
            holder.execute(lock, [table.table_id])
        timers = [
            threading.Timer(0.8 * TIMEOUT * number, holder.close)
            for number, holder in enumerate(holders[:-1], start=1)
        ]
        for timer in timers:
            timer.start()
        # Each lock by itself would take no longer than the limit.
        with within(2 * TIMEOUT), pytest.raises(StoreTimeoutError):
            run()
        for timer in timers:
            timer.join()
        holders[-1].close()
        assert [table.version for table in tables] == [0, 0, 0]
        run()
        assert [table.version for table in tables] == [1, 1, 1]


def _sockets(port: int) -> set[int]:
    """This process's open connections to a server, by their own ports.

    Not counted on the server: it has those that were closed until it notices, which takes the
    longer the busier the machine is.
    """
    found = psutil.Process().net_connections("tcp")
    return {item.laddr.port for item in found if item.raddr and item.raddr.port == port}


@pytest.mark.parametrize("size", [1, 2, 4])
def test_reads_by_arrow_count(postgres_url, tmp_path, size):
    settings = {"sql.pool_size": size, "sql.timeout": 20}
    port = urlsplit(postgres_url).port
    before = _sockets(port)
    with deltasql.connect(postgres_url, location=tmp_path.as_uri(), settings=settings) as lake:
        table = _create(lake)
        most = [0]
        stop = threading.Event()

        def count() -> None:
            while not stop.is_set():
                most[0] = max(most[0], len(_sockets(port) - before))

        def work(number: int) -> int:
            for turn in range(4):
                table.commit([new_add(f"{number}-{turn}", 1)])
                table.snapshot().files()
            return table.snapshot().files().num_rows

        counting = Background(count)
        workers = [Background(lambda number=number: work(number)) for number in range(6)]
        assert max(worker.result(60) for worker in workers) == 24
        stop.set()
        counting.result()
        assert 0 < most[0] <= size
        assert lake.store.pool_usage()[0] <= 1


class TestSilentServer:
    """The connection stays open, and nothing comes."""

    @pytest.fixture
    def lake(self, postgres_server, postgres_dbname, postgres_proxy, tmp_path):
        url = postgres_server.url(postgres_dbname, port=postgres_proxy.port)
        settings = {**SHORT, "sql.pool_size": 3}
        with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
            yield lake

    def test_read(self, lake, postgres_proxy):
        table = _create(lake)
        table.commit([new_add("a", 1)])
        assert table.snapshot().files().num_rows == 1
        snapshot = table.snapshot()
        with postgres_proxy.toxic("timeout", timeout=0):
            reading = Background(snapshot.files)
            with within(4 * TIMEOUT), pytest.raises(StoreTimeoutError):
                reading.result(5 * TIMEOUT)
        assert table.snapshot().files().num_rows == 1

    def test_purge(self, lake, postgres_proxy):
        table = _create(lake)
        lake.drop_table("a")
        with postgres_proxy.toxic("timeout", timeout=0):
            purging = Background(lambda: lake.store.purge_table(table.table_id))
            with pytest.raises((DatabaseError, StoreTimeoutError)):
                purging.result(8 * TIMEOUT)
        lake.store.purge_table(table.table_id)

    def test_purge_that_takes_long(self, lake, postgres_url):
        """A server that is at work is no silent one."""
        table = _create(lake)
        lake.drop_table("a")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION snooze() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM pg_sleep(4); RETURN OLD; END $$;"
                "CREATE TRIGGER snooze BEFORE DELETE ON dl_table_versions"
                " FOR EACH ROW EXECUTE FUNCTION snooze()"
            )
        lake.store.purge_table(table.table_id)
        assert query(postgres_url, "SELECT count(*) FROM dl_table_versions") == [(0,)]
