"""Every verb that writes, failing at every point: no row is lost, and nobody is told a lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import deltasql
from deltasql.errors import (
    CommitStateUnknownError,
    DatabaseError,
    MirrorError,
    StoreTimeoutError,
    TableNotFoundError,
)
from tests.faults.outcomes import POINTS, SCHEMA, VERBS, Faults, rows


def _ids(lake: deltasql.Lake, name: str) -> tuple[int, ...] | None:
    try:
        table = lake.table(name)
    except TableNotFoundError:
        return None
    return tuple(sorted(table.scan().to_arrow().column("id").to_pylist()))


def _run(lake: deltasql.Lake, verb, faults: Faults) -> deltasql.DeltaSqlError | None:
    faults.arm()
    try:
        verb.run(lake)
    except deltasql.DeltaSqlError as error:
        return error
    finally:
        faults.heal()
    return None


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_a_commit_that_fails(store_url: str, tmp_path: Path, verb, point):
    location = (tmp_path / "lake").as_uri()
    settings = {"sql.timeout": "1s", "mirror.mode": "sync"}
    with deltasql.connect(store_url, location=location, settings=settings) as lake:
        for name in ("t", "other"):
            lake.create_table(name, SCHEMA).append(rows(1))
        if verb.name == "t" and point != "discard":
            lake.table("t").append(rows())  # the process has looked at the table
        if verb.prepare is not None:
            verb.prepare(lake)
        before = lake.table("t").version if verb.name == "t" else -1
        raised = _run(lake, verb, Faults(lake, point))
    with deltasql.connect(store_url, location=location) as lake:
        found = _ids(lake, verb.name)
        version = -1 if found is None else lake.table(verb.name).version
        if raised is None:
            # It said that it is in: it is, once.
            assert version == before + 1
            assert found == verb.then
        elif verb is VERBS["release"] and isinstance(raised, MirrorError):
            # To release is to mirror, too: it says what is done, and what is not.
            assert f"released at version {version}" in str(raised)
        elif isinstance(raised, CommitStateUnknownError):
            assert found in (verb.before, verb.then)
        else:
            assert version == before
            assert found == (verb.before if verb.name == "t" else None)
        if point in ("lost", "after", "mirror") and not isinstance(raised, MirrorError):
            assert raised is None
        if point == "lost for good":
            # In, and nobody could say so: its rows are there all the same.
            assert isinstance(raised, CommitStateUnknownError)
            assert (version, found) == (before + 1, verb.then)
        if point == "discard":
            # What failed afterwards does not hide what failed.
            assert isinstance(raised, StoreTimeoutError)
        # One version may be late in the mirror, none is missing a file.
        assert lake.table("other").scan().to_arrow().num_rows >= 1


@pytest.mark.parametrize("verb", ["append", "overwrite", "transaction", "create with rows"])
def test_files_of_a_commit_that_was_refused_are_deleted(sqlite_url, tmp_path, verb):
    """The discarder is no excuse to leave everything."""
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        for name in ("t", "other"):
            lake.create_table(name, SCHEMA).append(rows(1))
        there = sorted(path.name for path in tmp_path.rglob("*.parquet"))
        faults = Faults(lake, "refused")
        faults.arm()
        with pytest.raises(StoreTimeoutError):
            VERBS[verb].run(lake)
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
