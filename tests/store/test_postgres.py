"""What only PostgreSQL has: its pool, its planner, and transactions that must not stay open."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import DatabaseError, VersionConflictError
from deltasql.spec.actions import AddFile
from deltasql.store.postgres.bulk.spool import spooled
from deltasql.store.postgres.connections.failures import translate
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.reader import SQL
from deltasql.telemetry import metrics
from deltasql.testing.proposals import commit
from tests.faults.waiting import Background, blocked, until

SCHEMA = pa.schema([("id", pa.int64())])


def _files(count: int) -> list[AddFile]:
    return [AddFile(path=f"{n}.parquet", size=n, modification_time=0) for n in range(count)]


@contextmanager
def opened(url: str) -> Iterator[Connections]:
    connections = Connections(url, size=3, timeout=10)
    connections.open()
    try:
        yield connections
    finally:
        connections.close()


def _gauge(name: str, labels: dict[str, str] | None = None) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, labels or {})


class TestAudit:
    def test_finds_times_by_their_index(self, postgres_url, tmp_path):
        deltasql.connect(postgres_url, location=tmp_path.as_uri()).close()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            # A commit a second, over many tables.
            connection.execute(
                "INSERT INTO dl_table_versions SELECT n % 2000, n, n::text, to_timestamp(n),"
                " n * 1000, NULL, NULL, NULL, NULL, true, '', 'raw', ''"
                " FROM generate_series(1, 60000) AS n"
            )
            connection.execute("VACUUM (ANALYZE) dl_table_versions")
            window = {"start": 30_000_000, "stop": 30_060_000}
            window |= {"after_time": -1, "after_table": -1, "after_version": -1, "most": 1_000}
            plan = connection.execute("EXPLAIN " + SQL["versions_audit"], window).fetchall()
        assert "dl_table_versions_committed_at" in str(plan)

    def test_start_is_inside_and_end_is_not(self, postgres_url, tmp_path):
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", SCHEMA)
            for file in _files(3):
                table.commit([file])
            times = [record.in_commit_timestamp for record in lake.store.history(table.table_id)]
            newest, oldest = times[0], times[-1]
            found = lake.store.audit(oldest, newest)
            assert [record.version for _, record in found] == [0, 1, 2]


class TestPurge:
    def test_all_that_is_deleted_is_asked_for_first(self):
        deletes = {name: text for name, text in SQL.items() if name.startswith("purge_")}
        tables = {text.split()[2] for text in deletes.values()}
        assert tables == set(re.findall(r"'(dl_\w+)'", SQL["may_purge"]))


class TestMetrics:
    def test_pool(self, postgres_url, tmp_path):
        settings = {"sql.pool_size": 1}
        with deltasql.connect(postgres_url, location=tmp_path.as_uri(), settings=settings) as lake:
            table = lake.create_table("a", SCHEMA)
            before = _gauge("sql_pool_in_use")
            with lake.store.locked([table.table_id]):
                assert _gauge("sql_pool_in_use") == before + 1
                waiting = Background(lambda: table.version)
                until(lambda: _gauge("sql_pool_waiting") >= 1)
            assert waiting.result() == 0
            until(lambda: _gauge("sql_pool_waiting") == 0)

    def test_live_files(self, store_url, tmp_path):
        with deltasql.connect(store_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("counted", SCHEMA)
            table.commit(_files(3))
            assert _gauge("files_active_gauge", {"table": "counted"}) == 3
        assert _gauge("files_active_gauge", {"table": "counted"}) is None


def test_prepared_statements_may_vanish(postgres_url, tmp_path):
    """psycopg drops them all after some statements; a pooler may lend another backend."""
    with deltasql.connect(
        postgres_url, location=tmp_path.as_uri(), settings={"sql.pool_size": 1}
    ) as lake:
        table = lake.create_table("a", SCHEMA)
        for number, file in enumerate(_files(4), start=1):
            assert table.commit([file]) == number
            with lake.store.locked([table.table_id]) as log:
                log.execute("DEALLOCATE ALL")


class TestPool:
    def test_threads_share_what_there_is(self, postgres_url, tmp_path):
        """One connection stays at hand beside the pool; nobody may wait while it is idle."""
        settings = {"sql.pool_size": 2, "sql.timeout": 20}
        with deltasql.connect(postgres_url, location=tmp_path.as_uri(), settings=settings) as lake:
            table = lake.create_table("a", SCHEMA)
            files = _files(160)

            def commit(part: list[AddFile]) -> int:
                return sum(bool(table.commit([file]) and table.version) for file in part)

            parts = [files[start : start + 20] for start in range(0, 160, 20)]
            writers = [Background(lambda part=part: commit(part)) for part in parts]
            assert [writer.result() for writer in writers] == [20] * 8
            assert table.version == 160
            assert _connections(postgres_url) <= 2
            # The pool takes them back in a thread of its own.
            until(lambda: lake.store.pool_usage() == (0, 0))
        until(lambda: _connections(postgres_url) == 0)


def _connections(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'deltasql'"
        ).fetchone()
    assert found is not None
    return int(found[0])


class TestOneNewFile:
    """The commonest commit: whatever there is to say of a file is said."""

    def test_file_that_is_live_is_restated(self, postgres_url, tmp_path):
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", SCHEMA)
            (file,) = _files(1)
            assert [table.commit([file]), table.commit([file])] == [1, 2]
            assert table.snapshot().files()["version"].to_pylist() == [2]
            assert table.snapshot(1).files()["version"].to_pylist() == [1]

    @pytest.mark.parametrize(
        "special",
        [
            {"tags": {"t": "1"}},
            {"clustering_provider": "liquid"},
            {"extra": {"new": [1]}},
            {"data_change": False},
            {"base_row_id": 0, "default_row_commit_version": 1},
        ],
        ids=lambda special: next(iter(special)),
    )
    def test_file_of_which_more_is_known(self, postgres_url, tmp_path, special):
        """All of it is written."""
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            tracked = {"delta.enableRowTracking": "true"} if "base_row_id" in special else {}
            table = lake.create_table("a", SCHEMA, properties=tracked)
            stats = '{"numRecords":1}'
            file = replace(_files(1)[0], stats=stats, **special)
            table.commit([file])
            assert list(table.snapshot().adds()) == [file]

    def test_transaction_that_it_belongs_to(self, postgres_url, tmp_path):
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", SCHEMA)
            (file,) = _files(1)
            given = {"transaction_id": "tx", "may_have_vectors": False}
            assert commit(lake.store, table.table_id, file, **given).version == 1
            assert table.history()[0].transaction_id == "tx"

    def test_head_that_moved(self, postgres_url, tmp_path):
        location = tmp_path.as_uri()
        with (
            deltasql.connect(postgres_url, location=location) as lake,
            deltasql.connect(postgres_url, location=location) as other,
        ):
            table = lake.create_table("a", SCHEMA)
            first, second, third = _files(3)
            table.commit([first])
            metadata = other.table("a").snapshot().metadata
            other.table("a").commit([replace(metadata, description="changed")])
            assert table.commit([second]) == 3
            with pytest.raises(VersionConflictError):
                table.commit([third], expected_version=3)
            assert table.commit([third], expected_version=4) == 4


class TestEndOfTheCommit:
    """The server commits when it has answered: only then the answer counts."""

    def test_that_fails(self, postgres_url, tmp_path):
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", SCHEMA)
            first, second, third = _files(3)
            table.commit([first])
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(
                    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                    " $$ BEGIN RAISE EXCEPTION 'not at the end'; END $$"
                )
                connection.execute(
                    "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON dl_table_versions"
                    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
                )
                with pytest.raises(DatabaseError, match="committing"):
                    table.commit([second])
                connection.execute("DROP TRIGGER refuse ON dl_table_versions")
            assert table.version == 1
            assert table.commit([third]) == 2


class TestCtrlC:
    def test_ends_the_statement_that_nobody_waits_for(self, postgres_url, tmp_path):
        """At the first look at the answer, before psycopg's own wait would see it."""

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        def none_waits() -> bool:
            return blocked(postgres_url) == 0

        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", SCHEMA)
            first, second, third = _files(3)
            table.commit([first])
            before = signal.signal(signal.SIGALRM, interrupt)
            try:
                with lake.store.locked([table.table_id]):
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    with pytest.raises(KeyboardInterrupt):
                        table.commit([second])
                    until(none_waits)
            finally:
                signal.signal(signal.SIGALRM, before)
            assert table.version == 1
            assert table.commit([third]) == 2
            assert table.snapshot().files()["path"].to_pylist() == ["0.parquet", "2.parquet"]


