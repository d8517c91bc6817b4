"""Forked children and their parents, with PostgreSQL: nobody talks over another's socket."""

from __future__ import annotations

import gc
import multiprocessing
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import DatabaseError
from tests.stress.writers import SCHEMA, new_add

# Without fork the child would not inherit what these tests are about.
FORK = multiprocessing.get_context("fork")
COMMITS = 25


@pytest.fixture
def lake(postgres_url, tmp_path):
    settings = {"mirror.mode": "sync", "sql.timeout": "10s"}
    with deltasql.connect(postgres_url, location=tmp_path.as_uri(), settings=settings) as lake:
        yield lake


@pytest.fixture
def table(lake) -> deltasql.Table:
    table = lake.create_table("a", SCHEMA, partition_by=["p"])
    table.commit([new_add("before", 1)])
    assert table.snapshot().files().num_rows == 1
    return table


class Child:
    """A call in a forked process; its answer, or the text of its error."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._answers = FORK.SimpleQueue()
        self._process = FORK.Process(target=self._run, args=(call,))
        self._process.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._answers.put(call())
        except BaseException:  # noqa: BLE001 - told to the parent
            self._answers.put(traceback.format_exc())

    def result(self) -> Any:
        self._process.join(60)
        assert self._process.exitcode == 0
        return self._answers.get()


def test_both_commit(table):
    def work(name: str) -> int:
        for number in range(COMMITS):
            table.commit([new_add(f"{name}{number}", number % 3)])
        return table.snapshot().files().num_rows

    child = Child(lambda: work("child"))
    assert work("parent") > COMMITS
    assert child.result() > COMMITS
    files = table.snapshot().files()
    assert table.version == 2 * COMMITS + 1
    assert files.num_rows == 2 * COMMITS + 1
    assert table.mirror.status().lag_versions == 0


def test_both_append_rows(table):
    rows = pa.table({"id": [1, 2], "p": [1, 2], "v": ["x", "y"]}, schema=SCHEMA)
    plain = table._lake.create_table("rows", SCHEMA)

    def work() -> int:
        for _ in range(5):
            plain.append(rows)
        return plain.scan().to_arrow().num_rows

    children = [Child(work) for _ in range(2)]
    assert work() >= 10
    assert all(child.result() >= 10 for child in children)
    assert plain.scan().to_arrow().num_rows == 30


@pytest.mark.parametrize("ending", ["collect", "close"])
def test_child_that_tidies_up(table, lake, ending):
    """Neither by closing nor by collecting garbage does it end the parent's connections."""
    batches = iter(table.snapshot().file_batches())

    def work() -> str:
        if ending == "close":
            lake.close()
        else:
            lake.store.__dict__.clear()
            gc.collect()
        return "done"

    before = _backends(lake)
    assert Child(work).result() == "done"
    assert before <= _backends(lake), "the pool may have grown meanwhile"
    assert sum(batch.num_rows for batch in batches) == 1
    assert table.commit([new_add("after", 1)]) == 2


def _backends(lake: deltasql.Lake) -> set[int]:
    found = lake.store._connections.rows(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'deltasql'",
        {},
    )
    return {row[0] for row in found}


def test_child_forked_inside_a_transaction_is_refused(table, lake):
    """The block is the parent's; outside of it the child works as any other process."""

    def work() -> tuple[str, int]:
        with pytest.raises(DatabaseError, match="forked") as failure:
            log.commits(table.table_id, after=0)
        return failure.value.remedy, table.snapshot().files().num_rows

    with lake.store.locked([table.table_id]) as log:
        remedy, files = Child(work).result()
        assert log.heads[table.table_id].version == 1
        assert len(log.commits(table.table_id, after=0)) == 1
    assert "spawn" in remedy
    assert files == 1
    assert table.commit([new_add("after", 1)]) == 2


def test_child_leaves_its_parents_block(table, lake):
    """The end of the block is the parent's as well."""

    def work(block) -> str:
        with pytest.raises(DatabaseError, match="forked"):
            block.__exit__(None, None, None)
        return "refused"

    block = lake.store.locked([table.table_id])
    with block as log:
        assert Child(lambda: work(block)).result() == "refused"
        assert log.find_commit(table.table_id, "none") is None
    assert table.commit([new_add("after", 1)]) == 2
