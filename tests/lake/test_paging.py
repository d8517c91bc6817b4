"""Long answers in pages: an audit, and what versions did, with memory for a page at a time."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

from deltasql.errors import ValidationError

NUMBERS = pa.schema([("id", pa.int64())])


@pytest.fixture
def busy(lake):
    """Two tables that take turns, some versions within the same millisecond."""
    tables = [lake.create_table(name, NUMBERS) for name in ("sales.a", "hr.b")]
    for number in range(6):
        with lake.transaction() as tx:
            for table in tables:
                tx.table(table.name).append(pa.table({"id": [number]}))
    return lake


def test_an_audit_in_pages_is_the_whole_audit(busy):
    whole = busy.audit()
    assert len(whole) == 14
    for limit in (1, 3, 14, 100):
        found, last = [], None
        while page := busy.audit(limit=limit, after=last):
            assert len(page) <= limit
            found += page
            last = page[-1]
        assert found == whole, limit
    assert (
        busy.audit(limit=2, table="sales.*")
        == [item for item in whole if item.table == "sales.a"][:2]
    )
    some = busy.audit(limit=5, table="sales.*", changes=True)
    assert [item.changed.rows_added for item in some] == [0, 1, 1, 1, 1]
    # What was renamed meanwhile is not told twice.
    busy.rename_table("sales.a", "sales.c")
    assert [item.entry for item in busy.audit(after=whole[6])] == [item.entry for item in whole[7:]]


def test_changes_in_pages_are_all_changes(busy):
    table = busy.table("sales.a")
    whole = table.changes(0)
    assert [item.version for item in whole] == list(range(7))
    found = []
    while page := table.changes(len(found), limit=3):
        found += page
    assert found == whole
    assert [item.version for item in table.changes(2, 3, limit=5)] == [2, 3]
    assert [item.version for item in table.changes(2, 0, limit=5)] == []


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_that_say_nothing(busy, limit):
    with pytest.raises(ValidationError, match="limit"):
        busy.audit(limit=limit)
    with pytest.raises(ValidationError, match="limit"):
        busy.table("sales.a").changes(0, limit=limit)


def test_a_page_takes_memory_for_a_page(lake):
    table = lake.create_table("t", NUMBERS)
    for number in range(30):
        add = {"path": f"{number}.parquet", "size": 1, "partitionValues": {}, "dataChange": True,
               "modificationTime": 1, "tags": {"t": chr(65 + number) * 1_000_000}}  # fmt: skip
        table.commit([{"add": add}])

    def peak(**options) -> int:
        tracemalloc.start()
        try:
            table.changes(1, **options)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    table.changes(1, limit=1)
    whole = peak()
    assert peak(limit=3) < whole / 2
