"""A PostgreSQL server that dies under a storm of commits loses none that it acknowledged."""

from __future__ import annotations

import pytest

from tests.faults.waiting import until
from tests.stress import history, swarm
from tests.stress.journal import Told
from tests.stress.swarm import Swarm
from tests.stress.writers import SEVERAL_TABLES, create_tables

WRITERS = 4
COMMITS = 40


@pytest.mark.parametrize("how", ["immediate", "kill"])
def test_acknowledged_commits_survive(private_postgres, tmp_path, how):
    url = private_postgres.create_database("storm")
    location = tmp_path.joinpath("lake").as_uri()
    tables = create_tables(url, location, 3)
    mix = {kind: weight for kind, weight in SEVERAL_TABLES.items() if kind != "large"}
    jobs = Swarm(url, location, tmp_path, tables, mix).jobs(WRITERS, COMMITS, endures=True)

    def crash() -> None:
        for _ in range(2):
            _wait_for_progress(jobs)
            if how == "kill":
                private_postgres.kill()
            else:
                private_postgres.stop(how)
            private_postgres.start()

    told = swarm.run(jobs, meanwhile=crash)
    found = history.check(url, location, told)
    lost = [intent.refused for intent in told.refused if "DatabaseError" in str(intent.refused)]
    print(f"{how}: {found}, {len(lost)} failed with DatabaseError")
    assert found.acknowledged >= WRITERS * COMMITS


def _wait_for_progress(jobs) -> None:
    """Until every writer has done some more, or all it had to."""
    before = [_done(job) for job in jobs]
    wanted = [min(count + 6, COMMITS) for count in before]
    until(lambda: all(_done(job) >= n for job, n in zip(jobs, wanted, strict=True)), limit=80)


def _done(job) -> int:
    return len(Told.read(job.journal).done) if job.journal.exists() else 0
