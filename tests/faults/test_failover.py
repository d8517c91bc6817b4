"""The database fails over to a standby: what was acknowledged is there, once, and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

import deltasql
from tests.conftest import open_directory
from tests.faults.waiting import until
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

    def fail_over(self) -> None:
        """The primary is gone in this instant, and the standby takes its place."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        primary = PostgresServer(stack.enter_context(open_directory("primary")))
        standby = PostgresServer(stack.enter_context(open_directory("standby")), beside=primary)
        stack.enter_context(primary)
        stack.callback(standby.stop, "immediate")
        yield Pair(primary, standby)


@pytest.mark.postgres
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
