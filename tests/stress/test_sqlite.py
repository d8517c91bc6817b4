"""SQLite under eight processes, some of them killed."""

from __future__ import annotations

import pytest

from tests.stress import history, swarm
from tests.stress.swarm import Swarm
from tests.stress.writers import ONE_TABLE, SEVERAL_TABLES, create_tables

pytestmark = [pytest.mark.stress, pytest.mark.alone, pytest.mark.timeout(900)]

WRITERS = 8
COMMITS = 200


@pytest.mark.parametrize(("tables", "mix"), [(1, ONE_TABLE), (8, SEVERAL_TABLES)])
def test_mixed_commits_with_kills(sqlite_url, tmp_path, stress_factor, tables, mix):
    location = tmp_path.joinpath("lake").as_uri()
    lake = Swarm(sqlite_url, location, tmp_path, create_tables(sqlite_url, location, tables), mix)
    commits = max(5, round(COMMITS * stress_factor))
    jobs = lake.jobs(WRITERS, commits, seed=2)
    told = swarm.run(jobs, kills=max(10, round(100 * stress_factor)), limit=800)
    found = history.check(sqlite_url, location, told)
    print(f"SQLite, {tables} tables: {found}")
    assert found.acknowledged >= WRITERS * commits
