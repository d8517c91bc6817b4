"""Commits that only SQL has: an adoption of the log that lacks them is not their end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from tests.adoption.logs import commit_file


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


@pytest.fixture
def late(lake: Any, tmp_path: Path) -> Path:
    """A dropped table whose versions 2 to 4 never came to the mirror."""
    place = tmp_path / "p"
    table = lake.create_table("t", rows().schema, location=str(place))
    table.append(rows(1))
    table.mirror.pause()
    for number in (2, 3, 4):
        table.append(rows(number))
    lake.drop_table("t")
    return place


def files(place: Path) -> list[Path]:
    return sorted(place.rglob("*"))


def test_an_adoption_that_would_lose_commits_is_refused(late: Path, lake: Any) -> None:
    before = files(late)
    for how in ({}, {"fence": False}, {"dry_run": True}):
        with pytest.raises(deltasql.MirrorError, match="would be lost") as caught:
            lake.adopt(str(late), "t", **how)
        assert "versions 2, 3, 4 are" in caught.value.cause
        assert "unmirrored" in caught.value.remedy
    assert files(late) == before
    assert lake.tables() == []
    assert lake.store.staged_tables() == []


def test_recovery_refuses_it_too(late: Path, lake: Any, tmp_path: Path) -> None:
    for dry_run in (True, False):
        (found,) = lake.recover(str(late), dry_run=dry_run).tables
        assert found.status == "failed"
        assert "would be lost" in found.problem
        assert "unmirrored" in found.remedy


def test_they_can_be_written_first(late: Path, lake: Any) -> None:
    lake.adopt(str(late), "t", dry_run=True, unmirrored="write")
    assert not commit_file(late, 2).exists()
    table = lake.adopt(str(late), "t", unmirrored="write")
    assert ids(table) == [1, 2, 3, 4]
    assert table.append(rows(5)) == 5
    assert table.mirror.validate().ok
    assert DeltaTable(late).version() == 5


def test_they_can_be_given_up(late: Path, lake: Any) -> None:
    table = lake.adopt(str(late), "t", unmirrored="discard")
    assert ids(table) == [1]
    # It is decided: nobody asks again.
    lake.drop_table("t")
    assert ids(lake.adopt(str(late), "t")) == [1]


def test_other_choices_are_refused(late: Path, lake: Any) -> None:
    with pytest.raises(deltasql.ValidationError, match="unmirrored"):
        lake.adopt(str(late), "t", unmirrored="keep")


def test_a_table_without_any_mirror(lake: Any, open_lake: Any, tmp_path: Path) -> None:
    table = open_lake(mode="off").create_table("t", rows().schema, location=str(tmp_path / "p"))
    table.append(rows(1))
    lake.drop_table("t")
    with pytest.raises(deltasql.MirrorError, match="would be lost"):
        lake.adopt(str(tmp_path / "p"), "t")
    assert ids(lake.adopt(str(tmp_path / "p"), "t", unmirrored="write")) == [1]


def test_a_log_that_was_restored_to_an_earlier_time(lake: Any, tmp_path: Path) -> None:
    place = tmp_path / "p"
    table = lake.create_table("t", rows().schema, location=str(place))
    for number in range(3):
        table.append(rows(number))
    lake.drop_table("t")
    commit_file(place, 3).unlink()
    with pytest.raises(deltasql.MirrorError, match="would be lost"):
        lake.adopt(str(place), "t")
    assert ids(lake.adopt(str(place), "t", unmirrored="write")) == [0, 1, 2]


def test_two_histories_are_not_mixed(late: Path, lake: Any) -> None:
    shutil.copy(commit_file(late, 1), commit_file(late, 2))
    before = files(late)
    with pytest.raises(deltasql.MirrorError, match="would be lost"):
        lake.adopt(str(late), "t")
    with pytest.raises(deltasql.MirrorConflictError, match="can't be written") as caught:
        lake.adopt(str(late), "t", unmirrored="write")
    assert "discard" in caught.value.remedy
    assert files(late) == before


def test_another_table_in_the_place_of_a_dropped_one(lake: Any, tmp_path: Path) -> None:
    """All of the old one was mirrored, and whoever deleted it knew: it holds nobody up."""
    place = tmp_path / "p"
    table = lake.create_table("t", rows().schema, location=str(place))
    table.append(rows(1))
    lake.drop_table("t")
    shutil.rmtree(place)
    write_deltalake(place, rows(100))
    assert ids(lake.adopt(str(place), "t")) == [100]


def test_an_adopted_table_released_and_cleaned_up(lake: Any, tmp_path: Path) -> None:
    place = tmp_path / "p"
    write_deltalake(place, rows(0))
    lake.adopt(str(place), "t").release()
    write_deltalake(place, rows(1), mode="append")
    DeltaTable(place).create_checkpoint()
    for version in range(3):
        commit_file(place, version).unlink()
    assert ids(lake.adopt(str(place), "t")) == [0, 1]
