"""Writers that meet a compaction, or one another in a file, are not sent back."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import CommitError, ConcurrentDeleteReadError
from deltasql.lake import writing
from deltasql.lake.table import Table
from deltasql.maintenance.optimizing import places
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import AT_ONCE, SCHEMA, files, folder, ids, live, rows
from tests.maintenance.vectors import VECTORS, delete_marked, marking

SERIALIZABLE = {"delta.isolationLevel": "Serializable"}


def filled(lake: deltasql.Lake, *, count: int = 4, **properties: str) -> Table:
    table = lake.create_table("a.t", SCHEMA, properties=properties)
    for number in range(count):
        table.append(rows(*range(4 * number, 4 * number + 4)))
    return table


def overwrite_at(table: Table, snapshot, data: pa.Table, where: str | None) -> int:
    """An overwrite that has read a version that is old by now."""
    write = writing.overwrite(
        table.objects, snapshot, data, where=where, abandon=table.abandon(snapshot.version)
    )
    return table.commit_write(write)


# --- a compaction came first ----------------------------------------------------------


def test_deleted_rows_are_found_again(any_lake: deltasql.Lake):
    lake = any_lake
    table = filled(lake, **VECTORS)
    delete_marked(table, 1, 9)
    before = table.snapshot()
    assert len(table.optimize().versions) == 1
    delete_marked(table, 0, 2, 6, 15, at=before)
    assert [row["id"] for row in seen_by_all(lake, table)] == [10, 11, 12, 13, 14, 3, 4, 5, 7, 8]
    assert len(live(table)) == 1
    assert lake.check().ok


def test_an_overwrite_of_moved_rows(any_lake: deltasql.Lake):
    """Copy on write: the new file is written once more without what was replaced."""
    lake = any_lake
    table = filled(lake)
    before = table.snapshot()
    table.optimize()
    overwrite_at(table, before, rows(100), "id >= 2 AND id < 6 OR id = 100")
    assert ids(table.scan().to_arrow()) == [0, 1, *range(6, 16), 100]
    seen_by_all(lake, table)
    assert len(live(table)) == 3, "what was replaced, what stayed of its files, and the others"
    table.vacuum(**AT_ONCE, dry_run=False)
    assert files(table) == live(table)


def test_an_overwrite_of_everything(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake)
    before = table.snapshot()
    table.optimize()
    overwrite_at(table, before, rows(7), None)
    assert ids(table.scan().to_arrow()) == [7]
    assert len(live(table)) == 1


def test_an_overwrite_marks_where_vectors_are_wanted(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, **VECTORS)
    before = table.snapshot()
    table.optimize()
    moved = live(table)
    overwrite_at(table, before, rows(100), "id = 2 OR id = 100")
    assert ids(table.scan().to_arrow()) == [0, 1, *range(3, 16), 100]
    assert moved < live(table), "the large file was not written again"
    seen_by_all(lake, table)


@pytest.mark.parametrize("properties", [{}, VECTORS, VECTORS | SERIALIZABLE])
def test_compaction_upon_compaction(quick_lake: deltasql.Lake, properties: dict[str, str]):
    lake = quick_lake
    table = filled(lake, **properties)
    before = table.snapshot()
    for number in range(3):
        table.optimize()
        table.append(rows(50 + number))
    overwrite_at(table, before, rows(), "id = 2 OR id = 7")
    assert ids(table.scan().to_arrow()) == [0, 1, 3, 4, 5, 6, *range(8, 16), 50, 51, 52]


def test_partitions(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = lake.create_table("a.t", SCHEMA, partition_by=["day"], properties=VECTORS)
    for number in range(6):
        table.append(rows(number, 10 + number, day="ab"[number % 2]))
    before = table.snapshot()
    assert len(table.optimize().versions) == 2
    delete_marked(table, 3, 10, 14, at=before)
    expected = [0, 1, 2, 4, 5, 11, 12, 13, 15]
    assert sorted(row["id"] for row in seen_by_all(lake, table)) == expected


def test_rows_keep_their_ids(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, **{"delta.enableRowTracking": "true"})
    before = table.snapshot()
    first = {4 * n + k: (4 * n + k, n + 1) for n in range(4) for k in range(4)}
    table.optimize()
    overwrite_at(table, before, rows(), "id = 5")
    found = {}
    for add in table.snapshot().adds():
        found |= row_ids(table, add)
    # `overwrite` gives the rows that stay of its own files new ids; the others keep theirs.
    kept = {key: value for key, value in first.items() if not 4 <= key < 8}
    assert {key: found[key] for key in kept} == kept
    assert set(found) == set(first) - {5}


def row_ids(table: Table, add) -> dict[int, tuple[int, int]]:
    properties = table.snapshot().properties
    names = [
        properties["delta.rowTracking.materializedRowIdColumnName"],
        properties["delta.rowTracking.materializedRowCommitVersionColumnName"],
    ]
    stored = pq.read_table(folder(table) / add.path)
    found = {}
    for place, row in enumerate(stored.to_pylist()):
        own = (row.get(names[0]), row.get(names[1]))
        default = (add.base_row_id + place, add.default_row_commit_version)
        found[row["id"]] = own if None not in own else default
    return found


def test_a_transaction(lake: deltasql.Lake):
    table = filled(lake)
    with lake.transaction() as tx:
        tx.table("a.t").overwrite(rows(), where="id = 2")
        table.optimize()
        table.append(rows(99))
    assert ids(table.scan().to_arrow()) == [0, 1, *range(3, 16), 99]


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_sorted_rows_are_found_again(any_lake: deltasql.Lake, properties: dict[str, str]):
    """In several new files, whose names have nothing to do with their order."""
    lake = any_lake
    table = lake.create_table("a.t", SCHEMA, properties=properties)
    for number in range(4):
        # Each file has every fourth one, in an order of its own.
        found = [(at * 769 + number * 100) % 1000 * 4 + number for at in range(1000)]
        table.append(rows(*found, day=f"{number * 5 % 4}"))
    gone, before = [3, 17, 18, 401, 1600, 3999], table.snapshot()
    assert len(table.optimize(zorder_by=["day", "id"], target_size=8_000).versions) == 1
    assert len(live(table)) > 2
    where = " OR ".join(f"id = {number}" for number in gone)
    overwrite_at(table, before, rows(), where)
    left = [number for number in range(4000) if number not in gone]
    assert sorted(row["id"] for row in seen_by_all(lake, table)) == left
    days = {row["id"]: row["day"] for row in table.scan().to_arrow().to_pylist()}
    assert days == {number: f"{number % 4 * 5 % 4}" for number in left}
    assert lake.check().ok


def test_too_many_sorted_rows_are_a_conflict(quick_lake: deltasql.Lake, monkeypatch):
    lake = quick_lake
    monkeypatch.setattr(places, "MOST_ORDERED", 15)
    table = filled(lake, **VECTORS)
    before = table.snapshot()
    table.optimize(zorder_by=["id"])
    with pytest.raises(CommitError):
        delete_marked(table, 3, at=before)
    assert ids(table.scan().to_arrow()) == list(range(16))


def test_what_is_forgotten_is_a_conflict(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, **VECTORS)
    before = table.snapshot()
    table.optimize()
    lake.store.expire_moved_rows(table.table_id, milliseconds=-1000)
    with pytest.raises(CommitError):
        delete_marked(table, 3, at=before)


def test_a_change_after_the_compaction_counts(quick_lake: deltasql.Lake):
    """Moved rows that were deleted meanwhile are deleted once, and changed ones a conflict."""
    lake = quick_lake
    table = filled(lake)
    before = table.snapshot()
    table.optimize()
    table.overwrite(rows(3, 100), where="id = 3 OR id = 100")
    with pytest.raises(CommitError):
        overwrite_at(table, before, rows(), "id = 3")
    assert ids(table.scan().to_arrow()) == [*range(16), 100]
    kept = live(table)
    table.vacuum(**AT_ONCE, dry_run=False)
    assert files(table) == kept, "what was written in vain is gone"


def test_a_removed_file_that_was_read_is_noticed_after_it_moved(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake)
    before = table.snapshot()
    table.optimize()
    table.overwrite(rows(), where=None)
    with pytest.raises(CommitError):
        overwrite_at(table, before, rows(1), "id = 1")
    assert live(table) == set()


def test_the_compaction_may_come_while_the_lock_is_taken(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    """Between the check and the lock: it is checked again outside, and goes on."""
    table = filled(lake, **VECTORS)
    before = table.snapshot()
    loop = lake.commits
    real, todo = loop._check_outside, [table.optimize]

    def check(*args):
        found = real(*args)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(loop, "_check_outside", check)
    delete_marked(table, 4, at=before)
    assert ids(table.scan().to_arrow()) == [0, 1, 2, 3, *range(5, 16)]


def test_and_it_ends_under_the_lock(quick_lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    lake = quick_lake
    from deltasql.commit import loop as module

    monkeypatch.setattr(module, "_TRIES_IN_HASTE", 0)
    test_the_compaction_may_come_while_the_lock_is_taken(lake, monkeypatch)


# --- two in one file --------------------------------------------------------------------


def test_vectors_of_one_file_are_united(any_lake: deltasql.Lake):
    lake = any_lake
    table = filled(lake, count=1, **VECTORS)
    before = table.snapshot()
    delete_marked(table, 1, at=before)
    delete_marked(table, 2, at=before)
    assert [row["id"] for row in seen_by_all(lake, table)] == [0, 3]
    delete_marked(table, 0, 3, at=before)
    assert live(table) == set()
    assert lake.check().ok


def test_the_same_row_twice_is_a_conflict(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, count=1, **VECTORS)
    before = table.snapshot()
    delete_marked(table, 1, 2, at=before)
    with pytest.raises(CommitError):
        delete_marked(table, 2, 3, at=before)
    assert ids(table.scan().to_arrow()) == [0, 3]


def test_serializable_tables_are_strict(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, count=1, **VECTORS, **SERIALIZABLE)
    before = table.snapshot()
    delete_marked(table, 1, at=before)
    with pytest.raises(CommitError):
        delete_marked(table, 2, at=before)


def test_who_reads_more_than_it_deletes_is_asked(quick_lake: deltasql.Lake):
    """A merge rests on rows that it leaves alone: if one of them went, it must run again."""
    lake = quick_lake
    table = filled(lake, count=1, **VECTORS)
    before = table.snapshot()
    delete_marked(table, 1, at=before)

    def merge(gone: int, where: str) -> int:
        actions = marking(table, before, [gone])
        return table.commit(actions, "MERGE", read_version=before.version, reads=where)

    with pytest.raises(ConcurrentDeleteReadError):
        merge(3, "id >= 1")
    merge(3, "id >= 2")
    assert ids(table.scan().to_arrow()) == [0, 2]


def test_a_subquery_may_have_read_anything(quick_lake: deltasql.Lake):
    table = filled(quick_lake, count=1, **VECTORS)
    before = table.snapshot()
    delete_marked(table, 1, at=before)
    given = {"predicate": ["id = (SELECT max(id) FROM t)"]}
    with pytest.raises(CommitError):
        table.commit(marking(table, before, [3]), "DELETE", given, read_version=1, reads="id >= 0")
    assert ids(table.scan().to_arrow()) == [0, 2, 3]


def test_rows_deleted_elsewhere_are_no_rows_that_came(quick_lake: deltasql.Lake):
    """A file that merely lost rows does not look like one with new rows."""
    lake = quick_lake
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS)
    table.append(rows(0, 5, 10))
    table.append(rows(1, 4, 9))
    before = table.snapshot()
    delete_marked(table, 4, at=before)
    delete_marked(table, 5, at=before)
    assert ids(table.scan().to_arrow()) == [0, 1, 9, 10]


def test_files_that_went_without_a_row_of_ours(quick_lake: deltasql.Lake):
    """Who deletes row by row has looked into them, and found nothing."""
    lake = quick_lake
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS)
    table.append(rows(0, 5, 10))
    table.append(rows(1, 4, 9))
    before = table.snapshot()
    delete_marked(table, 1, 4, 9, at=before)
    delete_marked(table, 5, at=before)
    assert ids(table.scan().to_arrow()) == [0, 10]


def test_rows_that_came_are_still_a_conflict(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, count=1, **VECTORS)
    before = table.snapshot()
    table.overwrite(rows(2, 77, day="b"), where="id = 2 OR id = 77")
    with pytest.raises(CommitError):
        delete_marked(table, 2, at=before)


def test_marks_then_compaction_then_marks(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, count=2, **VECTORS)
    before = table.snapshot()
    delete_marked(table, 1, 6)
    table.optimize()
    delete_marked(table, 3)
    delete_marked(table, 0, 7, at=before)
    assert ids(table.scan().to_arrow()) == [2, 4, 5]
    seen_by_all(lake, table)
    with pytest.raises(CommitError):
        delete_marked(table, 3, at=before)


def test_vectors_written_in_vain_are_gone(quick_lake: deltasql.Lake):
    """It comes past the compaction, and then meets somebody who deleted the same row."""
    table = filled(quick_lake, count=2, **VECTORS)
    before = table.snapshot()
    table.optimize()
    delete_marked(table, 3)
    known = files(table)
    with pytest.raises(CommitError):
        delete_marked(table, 3, at=before)
    assert files(table) == known


def test_ids_of_rows_stay_with_united_vectors(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = filled(lake, count=2, **VECTORS, **{"delta.enableRowTracking": "true"})
    before = table.snapshot()
    delete_marked(table, 1, at=before)
    delete_marked(table, 2, at=before)
    adds = {add.path: add for add in table.snapshot().adds()}
    for old in before.adds():
        found = adds[old.path]
        assert (found.base_row_id, found.default_row_commit_version) == (
            old.base_row_id,
            old.default_row_commit_version,
        )
