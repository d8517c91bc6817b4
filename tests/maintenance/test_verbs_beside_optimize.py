"""Delete, update and merge without Spark beside optimize: none is sent back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import CommitError
from deltasql.lake.table import Table
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, rows
from tests.maintenance.vectors import VECTORS

FEED = {"delta.enableChangeDataFeed": "true"}


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something once after files are written and before they are committed."""
    real, todo = Table.commit_write, [act]

    def commit(*args: Any) -> Any:
        if todo:
            todo.pop()()
        return real(*args)

    monkeypatch.setattr(Table, "commit_write", commit)


def filled(lake: deltasql.Lake, **properties: str) -> Table:
    table = lake.create_table("a.t", SCHEMA, properties=properties)
    for number in range(3):
        table.append(rows(*range(4 * number, 4 * number + 4)))
    return table


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED, VECTORS | FEED])
def test_none_is_sent_back(
    quick_lake: deltasql.Lake, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    lake = quick_lake
    table = filled(lake, **properties)
    expected = dict.fromkeys(range(12), "a")

    before_commit(monkeypatch, table.optimize)
    table.delete("id = 3 OR id = 8")
    del expected[3], expected[8]

    table.append(rows(20))
    before_commit(monkeypatch, table.optimize)
    table.update("id IN (4, 20)", {"day": "'new'"})
    expected |= {4: "new", 20: "new"}

    table.append(rows(21))
    before_commit(monkeypatch, table.optimize)
    source = pa.table({"id": [5, 30], "day": ["m5", "m30"]}, schema=SCHEMA)
    merge = table.merge(source, "source.id = target.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    expected |= {5: "m5", 21: "a", 30: "m30"}

    found = seen_by_all(lake, table)
    assert {row["id"]: row["day"] for row in found} == expected
    assert len(found) == len(expected)
    operations = [entry.operation for entry in table.history()]
    assert operations.count("OPTIMIZE") == 3
    assert lake.check().ok


def test_others_rows_of_one_file(quick_lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    table = filled(quick_lake, **VECTORS)
    other = quick_lake.table("a.t")
    table.optimize()
    before_commit(monkeypatch, lambda: other.delete("id = 1"))
    table.update("id = 2", {"day": "'new'"})
    before_commit(monkeypatch, lambda: other.delete("id = 4"))
    table.delete("day = 'new'")
    assert [row["id"] for row in seen_by_all(quick_lake, table)] == [0, 10, 11, 3, 5, 6, 7, 8, 9]
    before_commit(monkeypatch, lambda: other.update("id = 9", {"day": "'theirs'"}))
    with pytest.raises(CommitError):
        table.update("id >= 9", {"day": "'ours'"})
