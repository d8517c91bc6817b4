"""Reads from a standby: never older than what this client has committed or seen."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ConfigError
from deltasql.lake import database
from deltasql.lake.looking.examining import examine
from deltasql.settings.sources import resolve
from deltasql.store.postgres.replicas import replica as replicas
from deltasql.telemetry import metrics
from tests.conftest import open_directory
from tests.faults.waiting import Background, until
from tests.parts.postgres import PostgresServer


class Servers:
    """A primary, a standby, and a folder for files."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer, folder: Path) -> None:
        self.primary, self.standby, self.folder = primary, standby, folder
        self.dbname = "lake"

    def lake(self, read_url: str | None = None, **settings: str) -> deltasql.Lake:
        given = {"sql.read_url": read_url or self.standby.url(self.dbname), "sql.timeout": "20s"}
        given |= {f"sql.{name}": value for name, value in settings.items()}
        location = self.folder.joinpath(self.dbname).as_uri()
        return deltasql.connect(self.primary.url(self.dbname), location, settings=given)

    def replay(self, *, is_on: bool) -> None:
        done = "resume" if is_on else "pause"
        _ask(self.standby.url(), f"SELECT pg_wal_replay_{done}()")
        if not is_on:
            self.standby.wait_for("SELECT pg_get_wal_replay_pause_state() = 'paused'")

    def catch_up(self) -> None:
        ((position,),) = _ask(self.primary.url(), "SELECT pg_current_wal_lsn()")
        self.standby.wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{position}'")