class TestSlowReader:
    def test_holds_no_transaction(self, postgres_url, tmp_path):
        with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
            table = lake.create_table("a", SCHEMA)
            table.commit(_files(5_000))
            batches = iter(table.snapshot().file_batches())
            first = next(batches)
            with psycopg.connect(postgres_url, autocommit=True) as connection:

                def held() -> bool:
                    return bool(
                        connection.execute(
                            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                            " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
                        ).fetchall()
                    )

                until(lambda: not held())
            rest = sum(batch.num_rows for batch in batches)
            assert first.num_rows + rest == 5_000


def _batches(count: int, ended: list[bool]) -> Iterator[pa.RecordBatch]:
    try:
        for number in range(count):
            yield pa.RecordBatch.from_pydict({"n": [number] * 1_000})
    finally:
        ended.append(True)


class TestSpool:
    @pytest.mark.parametrize("in_memory", [0, 20_000, 10**9])
    def test_keeps_batches_in_order(self, in_memory):
        found = [batch["n"][0].as_py() for batch in spooled(_batches(50, []), in_memory=in_memory)]
        assert found == list(range(50))

    @pytest.mark.parametrize("in_memory", [0, 10**9])
    def test_source_ends_before_its_reader(self, in_memory):
        ended: list[bool] = []
        batches = spooled(_batches(50, ended), in_memory=in_memory)
        next(batches)
        until(lambda: bool(ended))
        assert sum(1 for _ in batches) == 49

    def test_reader_ends_before_its_source(self):
        ended: list[bool] = []
        batches = spooled(_batches(10**6, ended), in_memory=0)
        next(batches)
        batches.close()
        assert ended
        assert not [t for t in threading.enumerate() if t.name == "deltasql-spool"]

    def test_failure_comes_after_what_was_read(self):
        def failing() -> Iterator[pa.RecordBatch]:
            yield from _batches(3, [])
            raise OSError("gone")

        batches = spooled(failing(), in_memory=0)
        assert [next(batches)["n"][0].as_py() for _ in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match="gone"):
            next(batches)


