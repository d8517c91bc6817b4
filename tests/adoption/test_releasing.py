"""Handed back, a table is plain Delta again; taken in again, it is as whole as before."""

from __future__ import annotations

import shutil
import sqlite3
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
    with pytest.raises(TableError, match="released"):
        theirs.mirror.export(str(stock.parent / "copy"))
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


def test_release_mirrors_what_a_pause_held_back(stock: Path, any_lake: Any) -> None:
    table = any_lake.adopt(str(stock), name="t")
    table.mirror.pause()
    table.append(rows(2))
    table.release()
    assert sorted(DeltaTable(stock).to_pyarrow_table().column("id").to_pylist()) == [0, 1, 2]


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


# --- what is others' stays as they left it ------------------------------------------------


def contents(root: Path) -> dict[str, bytes]:
    log = root / "_delta_log"
    return {path.name: path.read_bytes() for path in log.rglob("*") if path.is_file()}


def root_of(table: Any) -> Path:
    return Path(table.location.removeprefix("file://"))


@pytest.fixture
def released(lake: Any) -> Any:
    table = lake.create_table("t", rows().schema)
    table.append(rows(1))
    table.release(keep_timestamps=False)
    return table


@pytest.mark.parametrize("others", ["began anew", "cleaned up", "adopted it"])
@pytest.mark.parametrize("how", [{}, {"force": True}, {"take_back": True}, {"version": 1}])
def test_nothing_is_repaired_in_a_released_table(
    lake: Any, released: Any, others: str, how: dict[str, Any]
) -> None:
    root = root_of(released)
    if others == "began anew":
        shutil.rmtree(root)
        write_deltalake(root, rows(100))
    elif others == "cleaned up":
        write_deltalake(root, rows(4), mode="append")
        DeltaTable(root).create_checkpoint()
        for version in range(3):
            commit_file(root, version).unlink()
    else:
        lake.adopt(released.location, name="u").append(rows(2))
    before = contents(root)
    report = lake.table("t").mirror.repair(**how)
    assert not report.ok
    assert "released at version 2" in report.errors[0]
    assert contents(root) == before
    assert lake.mirror.validate().ok


@pytest.mark.parametrize("others", ["began anew", "went on"])
def test_the_worker_leaves_a_released_table_to_others(
    open_lake: Any, sqlite_url: str, others: str
) -> None:
    """The release is in SQL and never came to be in the mirror; meanwhile somebody wrote there."""
    lake = open_lake()
    table = lake.create_table("t", rows().schema, properties={"delta.checkpointInterval": "1"})
    table.append(rows(1))
    table.release(keep_timestamps=False)
    root = root_of(table)
    if others == "began anew":
        shutil.rmtree(root)
        for number in range(2):
            write_deltalake(root, rows(100 + number), mode="append")
    else:
        write_deltalake(root, rows(100), mode="append")
        commit_file(root, 2).unlink()
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute(
            "UPDATE dl_mirror_status SET status = 'PENDING', json_written = 0,"
            " checkpoint_written = 0 WHERE version = 2"
        )
    connection.close()
    before = contents(root)
    assert lake.table("t").mirror.status().lag_versions == 1
    lake.mirror.run(once=True)
    assert contents(root) == before
    status = lake.table("t").mirror.status()
    assert status.is_failed
    assert "others have written to since" in status.error_message


def test_a_release_that_was_cut_off_is_mirrored_by_the_worker(
    stock: Path, open_lake: Any, sqlite_url: str
) -> None:
    lake = open_lake()
    table = lake.adopt(str(stock), name="t")
    version = table.release()
    whole = contents(stock)
    commit_file(stock, version).unlink()
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute(
            "UPDATE dl_mirror_status SET status = 'PENDING', json_written = 0 WHERE version = ?",
            (version,),
        )
    connection.close()
    assert lake.mirror.run(once=True) == 1
    assert contents(stock) == whole


@pytest.mark.parametrize("adopted", [True, False])
@pytest.mark.parametrize("went_on", [True, False])
def test_a_release_that_is_taken_back_leaves_the_table_released(
    stock: Path, open_lake: Any, sqlite_url: str, tmp_path: Path, adopted: bool, went_on: bool
) -> None:
    lake = open_lake()
    table = lake.adopt(str(stock), name="t") if adopted else lake.create_table("t", rows().schema)
    backup = tmp_path / "backup.db"
    path = sqlite_url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
        source.backup(target)
        target.execute("DELETE FROM dl_mirror_leases")
    table.append(rows(7))
    version = table.release(keep_timestamps=False)
    root = root_of(table)
    if went_on:
        write_deltalake(root, rows(8), mode="append")
    before = contents(root)
    restored = open_lake(f"sqlite:///{backup}").table("t")
    report = restored.mirror.repair(take_back=True)
    assert report.ok
    assert report.taken_back == [version - 1, version]
    assert restored.read_only == table.read_only
    assert contents(root) == before
    with pytest.raises(ValidationError, match="read-only"):
        restored.append(rows(9))
    assert restored.snapshot(version=version).state == table.snapshot(version=version).state
