"""Processes that change the same rows at once: every change that was told counts once."""

from __future__ import annotations

import multiprocessing
from collections import Counter

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import CommitError
from tests.faults.matrix.outcomes import told_by_feed
from tests.sizes import FULL, each_value

PROCESSES = 8 if FULL else 4
ROUNDS = 8 if FULL else 2
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
# Eight processes that start at once on a busy machine may wait long for a connection or a lock.
PATIENT = {"mirror.mode": "off", "sql.timeout": "2m"}


def work(url: str, location: str, me: int) -> None:
    """Count a shared row up, bring an own row, count that up, and take another one out."""
    with deltasql.connect(url, location=location, settings=PATIENT) as lake:
        table = lake.table("raced")
        for number in range(ROUNDS):
            table.update("id = 0", {"n": "n + 1"}, retries=200)
            source = pa.table({"id": [0, me], "n": [1, 1]}, schema=SCHEMA)
            merge = table.merge(source, "target.id = source.id", retries=200)
            merge = merge.when_matched_update(set={"n": "target.n + source.n"})
            merge.when_not_matched_insert_all().execute()
            own = me * 100 + number
            table.append(pa.table({"id": [own], "n": [0]}, schema=SCHEMA))
            table.delete(f"id = {own}", retries=200)
            # The first one makes the table.
            lake.write(pa.table({"id": [own], "n": [me]}, schema=SCHEMA), "made")
            mine = pa.table({"id": [me], "n": [number]}, schema=SCHEMA)
            lake.table("kept").overwrite(mine, where=f"id = {me}", max_commit_retries=200)
            _replace(lake, mine)
            with lake.table("gathered").appender() as appender:
                appender.append(mine)


def _replace(lake: deltasql.Lake, rows: pa.Table) -> None:
    for _ in range(200):
        try:
            lake.create_or_replace_table("replaced", data=rows)
        except CommitError:
            continue
        return
    raise AssertionError("lost against others again and again")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("database", "vectors"),
    # A DuckDB file is one process's.
    each_value(("sqlite", "postgres"), ("false", "true")),
)
def test_no_change_is_lost(database, vectors, request, tmp_path):
    store_url = request.getfixturevalue(f"{database}_url")
    location = (tmp_path / "lake").as_uri()
    with deltasql.connect(store_url, location=location) as lake:
        properties = {
            "delta.enableDeletionVectors": vectors,
            "delta.enableChangeDataFeed": "true",
        }
        table = lake.create_table("raced", SCHEMA, properties=properties)
        table.append(pa.table({"id": [0, -1], "n": [0, 7]}, schema=SCHEMA))
        for name in ("kept", "gathered"):
            lake.create_table(name, SCHEMA)
        context = multiprocessing.get_context("spawn")
        workers = [
            context.Process(target=work, args=(store_url, location, me))
            for me in range(1, PROCESSES + 1)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(250)
        assert [worker.exitcode for worker in workers] == [0] * PROCESSES
        found = {row["id"]: row["n"] for row in table.scan().to_arrow().to_pylist()}
        own = dict.fromkeys(range(1, PROCESSES + 1), ROUNDS)
        assert found == {0: 2 * ROUNDS * PROCESSES, -1: 7, **own}
        assert +told_by_feed(table, "id", "n") == Counter(found.items())
        everyone, rounds = range(1, PROCESSES + 1), range(ROUNDS)
        each = sorted((me, number) for me in everyone for number in rounds)
        assert _pairs(lake, "made") == sorted((me * 100 + number, me) for me, number in each)
        assert _pairs(lake, "kept") == [(me, ROUNDS - 1) for me in everyone]
        assert _pairs(lake, "gathered") == each
        assert _pairs(lake, "replaced") in [[pair] for pair in each]
        assert all(found.ok for found in lake.check().tables.values())


def _pairs(lake: deltasql.Lake, name: str) -> list[tuple[int, int]]:
    return sorted(tuple(row.values()) for row in lake.table(name).scan().to_arrow().to_pylist())
