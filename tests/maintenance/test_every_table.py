"""Work on all tables of a lake: one that fails or goes does not stand in the way of the others."""

import pyarrow as pa
import pytest

from deltasql.errors import DamagedLogError, DeltaSqlError
from deltasql.lake.table import Table

ROWS = pa.table({"id": [1]})
WORK = {
    "vacuum": lambda lake: lake.vacuum(0, dry_run=False, enforce_retention_duration=False),
    "expire": lambda lake: lake.expire(dry_run=False),
}


@pytest.fixture
def three(lake):
    return [lake.create_table(name, data=ROWS) for name in ("a", "b", "c")]


@pytest.mark.parametrize("verb", WORK)
def test_a_table_that_is_dropped_meanwhile_is_left_out(lake, three, monkeypatch, verb):
    real = getattr(Table, verb)

    def work(table, *given, **more):
        if table.name == "b":
            lake.drop_table("b")
        return real(table, *given, **more)

    monkeypatch.setattr(Table, verb, work)
    assert [report.table for report in WORK[verb](lake)] == ["a", "c"]


@pytest.mark.parametrize("verb", WORK)
def test_the_others_are_done_before_a_failure_is_told(lake, three, monkeypatch, verb):
    real, done = getattr(Table, verb), []

    def work(table, *given, **more):
        if table.name != "c":
            raise DamagedLogError(f"{table.name} is damaged")
        done.append(table.name)
        return real(table, *given, **more)

    monkeypatch.setattr(Table, verb, work)
    with pytest.raises(DeltaSqlError, match="a is damaged") as failure:
        WORK[verb](lake)
    assert done == ["c"]
    assert "b is damaged" in failure.value.__notes__[0]


def test_a_check_tells_of_a_table_without_a_head(lake, three, monkeypatch):
    real, missing = type(lake.store).head, three[1].table_id
    monkeypatch.setattr(
        type(lake.store), "head", lambda s, t, *more: None if t == missing else real(s, t, *more)
    )
    found = lake.check()
    assert {name: check.ok for name, check in found.tables.items()} == {
        "a": True, "b": False, "c": True,
    }  # fmt: skip
    assert "no head" in found.tables["b"].findings[0].problem
