"""Rows found again after a compaction, for any files and any deleted rows."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError
from deltasql.log.conflict import Winner
from deltasql.log.moved_rows import MOST_ORDERED, MovedRows, among_live, only_moves, pack
from deltasql.spec.actions import AddFile, Metadata, RemoveFile


def add(path: str, count: int | None, *, data_change: bool = False) -> AddFile:
    stats = None if count is None else json.dumps({"numRecords": count})
    return AddFile(path=path, size=1, modification_time=1, stats=stats, data_change=data_change)


def remove(path: str, *, data_change: bool = False) -> RemoveFile:
    return RemoveFile(path=path, data_change=data_change)


@given(
    st.lists(st.lists(st.booleans(), max_size=6), min_size=1, max_size=5),
    st.integers(1, 4),
    st.randoms(),
)
def test_every_live_row_is_found(files, parts, random):
    """By a compaction of rows that know their names: file and position; as they came, or not."""
    live = {
        f"old{number}": [place for place, is_live in enumerate(rows) if is_live]
        for number, rows in enumerate(files)
    }
    dead = {
        f"old{number}": array("Q", [place for place, is_live in enumerate(rows) if not is_live])
        for number, rows in enumerate(files)
    }
    moved = came = [(path, row) for path in sorted(live) for row in live[path]]
    order = None
    if random.random() < 0.5:
        moved = random.sample(came, len(came))
        order = pack(array("i", [moved.index(row) for row in came]))
    step = max(1, -(-len(moved) // parts))
    new = {f"new{at:03d}": moved[at : at + step] for at in range(0, len(moved), step)}
    actions = [*(remove(path) for path in live), *(add(path, len(new[path])) for path in new)]
    random.shuffle(actions)
    found = MovedRows.of(Winner(7, actions), [len(live[path]) for path in sorted(live)], order)
    assert found is not None
    for path, rows in live.items():
        assert len(found.live_rows(path)) == len(rows)
        for row, (file, place) in zip(
            rows, found.find(path, among_live(rows, dead[path])), strict=True
        ):
            assert new[file.path][place] == (path, row)


@pytest.mark.parametrize(
    ("actions", "counts"),
    [
        ([remove("a"), add("b", 3)], None),
        ([remove("a"), add("b", 3)], [2]),
        ([remove("a"), add("b", 3)], [2, 1]),
        ([remove("a"), add("b", None)], [3]),
        ([remove("a", data_change=True), add("b", 3)], [3]),
        ([remove("a"), add("b", 3, data_change=True)], [3]),
        ([remove("a"), add("b", 3), Metadata(id="x", schema_string="{}")], [3]),
    ],
)
def test_what_does_not_fit_is_not_trusted(actions, counts):
    assert MovedRows.of(Winner(7, actions), counts) is None


def test_a_row_that_was_not_live_is_an_error():
    found = MovedRows.of(Winner(7, [remove("a"), add("b", 3)]), [3])
    assert found is not None
    with pytest.raises(LogFormatError):
        found.find("a", [3])


@pytest.mark.parametrize(
    "order",
    [
        pack(array("i", [1, 0])),
        pack(array("i", [2, 1, 0, 3])),
        pack(array("i", [0, 0, 1])),
        pack(array("i", [0, 1, -1])),
        pack(array("i", [0, 1, 3])),
        zlib.compress(b"12345"),
        b"not zlib",
        b"",
    ],
)
def test_an_order_of_other_rows_is_not_trusted(order):
    assert MovedRows.of(Winner(7, [remove("a"), add("b", 3)]), [3], order) is None


@pytest.mark.parametrize("rows", [3, MOST_ORDERED + 1])
def test_an_order_that_unfolds_is_not_unfolded(rows):
    bomb = zlib.compress(bytes(100_000_000), level=9)
    tracemalloc.start()
    try:
        assert MovedRows.of(Winner(7, [remove("a"), add("b", rows)]), [rows], bomb) is None
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_commit_without_files_moves_nothing():
    assert not only_moves(Winner(7, []))
