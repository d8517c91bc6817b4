"""Filters are rendered with numbers only, and never lose a file to rounding."""

import math
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.log.pruning.ranges import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Everything,
    MayBeNull,
    Nothing,
)
from deltasql.store.range_sql import file_filter, partition_filter, render
from deltasql.store.sqlite.session import _json_list

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_words_of_the_dialects():
    ranges = AllOf((AtLeast(3, 1.5), AnyOf((AtMost(0, -2.0), MayBeNull(1)))))
    assert render(ranges, "postgres") == (
        "(COALESCE(max_keys[4] >= '1.5'::float8, TRUE) AND"
        " (COALESCE(min_keys[1] <= '-2.0'::float8, TRUE) OR COALESCE(null_counts[2] > 0, TRUE)))"
    )
    assert "max_keys[4] >= '1.5'::DOUBLE" in render(ranges, "duckdb")
    assert "json_extract(min_keys, '$[0]') <= -2," in render(ranges, "sqlite")


def test_everything_and_nothing():
    assert (render(Everything(), "sqlite"), render(Nothing(), "sqlite")) == ("TRUE", "FALSE")
    assert (partition_filter([1, -2]), partition_filter([])) == (
        "partition_key IN (1, -2)",
        "FALSE",
    )
    assert file_filter(None, None, "postgres") == "TRUE"
    assert file_filter([5], Nothing(), "postgres") == "partition_key IN (5) AND FALSE"


def test_infinite_and_undefined_bounds():
    assert "inf" not in render(AtLeast(0, math.inf), "postgres")
    assert "inf" not in render(AtMost(0, math.inf), "sqlite")
    with pytest.raises(ValueError, match="NaN"):
        render(AtLeast(0, math.nan), "postgres")


@given(bound=FINITE, key=FINITE)
def test_sqlite_keeps_what_holds(bound: float, key: float):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (min_keys TEXT, max_keys TEXT)")
    connection.execute("INSERT INTO t VALUES (?1, ?1)", (_json_list([key]),))
    for ranges, holds in ((AtLeast(0, bound), key >= bound), (AtMost(0, bound), key <= bound)):
        found = connection.execute(f"SELECT count(*) FROM t WHERE {render(ranges, 'sqlite')}")
        if holds:
            assert found.fetchone() == (1,)


@given(key=FINITE)
def test_sqlite_keeps_equal_keys(key: float):
    test_sqlite_keeps_what_holds.hypothesis.inner_test(key, key)
