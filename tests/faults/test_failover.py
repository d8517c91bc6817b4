"""The database fails over to a standby: what was acknowledged is there, once, and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count

import pyarrow as pa
import pytest

import deltasql
from tests.adoption.runbook import Operator
from tests.conftest import open_directory
from tests.faults.waiting import Background, until
from tests.parts.postgres import PostgresServer
from tests.stress import history, swarm
from tests.stress.journal import Told
from tests.stress.swarm import Swarm
from tests.stress.writers import SEVERAL_TABLES, Job, create_tables

WRITERS = 16
ROUNDS = 10
# What every writer does between two failovers, and after the last.
COMMITS = 5


class Pair:
    """A primary and its standby, which take turns."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary, self.standby = primary, standby

    def url(self, dbname: str) -> str:
        """Both hosts, in an order that does not change: clients look for the primary."""
        ports = sorted((self.primary.port, self.standby.port))
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/{dbname}?target_session_attrs=read-write"

    def replicate(self, *, is_synchronous: bool) -> None:
        """Begin the standby; from here on commits wait for it, if it is a synchronous one."""
        self.standby.follow(self.primary)
        if is_synchronous:
            self.primary.alter("synchronous_standby_names", "*")
            self.primary.wait_for("SELECT bool_and(sync_state = 'sync') FROM pg_stat_replication")

    def cut(self) -> None:
        """From here on the standby gets nothing; what it was sent before, it has."""
        self.standby.alter("primary_conninfo", "")
        self.primary.wait_for("SELECT count(*) = 0 FROM pg_stat_replication")

    def fail_over(self) -> None:
        """The primary is gone in this instant, and the standby takes its place."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary


@pytest.fixture
def pair(postgres_server: PostgresServer) -> Iterator[Pair]:
    with ExitStack() as stack:
        primary, standby = (
            PostgresServer(stack.enter_context(open_directory(name)), beside=postgres_server)
            for name in ("primary", "standby")
        )
        stack.enter_context(primary)
        stack.callback(standby.stop, "immediate")
        yield Pair(primary, standby)


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost(pair, tmp_path, stress_factor):
    rounds = max(1, round(ROUNDS * stress_factor))
    pair.primary.create_database("storm")
    pair.replicate(is_synchronous=True)
    url, location = pair.url("storm"), tmp_path.joinpath("lake").as_uri()
    tables = create_tables(url, location, 3)
    mix = {kind: weight for kind, weight in SEVERAL_TABLES.items() if kind != "large"}
    commits = COMMITS * (rounds + 1)
    jobs = Swarm(url, location, tmp_path, tables, mix).jobs(WRITERS, commits, endures=True)

    def fail_over_again_and_again() -> None:
        for number in range(1, rounds + 1):
            _wait_until_done(jobs, COMMITS * number)
            pair.fail_over()
            if number < rounds:
                pair.replicate(is_synchronous=True)

    told = swarm.run(jobs, meanwhile=fail_over_again_and_again, limit=800)
    found = history.check(url, location, told)
    print(f"{rounds} failovers: {found}")
    assert found.acknowledged >= WRITERS * commits
    with deltasql.connect(url, location=location, settings={"mirror.mode": "sync"}) as lake:
        lake.mirror.run(once=True)
        assert lake.mirror.validate().ok
        assert all(status.lag_versions == 0 for status in lake.mirror.status())


def _wait_until_done(jobs: Sequence[Job], count: int) -> None:
    def done(job: Job) -> int:
        return len(Told.read(job.journal).done) if job.journal.exists() else 0

    until(lambda: all(done(job) >= count for job in jobs), limit=120)


class Appender:
    """Appends a row at a time to a table, in a process that lives on, until it is stopped."""

    def __init__(self, lake: deltasql.Lake, number: int) -> None:
        self.lake = lake
        self.acknowledged: dict[int, int] = {}
        self.unknown: list[int] = []
        self._ids = count(1_000_000 * number)

    def run(self) -> deltasql.DeltaSqlError:
        while True:
            try:
                self.append("busy")
            except (deltasql.MirrorError, deltasql.CommitStateUnknownError) as error:
                return error

    def append(self, name: str) -> int:
        number = next(self._ids)
        try:
            version = self.lake.table(name).append(rows(number))
        except deltasql.CommitStateUnknownError:
            self.unknown.append(number)
            raise
        if name == "busy":
            self.acknowledged[number] = version
        return version

    def append_to_both(self) -> None:
        with self.lake.transaction() as tx:
            for name in ("calm", "busy"):
                tx.table(name).append(rows(4))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.mark.timeout(300)
def test_an_asynchronous_standby_lacks_what_the_mirror_has(pair, tmp_path):
    pair.primary.create_database("lake")
    pair.replicate(is_synchronous=False)
    settings = {"url": pair.url("lake"), "mirror.mode": "sync", "sql.timeout": "20s"}
    operator = Operator("operations.md", tmp_path, settings)
    with ExitStack() as stack:
        lakes = [stack.enter_context(operator.lake()) for _ in range(6)]
        for name in ("busy", "calm"):
            lakes[0].create_table(name, rows().schema).append(rows(1))
        appenders = [Appender(lake, number) for number, lake in enumerate(lakes, start=1)]
        for appender in appenders:
            appender.append("busy")
            appender.lake.table("calm").append(rows(2))
        pair.cut()
        *busy, idle, between = appenders
        running = [Background(appender.run) for appender in busy]
        until(lambda: all(len(appender.acknowledged) > 4 for appender in busy), limit=60)
        pair.fail_over()
        for thread in running:
            assert "ahead of SQL" in str(thread.result(60))
        # Writers that did not write in that moment look as well, and only where it matters.
        stopped = (deltasql.MirrorError, deltasql.CommitStateUnknownError)
        with pytest.raises(stopped, match="ahead"):
            idle.append("busy")
        with pytest.raises(stopped, match="ahead"):
            between.append_to_both()
        with pytest.raises(deltasql.MirrorError, match="ahead"):
            busy[0].append("busy")
        assert lakes[1].table("calm").append(rows(3)) == len(lakes) + 2

        newest = max(int(path.stem) for path in tmp_path.glob("lake/busy/_delta_log/*.json"))
        report = lakes[0].mirror.validate().tables["busy"]
        assert report.foreign_versions
        assert not report.digest_mismatches, "nobody gave a version a second meaning"
        operator.names["lake"] = lakes[0]
        operator.follow("Failover")
        told = {1: 1} | {
            key: value for item in appenders for key, value in item.acknowledged.items()
        }
        mirrored = {number for number, version in told.items() if version <= newest}
        unknown = {number for item in appenders for number in item.unknown}
        for appender in appenders:
            appender.append("busy")
            mirrored.update(list(appender.acknowledged)[-1:])
        found = operator.ids("busy")
        assert len(found) == len(set(found)), "nothing is doubled"
        # The last ones may have been acknowledged when their mirror found no database any more.
        assert mirrored <= set(found) <= told.keys() | mirrored | unknown
        assert len(told.keys() - mirrored) <= len(appenders)
        versions = [entry.version for entry in lakes[0].table("busy").history()]
        assert versions == list(range(len(versions)))[::-1]
        assert lakes[0].mirror.validate().ok


def test_what_no_standby_has_is_not_acknowledged(pair, tmp_path):
    """A backend that is ended while it waits for the standby leaves a commit that everybody sees
    on the primary, and that is gone after a failover: seeing it is no answer.
    """
    pair.primary.create_database("lake")
    pair.replicate(is_synchronous=True)
    url = pair.url("lake")
    settings = {"sql.timeout": "3s"}
    with deltasql.connect(url, tmp_path.joinpath("lake").as_uri(), settings=settings) as lake:
        table = lake.create_table("t", rows().schema)
        assert table.append(rows(1)) == 1
        pair.cut()
        append = Background(lambda: table.append(rows(2)))
        pair.primary.wait_for(
            "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE wait_event = 'SyncRep'"
        )
        with pytest.raises(deltasql.CommitStateUnknownError):
            append.result(60)
        assert table.version == 2, "the primary has it"
        pair.fail_over()
        assert table.version == 1
        assert table.append(rows(3)) == 2
        assert table.scan().to_arrow().column("id").to_pylist() == [1, 3]
