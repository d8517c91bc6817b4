"""Whose files are deleted when a commit fails: those of a refusal, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

import deltasql
from deltasql.errors import DatabaseError, StoreTimeoutError
from tests.faults.outcomes import SCHEMA, VERBS, Faults, rows


@pytest.mark.parametrize("verb", VERBS)
def test_files_of_a_commit_that_was_refused_are_deleted(sqlite_url, tmp_path, verb):
    """The discarder is no excuse to leave everything."""
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        for name in ("t", "other"):
            lake.create_table(name, SCHEMA).append(rows(1))
        there = sorted(path.name for path in tmp_path.rglob("*.parquet"))
        faults = Faults(lake, "refused")
        faults.arm()
        with pytest.raises(StoreTimeoutError):
            VERBS[verb](lake)
        faults.heal()
        assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == there


def test_an_attempt_that_may_still_arrive_keeps_its_files(sqlite_url, tmp_path):
    """Sent, never answered, not there when asked for, and refused the second time."""
    location = (tmp_path / "lake").as_uri()
    with (
        deltasql.connect(sqlite_url, location=location) as lake,
        deltasql.connect(sqlite_url, location=location) as elsewhere,
    ):
        table = lake.create_table("t", SCHEMA)
        lake.states.current(table.table_id)
        there = elsewhere.table("t")
        there.commit([replace(there.snapshot().metadata, description="changed")])
        faults = Faults(lake, "before")
        faults.arm()
        # Where nothing is on its way, what was not found is not there, and its files go.
        with pytest.raises(DatabaseError, match="not sent"):
            table.append(rows(1))
        assert list(tmp_path.rglob("*.parquet")) == []
        lake.store.commits_arrive_late = True
        faults.arm()
        table.append(rows(1))
        faults.heal()
        assert table.scan().to_arrow().num_rows == 1
        # Those of the first try stay, for it could become a version after all.
        assert len(list(tmp_path.rglob("*.parquet"))) == 2
