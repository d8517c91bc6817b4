"""DuckDB under eight threads of the one process that may write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import deltasql
from tests.stress import history
from tests.stress.journal import Journal, Told
from tests.stress.swarm import Swarm
from tests.stress.writers import SEVERAL_TABLES, Job, Writer, create_tables

pytestmark = [pytest.mark.stress, pytest.mark.alone, pytest.mark.timeout(900)]

WRITERS = 8
COMMITS = 200


@pytest.mark.parametrize("tables", [1, 8])
def test_mixed_commits(duckdb_url, tmp_path, stress_factor, tables):
    location = tmp_path.joinpath("lake").as_uri()
    names = create_tables(duckdb_url, location, tables)
    swarm = Swarm(duckdb_url, location, tmp_path, names, SEVERAL_TABLES)
    commits = max(5, round(COMMITS * stress_factor))
    jobs = swarm.jobs(WRITERS, commits, seed=3)
    with (
        deltasql.connect(duckdb_url, location=location) as lake,
        ThreadPoolExecutor(WRITERS) as threads,
    ):
        for done in [threads.submit(_work, job, lake) for job in jobs]:
            done.result()
    told = Told.read(*(job.journal for job in jobs))
    found = history.check(duckdb_url, location, told)
    print(f"DuckDB, {tables} tables: {found}")
    assert found.acknowledged >= WRITERS * commits


def _work(job: Job, lake: deltasql.Lake) -> None:
    journal = Journal(job.journal)
    try:
        Writer(job, lake, journal).run()
    finally:
        journal.close()
