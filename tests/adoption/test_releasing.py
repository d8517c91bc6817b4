"""Handed back, a table is plain Delta again; taken in again, it is as whole as before."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasql.errors import TableError, ValidationError
from tests.adoption.logs import commit_file


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    root = tmp_path / "stock"
    write_deltalake(root, rows(0))
    write_deltalake(root, rows(1), mode="append")
    return root


def ids(table: Any, version: int | None = None) -> list[int]:
    return sorted(table.snapshot(version=version).scan().to_arrow().column("id").to_pylist())


def test_there_and_back_and_there_again(stock: Path, any_lake: Any) -> None:
    table = any_lake.adopt(str(stock), name="t")
    table.append(rows(2))
    assert table.release() == 4
    assert table.read_only.startswith("released at version 4")
    assert ids(table) == [0, 1, 2]
    with pytest.raises(ValidationError, match="read-only"):
        table.append(rows(3))
    protocol = DeltaTable(stock).protocol()
    assert set(protocol.writer_features or ()) == {"appendOnly", "invariants"}
    write_deltalake(stock, rows(4), mode="append")
    assert any_lake.mirror.validate().ok, "what others do now is no drift"
    again = any_lake.adopt(str(stock), name="t")
    assert [ids(again, version) for version in range(7)] == [
        [0],
        [0, 1],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2],
        [0, 1, 2, 4],
        [0, 1, 2, 4],
    ]
    assert [found.name for found in any_lake.tables()] == ["t"]
    assert again.read_only is None
    assert again.append(rows(5)) == 7
    assert again.mirror.validate().ok


def test_reads_of_a_released_table_are_not_silently_stale(stock: Path, any_lake: Any) -> None:
    table = any_lake.adopt(str(stock), name="t")
    version = table.release()
    assert ids(table) == [0, 1], "nobody has written it since"
    write_deltalake(stock, rows(4), mode="append")
    theirs = any_lake.table("t")
    for read in (
        theirs.scan,
        theirs.snapshot,
        table.scan,
        lambda: theirs.snapshot(timestamp="2999-01-01"),
    ):
        with pytest.raises(TableError, match="released") as caught:
            read()
        assert "adopt it again" in caught.value.remedy
    with pytest.raises(TableError, match="released"), any_lake.transaction() as tx:
        tx.table("t").scan()
    with pytest.raises(TableError, match="released"), any_lake.transaction() as tx:
        tx.table("t").snapshot()
    # What SQL has of it never changes.
    assert ids(theirs, version) == [0, 1]
    assert ids(theirs, 0) == [0]
    released_at = theirs.snapshot(version=version).timestamp
    before = theirs.snapshot(timestamp=released_at)
    assert before.version == version
    again = any_lake.adopt(str(stock), name="t")
    assert ids(again) == [0, 1, 4]


def test_a_released_log_may_have_been_cleaned_up(stock: Path, lake: Any) -> None:
    """Others write checkpoints and delete commit files: the next one may be gone."""
    table = lake.adopt(str(stock), name="t")
    version = table.release()
    write_deltalake(stock, rows(4), mode="append")
    DeltaTable(stock).create_checkpoint()
    commit_file(stock, version + 1).unlink()
    with pytest.raises(TableError, match="released"):
        table.scan()


def test_release_twice_is_one_release(stock: Path, lake: Any) -> None:
    table = lake.adopt(str(stock), name="t")
    assert table.release() == table.release() == 3
    assert not commit_file(stock, 4).exists()


def test_release_mirrors_what_was_waiting(stock: Path, open_lake: Any) -> None:
    lake = open_lake(mode="async")
    table = lake.adopt(str(stock), name="t")
    for number in range(3):
        table.append(rows(number))
    assert not commit_file(stock, 4).exists()
    assert table.release() == 6
    assert sorted(DeltaTable(stock).to_pyarrow_table()["id"].to_pylist()) == [0, 0, 1, 1, 2]


def test_others_who_have_the_table_open_are_told(stock: Path, any_lake: Any) -> None:
    """Their cached table and state know nothing of the release; the commit does."""
    mine = any_lake.adopt(str(stock), name="t")
    theirs = any_lake.table("t")
    theirs.append(rows(7))
    mine.release()
    with pytest.raises(ValidationError, match="read-only"):
        theirs.append(rows(8))
    with pytest.raises(ValidationError, match="read-only"):
        theirs.overwrite(rows(8))
    with pytest.raises(ValidationError, match="read-only"), any_lake.transaction() as tx:
        tx.table("t").append(rows(8))
    assert ids(mine) == [0, 1, 7]


def test_another_process_is_told(stock: Path, open_lake: Any) -> None:
    one, two = open_lake(), open_lake()
    mine = one.adopt(str(stock), name="t")
    theirs = two.table("t")
    theirs.append(rows(7))
    mine.release()
    with pytest.raises(ValidationError, match="read-only"):
        theirs.append(rows(8))


def test_timestamps_stay_where_they_were_before(lake: Any) -> None:
    """A table of our own always had them; whoever wants other writers says so."""
    table = lake.create_table("t", rows().schema)
    table.append(rows(1))
    table.release()
    root = Path(table.location.removeprefix("file://"))
    assert "inCommitTimestamp" in (DeltaTable(root).protocol().writer_features or ())
    other = lake.create_table("u", rows().schema)
    other.append(rows(1))
    other.release(keep_timestamps=False)
    root = Path(other.location.removeprefix("file://"))
    write_deltalake(root, rows(2), mode="append")
    assert ids(lake.adopt(other.location, name="u")) == [1, 2]


def test_without_a_fence(stock: Path, lake: Any) -> None:
    table = lake.adopt(str(stock), name="t", fence=False)
    table.append(rows(9))
    table.release()
    with pytest.raises(ValidationError, match="read-only"):
        table.append(rows(10))
    write_deltalake(stock, rows(11), mode="append")
    assert ids(lake.adopt(str(stock), name="t")) == [0, 1, 9, 11]


def test_adopting_while_a_stock_writer_keeps_committing(stock: Path, any_lake: Any) -> None:
    """Whatever it was told is committed is in SQL; then the fence stops it."""
    done: list[int] = []
    refused: list[str] = []

    def write() -> None:
        for number in range(100, 100_000):
            try:
                write_deltalake(stock, rows(number), mode="append")
            except Exception as error:  # noqa: BLE001 - whatever delta-rs says when it is fenced out
                refused.append(str(error))
                return
            done.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    while len(done) < 5:
        time.sleep(0.01)
    table = any_lake.adopt(str(stock), name="t")
    writer.join(60)
    assert not writer.is_alive()
    assert "deltasql" in refused[0] or "Protocol changed" in refused[0]
    assert ids(table) == [0, 1, *done]
    assert table.append(rows(5)) == table.version
    assert sorted(DeltaTable(stock).to_pyarrow_table()["id"].to_pylist()) == ids(table)
    assert table.mirror.validate().ok
