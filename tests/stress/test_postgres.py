"""PostgreSQL under many writers: 16 processes of 200 mixed commits at the full size."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import deltasql
from deltasql.commit.request import propose
from tests.faults.waiting import Background
from tests.stress import history, swarm
from tests.stress.database import query
from tests.stress.journal import Told
from tests.stress.swarm import Swarm
from tests.stress.writers import ONE_TABLE, SEVERAL_TABLES, Job, create_tables, new_add, work

pytestmark = [pytest.mark.stress, pytest.mark.alone, pytest.mark.timeout(900)]

WRITERS = 16
COMMITS = 200


def _swarm(url: str, tmp_path: Path, tables: int, mix) -> Swarm:
    location = tmp_path.joinpath("lake").as_uri()
    return Swarm(url, location, tmp_path, create_tables(url, location, tables), mix)


@pytest.mark.parametrize(("tables", "mix"), [(1, ONE_TABLE), (8, SEVERAL_TABLES)])
def test_mixed_commits_with_kills(postgres_url, tmp_path, stress_factor, tables, mix):
    lake = _swarm(postgres_url, tmp_path, tables, mix)
    commits = max(5, round(COMMITS * stress_factor))
    told = swarm.run(
        lake.jobs(WRITERS, commits), kills=max(10, round(100 * stress_factor)), limit=800
    )
    found = history.check(postgres_url, lake.location, told)
    print(f"{tables} tables: {found}; reruns {_reruns(told)}")
    assert found.acknowledged >= WRITERS * commits
    assert _deadlocks(postgres_url) == 0


def test_deadlock_hunt(postgres_url, tmp_path, stress_factor):
    """Transactions over random tables in random order, beside commits to one table each."""
    mix = {"several": 10, "append": 2, "set_property": 1, "large": 1, "cut": 1}
    lake = _swarm(postgres_url, tmp_path, 8, mix)
    told = swarm.run(lake.jobs(8, max(5, round(200 * stress_factor)), seed=1), limit=800)
    found = history.check(postgres_url, lake.location, told)
    print(f"deadlock hunt: {found}; reruns {_reruns(told)}")
    # The library would try again after a deadlock: the server knows better.
    assert _deadlocks(postgres_url) == 0


def test_drop_beside_a_change_of_metadata(postgres_url, tmp_path):
    """Both take the same two locks."""
    location = tmp_path.as_uri()
    (name,) = create_tables(postgres_url, location, 1)
    with deltasql.connect(postgres_url, location=location) as lake:
        table = lake.table(name)
        state = lake.states.current(table.table_id)
        changed = replace(state.metadata, description="changed")
        proposal = propose(table.request([changed], operation="WRITE"), state)
        with lake.store.locked([table.table_id]) as log:
            drop = Background(lambda: lake.drop_table(name))
            _wait_until_blocked(postgres_url)
            log.write(proposal)
        drop.result()
        assert lake.tables() == []
    assert _deadlocks(postgres_url) == 0


def test_other_tables_are_never_blocked(postgres_url, tmp_path):
    location = tmp_path.as_uri()
    held, free = create_tables(postgres_url, location, 2)
    with deltasql.connect(postgres_url, location=location) as lake:
        table_id = lake.table(held).table_id
        with lake.store.locked([table_id]):
            started = time.monotonic()
            assert lake.table(free).commit([new_add("free", 1)]) == 1
            with lake.transaction() as tx:
                tx.table(free).commit([new_add("free", 1)])
            assert lake.table(held).snapshot().version == 0
            lake.create_table("stress.new", schema=lake.table(free).snapshot().schema)
            assert time.monotonic() - started < 10
            waiting = _Committer(lake.table(held))
            waiting.start()
            _wait_until_blocked(postgres_url)
            assert waiting.version is None
        waiting.join(10)
        assert waiting.version == 1


class _Committer(threading.Thread):
    def __init__(self, table: deltasql.Table) -> None:
        super().__init__()
        self.table = table
        self.version: int | None = None

    def run(self) -> None:
        self.version = self.table.commit([new_add("held", 1)])


def _wait_until_blocked(url: str) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(url, autocommit=True) as connection:
        deadline = time.monotonic() + 10
        while not connection.execute(waiting).fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.01)


class TestStarvation:
    """Writers that read must get their turn beside eight who only append."""

    def test_disjoint_ones_never_rerun(self, postgres_url, tmp_path, stress_factor):
        lake = _swarm(postgres_url, tmp_path, 1, {"append": 1})
        commits = max(4, round(40 * stress_factor))
        jobs = lake.jobs(12, 10**9)
        appenders = jobs[4:]
        careful = [
            replace(job, mix={"replace_files": 1}, partitions=[job.slot], commits=commits)
            for job in jobs[:4]
        ]
        told = _beside(careful, appenders)
        print(f"disjoint: {history.check(postgres_url, lake.location, told)}")
        assert _reruns(told) == {}

    def test_contending_ones_succeed_after_few(self, postgres_url, tmp_path, stress_factor):
        lake = _swarm(postgres_url, tmp_path, 1, {"append": 1})
        commits = max(4, round(40 * stress_factor))
        jobs = lake.jobs(12, 10**9)
        careful = [
            replace(job, mix={"replace_files": 1}, partitions=[0], commits=commits)
            for job in jobs[:4]
        ]
        told = _beside(careful, jobs[4:])
        print(f"contending: {history.check(postgres_url, lake.location, told)}, {_reruns(told)}")
        # Against three others a rerun or two is expected; the writer itself gives up at 60.
        assert sum(_reruns(told).values()) <= 4 * commits * 10


def _beside(careful: Sequence[Job], appenders: Sequence[Job]) -> Told:
    """Run the careful ones to their end while the others append all the time."""
    background = [swarm.start(work, job) for job in appenders]
    try:
        _wait_for_journals(appenders)
        swarm.run(careful, limit=300)
        assert all(process.is_alive() for process in background)
    finally:
        for process in background:
            process.kill()
            process.join()
    return Told.read(*(job.journal for job in [*careful, *appenders]))


def _wait_for_journals(jobs: Sequence[Job]) -> None:
    deadline = time.monotonic() + 60
    while not all(job.journal.exists() and Told.read(job.journal).done for job in jobs):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _reruns(told) -> dict[str, int]:
    total: dict[str, int] = {}
    for note in told.notes:
        for kind, count in note.get("reruns", {}).items():
            total[kind] = total.get(kind, 0) + count
    return total


def _deadlocks(url: str) -> int:
    ((count,),) = query(
        url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return count
