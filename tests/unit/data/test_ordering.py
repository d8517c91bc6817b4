"""Rows along a curve: all of them, and close to one another in every column."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltasql.data.ordering import in_zorder

ROWS = st.lists(st.tuples(st.integers(-5, 5) | st.none(), st.text(max_size=2) | st.none()))
SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.string())])


def table(rows):
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[], []], schema=SCHEMA)


@given(ROWS)
def test_no_row_is_lost(rows):
    found = in_zorder(table(rows), ["x", "y"])
    assert sorted(found.to_pylist()) == list(range(len(rows)))


def test_one_column_is_sorted_nulls_first():
    found = in_zorder(pa.table({"x": [3, None, 1, 2]}), ["x"])
    assert found.to_pylist() == [1, 2, 3, 0]


def test_two_columns_make_the_curve():
    grid = pa.table({"x": [x for x in range(4) for _ in range(4)], "y": list(range(4)) * 4})
    found = grid.take(in_zorder(grid, ["x", "y"])).to_pylist()
    quarters = [found[at : at + 4] for at in range(0, 16, 4)]
    for quarter in quarters:
        for name in ("x", "y"):
            values = {row[name] for row in quarter}
            assert max(values) - min(values) == 1, "each quarter is a square"
