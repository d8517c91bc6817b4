"""Lazy frames of Polars: their filters choose the files that are read; the rows stay the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

import deltasql
from deltasql.testing.faulty_store import FaultyStore

DAYS = [dt.date(2024, 1, day) for day in range(1, 5)]
NOON = [dt.datetime(2024, 1, day, 12) for day in range(1, 5)]  # noqa: DTZ001 - without a zone


def _file(number: int) -> pa.Table:
    """Two rows whose values lie between those of the files before and after."""
    low = number * 10
    return pa.table(
        {
            "id": [low, low + 1],
            "part": ["even" if number % 2 == 0 else "odd"] * 2,
            "d": [low + 0.5, float("nan") if number == 3 else None],
            "s": [f"k{number}", None],
            "day": [DAYS[number]] * 2,
            "at": pa.array([NOON[number]] * 2, pa.timestamp("us", "UTC")),
            "local": pa.array([NOON[number]] * 2, pa.timestamp("us")),
            "m": pa.array([Decimal(number) / 4, None], pa.decimal128(9, 2)),
            "k": [{"a": number}, {"a": None}],
            "z": [number == 1, number == 1],
        }
    )


ROWS = pl.from_arrow(pa.concat_tables(_file(number) for number in range(4)))


@pytest.fixture(scope="module")
def opened() -> list[str]:
    """The data files that were opened."""
    return []


@pytest.fixture(scope="module")
def table(tmp_path_factory, opened):
    root = tmp_path_factory.mktemp("lazy")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:

        def watch(call):
            if call.verb == "open_input":
                opened.append(call.path)

        lake.objects.wrap(lambda inner: FaultyStore(inner, watch))
        table = lake.create_table("lazy", _file(0).schema, partition_by=["part"])
        for number in range(4):
            table.append(_file(number))
        yield table


id_, s = pl.col("id"), pl.col("s")
FILTERS: list[tuple[pl.Expr, int]] = [
    (id_ == 21, 1),
    (id_ < 10, 1),
    (id_ >= 20, 2),
    (21 == id_, 1),  # noqa: SIM300
    (20 > id_, 2),  # noqa: SIM300
    (id_ != 0, 4),
    (id_.is_between(10, 21), 2),
    (id_.is_between(11, 20, closed="none"), 1),
    (id_.is_in([1, 31]), 2),
    (~id_.is_in([1, 31]), 4),
    ((id_ == 1) | (id_ == 31), 2),
    ((id_ > 1) & (id_ < 20) & s.is_not_null(), 1),
    (~(id_ > 11), 2),
    (pl.col("part") == "odd", 2),
    ((pl.col("part") == "odd") & (id_ > 20), 1),
    (s == "k2", 1),
    (s.is_in(["k0", "k3"]), 2),
    (s.eq_missing("k2"), 1),
    (pl.col("d") < 5, 1),
    (pl.col("d") > 30, 4),  # a NaN is greater than all, and statistics may leave it out
    (pl.col("day") == DAYS[2], 1),
    (pl.col("at") > NOON[2].replace(hour=13, tzinfo=dt.UTC), 1),
    (pl.col("local") <= NOON[0], 1),
    (pl.col("m") > Decimal("0.5"), 1),
    (pl.col("k").struct.field("a") == 3, 1),
    (pl.col("z"), 4),  # booleans have no statistics
    # What the log can't express is left to Polars; the rest still chooses files.
    (s.str.ends_with("2"), 4),
    (s.str.ends_with("2") & (id_ > 11), 2),
    (s.str.ends_with("2") | (id_ > 21), 4),
    ((id_ * 2) > 41, 4),
    (pl.col("local") < pl.lit(NOON[0]).dt.cast_time_unit("ns"), 4),
    # JSON, in which Polars tells its filters, has no word for these.
    ((pl.col("d") < float("inf")) & (id_ > 11), 2),
    (pl.col("d") > float("-inf"), 4),
    (pl.col("d").eq(float("nan")), 4),
    (pl.col("d").is_between(float("-inf"), 20.0), 4),
    (pl.col("d").is_in([0.5, float("nan")]), 4),
]


@pytest.mark.parametrize(("asked", "files"), FILTERS, ids=[str(asked)[:60] for asked, _ in FILTERS])
def test_filters_choose_the_files(table, opened, asked, files):
    expected = ROWS.filter(asked)
    lazy = table.scan().to_polars(lazy=True).filter(asked)
    opened.clear()
    found = lazy.collect().sort("id")
    assert len(opened) <= files
    assert found.select(ROWS.columns).equals(expected, null_equal=True)


def test_a_filter_on_top_of_a_condition(table, opened):
    lazy = table.scan("id % 10 = 0 AND id < 30").to_polars(lazy=True).filter(id_ > 10)
    opened.clear()
    assert lazy.select("id").collect()["id"].to_list() == [20]
    assert len(opened) == 2


def test_rows_that_are_counted_first_are_not_filtered_away(table):
    lazy = table.scan().to_polars(lazy=True)
    assert (
        lazy.head(3).filter(id_ > 20).collect().height
        == lazy.head(3).collect().filter(id_ > 20).height
    )
    limited = table.scan(limit=2).to_polars(lazy=True)
    assert limited.filter(id_ >= 0).collect().height == 2
