"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from deltasql.serve.pages.plots import partition
from deltasql.serve.pages.rendering import brief
from deltasql.store.browsing.interface import ListedPartition


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "just now"), (30, "30 s ago"), (3000, "50 min ago")]
)
def test_what_was_just_now_is_so_long_ago(seconds, told):
    assert brief(datetime.now(UTC) - timedelta(seconds=seconds)) == told


def test_what_was_long_ago_has_its_time():
    """Eight lines of `9 h ago` would say nothing about their order."""
    now = datetime.now(UTC)
    then = now - timedelta(minutes=61)
    assert brief(then).endswith(f"{then:%H:%M}")
    assert brief(then)[:-5].strip() == (
        "" if then.date() == now.date() else f"{then.day} {then:%b}"
    )
    assert brief(datetime(2001, 2, 3, 4, 5, tzinfo=UTC)) == "3 Feb 2001"


def test_a_partition_is_told_in_the_order_of_its_columns():
    item = ListedPartition('{"col-1": "x", "b": null}', 3, 500)
    found = partition(item, {"col-1": "kind's"}, ["kind's", "b"])
    assert list(found.values.items()) == [("kind's", "x"), ("b", None)]
    assert found.where == "`kind's` = 'x' AND `b` IS NULL"