class TestTakeovers:
    """Which server answers: failovers themselves are in tests/faults."""

    def test_a_restart_is_none(self, private_postgres):
        with opened(private_postgres.create_database("lake")) as connections:
            assert connections.rows("SELECT 1", {}) == [(1,)]
            private_postgres.restart()
            assert connections.rows("SELECT 1", {}) == [(1,)]
            assert connections.servers.takeovers == 0

    def test_a_database_made_anew_is_one(self, postgres_server, postgres_dbname):
        with opened(postgres_server.url(postgres_dbname)) as connections:
            connections.rows("SELECT 1", {})
            postgres_server.drop_database(postgres_dbname)
            postgres_server.create_database(postgres_dbname)
            assert connections.rows("SELECT 1", {}) == [(1,)]
            assert connections.servers.takeovers == 1

    def test_who_may_not_ask_goes_on(self, postgres_url):
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM public")
            connection.execute("DROP ROLE IF EXISTS nosy")
            connection.execute("CREATE ROLE nosy LOGIN")
        with opened(postgres_url.replace("postgres@", "nosy@")) as connections:
            assert connections.rows("SELECT current_user::text", {}) == [("nosy",)]
            assert connections.servers.takeovers == 0
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP ROLE nosy")


@pytest.mark.parametrize(
    ("limit", "problem", "cause"),
    [
        ("statement_timeout", "cancelled a statement while reading", "statement timeout"),
        ("lock_timeout", "a lock was not granted in time while reading", "lock timeout"),
    ],
)
def test_a_cancelled_statement_says_what_happened(postgres_url, limit, problem, cause):
    with psycopg.connect(postgres_url) as holder, psycopg.connect(postgres_url) as other:
        holder.execute("CREATE TABLE IF NOT EXISTS held (x int)")
        holder.commit()
        holder.execute("LOCK TABLE held")
        other.execute("SELECT set_config(%s, '50ms', false)", [limit])
        with pytest.raises(psycopg.Error) as caught:
            other.execute("SELECT * FROM held")
    told = translate(caught.value, "reading")
    assert isinstance(told, deltasql.StoreTimeoutError)
    assert problem in told.problem
    assert cause in told.cause
