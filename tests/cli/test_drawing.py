"""Whatever the width, a terminal shows every word of every cell, and splits none."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from deltasql.cli.drawing import draw

_words = st.text("ab", min_size=1, max_size=30)
_cells = st.lists(_words, min_size=1, max_size=4).map(" ".join) | st.integers(1, 10**12)


@st.composite
def _tables(pick):
    count = pick(st.integers(1, 5))
    names = pick(st.lists(_words, min_size=count, max_size=count))
    row = st.lists(_cells, min_size=count, max_size=count)
    return names, pick(st.lists(row, min_size=1, max_size=4))


@given(_tables(), st.integers(40, 130))
@example(
    (["table", "version", "mirrored version"], [["sales." + "a" * 45, 1, 1], ["b", 12, 12]]), 80
)
@example((["one", "two"], [["a", "b " * 30]]), 40)
def test_no_word_is_lost_or_split(table, width):
    names, rows = table
    told = io.StringIO()
    with mock.patch.dict("os.environ", {"COLUMNS": str(width)}), redirect_stdout(told):
        draw(names, [(row, None) for row in rows], "")
    found = told.getvalue().split()
    wanted = [word for row in rows for item in row for word in str(item).split()]
    for word in wanted:
        assert found.count(word) >= wanted.count(word), (word, told.getvalue())
