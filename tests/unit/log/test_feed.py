"""What several operations in one commit owe the change data feed."""

from __future__ import annotations

from deltasql.log.feed import FeedDebt
from deltasql.spec.actions import AddFile, CdcFile, RemoveFile


def add(path, **more):
    return AddFile(path=path, size=1, modification_time=0, **more)


def test_whole_files_are_owed_beside_changes_only():
    debt = FeedDebt()
    debt.note([add("a"), RemoveFile.of(add("b"), deletion_timestamp=1)])
    assert not debt.is_due, "without change files, adds and removes are the feed"
    debt.note([add("c"), RemoveFile.of(add("d"), deletion_timestamp=1), CdcFile(path="x", size=1)])
    assert debt.is_due
    assert [item.path for item in debt.added] == ["a"]
    assert [item.path for item in debt.removed] == ["b"]
    debt.settle()
    assert not debt.is_due
    debt.note([add("e", data_change=False)])
    assert not debt.is_due, "rows that were merely moved are no change"
    debt.note([add("f")])
    assert debt.is_due