def _ask(url: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


def _reads() -> float:
    return metrics.REGISTRY.get_sample_value("sql_replica_reads_total") or 0


def _fallbacks(reason: str) -> float:
    found = metrics.REGISTRY.get_sample_value("sql_replica_fallbacks_total", {"reason": reason})
    return found or 0


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def _ids(table: deltasql.Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


@pytest.fixture(scope="module")
def pair(postgres_server: PostgresServer, tmp_path_factory) -> Iterator[Servers]:
    with ExitStack() as stack:
        primary, standby = (
            PostgresServer(stack.enter_context(open_directory(name)), beside=postgres_server)
            for name in ("primary", "standby")
        )
        stack.enter_context(primary)
        stack.callback(standby.stop, "immediate")
        standby.follow(primary)
        yield Servers(primary, standby, tmp_path_factory.mktemp("replica"))


@pytest.fixture
def servers(pair: Servers, request: pytest.FixtureRequest, monkeypatch) -> Servers:
    # Whether it rests is tested apart; here it is asked again at once.
    monkeypatch.setattr(replicas, "_FIRST_REST", 0.0)
    pair.dbname = request.node.name.removeprefix("test_")[:60]
    pair.primary.create_database(pair.dbname)
    pair.catch_up()
    return pair


def test_snapshots_files_and_history_come_from_the_replica(servers):
    with servers.lake() as lake:
        schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
        table = lake.create_table("t", schema, partition_by=["day"])
        for number in range(3):
            table.append(pa.table({"id": [number], "day": [f"d{number}"]}, schema=schema))
        servers.catch_up()
        before = _reads()
        assert table.snapshot().version == 3
        assert table.snapshot(version=1).files().num_rows == 1
        assert table.scan(where="day = 'd1'").to_arrow().column("id").to_pylist() == [1]
        assert [entry.version for entry in table.history()] == [3, 2, 1, 0]
        assert [change.version for change in table.changes(0)] == [0, 1, 2, 3]
        assert table.snapshot(timestamp=table.history()[1].timestamp).version == 2
        # Opened four times; files and history twice; partitions, changes and the time.
        assert _reads() == before + 11
        assert (_fallbacks("behind"), _fallbacks("failed")) == (0, 0)


def test_a_replica_that_lags_is_not_believed(servers, caplog):
    """Our own commits, and what we saw of others', are in every answer, paused or not."""
    with servers.lake() as lake, servers.lake(read_url="off") as other:
        table = lake.create_table("t", _rows().schema)
        table.append(_rows(1))
        servers.catch_up()
        servers.replay(is_on=False)
        try:
            with caplog.at_level(logging.INFO, "deltasql.replica"):
                fallbacks = _fallbacks("behind")
                table.append(_rows(2))
                assert _ids(table) == [1, 2]
                assert table.history()[0].version == 2
                assert table.changes(2)[0].version == 2
                assert _fallbacks("behind") > fallbacks
                with lake.transaction() as tx:
                    tx.table("t").append(_rows(3))
                assert _ids(table) == [1, 2, 3]
                assert other.table("t").append(_rows(4)) == 4
                assert lake.table("t").snapshot().version == 4, "looked up after it was committed"
                assert _ids(table) == [1, 2, 3, 4], "and never older again"
                table.overwrite(_rows(5))
                assert _ids(table) == [5]
                new = lake.create_table("new", _rows().schema)
                assert _ids(new) == []
                lake.rename_table("new", "newer")
                assert lake.table("newer").version == 0
                lake.drop_table("newer")
                with pytest.raises(deltasql.TableNotFoundError):
                    new.snapshot()
                servers.replay(is_on=True)
                servers.catch_up()
                reads = _reads()
                assert _ids(table) == [5]
                assert _reads() > reads
            told = [record.getMessage() for record in caplog.records]
            assert "is behind: it has not replayed version 2" in told[0]
            assert told[-1].endswith("again")
        finally:
            servers.replay(is_on=True)


def test_a_read_waits_a_moment_for_the_replica(servers, monkeypatch):
    monkeypatch.setattr("deltasql.store.postgres.replicas.reads._PATIENCE", 30.0)
    with servers.lake() as lake:
        table = lake.create_table("t", _rows().schema)
        table.append(_rows(1))
        servers.catch_up()
        servers.replay(is_on=False)
        try:
            table.append(_rows(2))
            before = _fallbacks("behind")
            reading = Background(lambda: _ids(table))
            servers.standby.wait_for(
                f"SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '{servers.dbname}'"
            )
            servers.replay(is_on=True)
            assert reading.result() == [1, 2]
            assert _fallbacks("behind") == before
        finally:
            servers.replay(is_on=True)


def test_others_versions_are_seen_within_the_time_allowed(servers):
    """A standby that gets nothing any more can't know how old it is."""
    with servers.lake(read_max_age="0s") as lake, servers.lake(read_max_age="1h") as patient:
        table = lake.create_table("t", _rows().schema)
        table.append(_rows(1))
        servers.catch_up()
        old = patient.table("t")
        assert _ids(old) == [1]
        servers.replay(is_on=False)
        try:
            with servers.lake(read_url="off") as other:
                other.table("t").append(_rows(2))
            assert _ids(old) == [1], "it has seen no newer one"
            assert _ids(table) == [1, 2]
            assert old.version == 2
            assert _ids(old) == [1, 2]
        finally:
            servers.replay(is_on=True)


def test_a_cut_over_several_tables_holds(servers):
    with servers.lake() as lake:
        for name in ("a", "b"):
            lake.create_table(name, _rows().schema).append(_rows(1))
        servers.catch_up()
        servers.replay(is_on=False)
        try:
            with lake.transaction() as tx:
                for name in ("a", "b"):
                    tx.table(name).append(_rows(2))
            heads = lake.store.heads()
            seen = {
                lake.table(name).snapshot(heads[lake.table(name).table_id].version).count()
                for name in ("a", "b")
            }
            assert seen == {2}
        finally:
            servers.replay(is_on=True)


def test_a_query_that_recovery_cancels_is_asked_of_the_primary(servers, toxiproxy):
    """Cancelled with rows already on their way: they come once."""
    servers.standby.alter("max_standby_streaming_delay", "0")
    proxy = toxiproxy.proxy(servers.dbname, servers.standby.port)
    with servers.lake(servers.standby.url(servers.dbname, port=proxy.port)) as lake:
        table = lake.create_table("t", _rows().schema)
        stats = json.dumps({"numRecords": 1, "other": "x" * 1000})
        table.commit(
            {"add": {"path": f"{number}.parquet", "partitionValues": {}, "size": 1,
                     "modificationTime": 1, "dataChange": True, "stats": stats}}
            for number in range(20_000)
        )  # fmt: skip
        servers.catch_up()
        snapshot = table.snapshot()
        before = _fallbacks("failed")
        with proxy.toxic("bandwidth", stream="downstream", rate=2000):
            reading = Background(lambda: snapshot.files().column("path").to_pylist())
            servers.standby.wait_for(
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'ClientWrite' "
                f"AND datname = '{servers.dbname}'"
            )
            with psycopg.connect(servers.primary.url(servers.dbname)) as connection:
                connection.execute("LOCK TABLE dl_active_files IN ACCESS EXCLUSIVE MODE")
            servers.standby.wait_for(
                "SELECT confl_lock > 0 FROM pg_stat_database_conflicts "
                f"WHERE datname = '{servers.dbname}'"
            )
        found = reading.result()
        assert len(found) == len(set(found)) == 20_000
        assert _fallbacks("failed") == before + 1


def test_a_dead_replica_is_left_alone(pair, monkeypatch, caplog):
    """The lake opens without it, reads from the primary, and finds it again."""
    monkeypatch.setattr(replicas, "_LONGEST_REST", 2.0)
    pair.dbname = "dead"
    pair.primary.create_database("dead")
    pair.catch_up()
    pair.standby.kill()
    with caplog.at_level(logging.INFO, "deltasql.replica"), pair.lake() as lake:
        table = lake.create_table("t", _rows().schema)
        table.append(_rows(1))
        failed = _fallbacks("failed")
        for _ in range(20):
            assert _ids(table) == [1]
        assert _fallbacks("failed") < failed + 20, "it is not asked each time"
        (told,) = [record.getMessage() for record in caplog.records]
        assert told.startswith("reading from the primary: the replica")
        pair.standby.start()
        pair.catch_up()
        reads = _reads()
        until(lambda: _ids(table) == [1] and _reads() > reads, limit=90)
        # And if it dies under open connections.
        pair.standby.kill()
        assert _ids(table) == [1]
        pair.standby.start()


def test_what_is_no_replica_is_refused(servers, postgres_server, tmp_path):
    postgres_server.create_database("replica_elsewhere")
    for url in (postgres_server.url("replica_elsewhere"), servers.primary.url("postgres")):
        with pytest.raises(ConfigError, match="not a replica"):
            servers.lake(read_url=url)
    with pytest.raises(ConfigError, match="no replicas"):
        deltasql.connect(
            f"sqlite:///{tmp_path}/lake.db", settings={"sql.read_url": servers.standby.url()}
        )


def test_status_and_doctor_tell_about_it(servers, monkeypatch):
    secret = servers.standby.url(servers.dbname).replace("postgres@", "postgres:hunter2@")
    for name, value in (
        ("URL", servers.primary.url(servers.dbname)),
        ("LOCATION", servers.folder.joinpath("told").as_uri()),
        ("SQL_READ_URL", secret),
    ):
        monkeypatch.setenv(f"DELTASQL_{name}", value)
    servers.lake().close()
    servers.catch_up()
    found = resolve()
    told = [
        database.status(found).replica["state"],
        *(item.finding for item in examine(found) if item.check == "replica"),
    ]
    assert len(told) == 2
    assert all("bytes of WAL behind" in text for text in told)
    assert "postgres:***@" in found.shown("sql.read_url")
    assert "hunter2" not in f"{told} {found} {found.settings}"


def test_a_standby_that_was_promoted_is_not_believed(servers):
    """Its next versions have the same numbers as the primary's, and other rows."""
    try:
        with servers.lake() as lake:
            table = lake.create_table("t", _rows().schema)
            table.append(_rows(1))
            servers.catch_up()
            reads = _reads()
            assert _ids(table) == [1]
            assert _reads() > reads
            snapshot = table.snapshot()
            servers.standby.promote()
            astray = servers.standby.url(servers.dbname)
            with deltasql.connect(astray, settings={"mirror.mode": "off"}) as other:
                other.table("t").append(_rows(666))
            table.append(_rows(2))
            for again in (table, lake.table("t")):
                assert _ids(again) == [1, 2]
                assert again.count("id = 666") == 0
            assert snapshot.scan().to_arrow().num_rows == 1
            with servers.lake() as later:
                assert _ids(later.table("t")) == [1, 2]
    finally:
        servers.standby.stop()
        servers.standby.follow(servers.primary)


def test_a_standby_of_the_history_that_was_lost_is_not_believed(postgres_server, tmp_path):
    """After a failover it still follows the old primary: it has versions of the same numbers, which
    the new one lacks and makes anew, with other rows.
    """
    with ExitStack() as stack:
        old, new, left = (
            PostgresServer(stack.enter_context(open_directory(name)), beside=postgres_server)
            for name in ("old", "new", "left")
        )
        for server in (old, new, left):
            stack.callback(server.stop, "immediate")
        old.start()
        new.follow(old)
        left.follow(old)
        before, after = Servers(old, left, tmp_path), Servers(new, left, tmp_path)
        old.create_database(before.dbname)
        with before.lake() as lake:
            table = lake.create_table("t", _rows().schema)
            table.append(_rows(1))
            new.wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{_position(old)}'")
            new.stop()
            table.append(_rows(666))
            before.catch_up()
            assert _ids(table) == [1, 666]
        old.kill()
        new.start()
        new.promote()
        with after.lake() as lake:
            table = lake.table("t")
            assert _ids(table) == [1]
            # Of the same number as the one that was lost.
            table.append(_rows(2))
            for again in (table, lake.table("t")):
                assert _ids(again) == [1, 2]
                assert again.count("id = 666") == 0
            assert [entry.version for entry in table.history()] == [2, 1, 0]
            pinned = table.snapshot()
            table.append(_rows(3))
            assert sorted(pinned.scan().to_arrow().column("id").to_pylist()) == [1, 2]
            assert sorted(table.snapshot(version=2).scan().to_arrow().column("id").to_pylist()) == [
                1,
                2,
            ]


def _position(server: PostgresServer) -> object:
    ((position,),) = _ask(server.url(), "SELECT pg_current_wal_lsn()")
    return position
