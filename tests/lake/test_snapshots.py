"""Time travel, pruning, history and audit, from SQL alone."""

import datetime as dt
import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import deltasql
from tests.lake.test_commits import add


def test_time_travel_by_version_and_time(orders, rows, ids):
    moments = []
    for number in range(1, 4):
        orders.append(rows(number))
        moments.append(orders.snapshot().timestamp)
        time.sleep(0.002)
    assert [ids(orders.snapshot(version=v)) for v in range(4)] == [[], [1], [1, 2], [1, 2, 3]]
    assert [orders.snapshot(timestamp=m).version for m in moments] == [1, 2, 3]
    assert orders.snapshot(timestamp=moments[1].isoformat()).version == 2
    assert orders.snapshot(timestamp=moments[2] + dt.timedelta(days=1)).version == 3
    for wanted in ({"version": 9}, {"version": -1}, {"timestamp": "1999-01-01"}):
        with pytest.raises(deltasql.VersionNotFoundError, match=r"0 .* to 3"):
            orders.snapshot(**wanted)
    with pytest.raises(deltasql.ValidationError):
        orders.snapshot(version=1, timestamp=moments[0])


def test_a_snapshot_stays_as_it_was(orders, rows, ids):
    orders.append(rows(1))
    snapshot = orders.snapshot()
    orders.overwrite(rows(2))
    assert ids(snapshot) == [1]
    assert snapshot.files().num_rows == 1


def test_snapshots_need_no_object_store(orders, rows):
    orders.append(rows(1))
    shutil.rmtree(Path(urlsplit(orders.location).path))
    snapshot = orders.snapshot()
    assert snapshot.files().num_rows == 1
    assert snapshot.schema.names == ["id", "day", "amount"]
    with pytest.raises(deltasql.StoreError):
        snapshot.scan().to_arrow()


def test_files_are_pruned_by_partition_and_stats(orders, rows):
    for number in range(10):
        orders.append(rows(number * 10, number * 10 + 5, day=f"2026-11-{number + 1:02}"))
    snapshot = orders.snapshot()

    def count(where):
        return snapshot.files(where=where).num_rows

    assert snapshot.files().num_rows == 10
    assert count("day = '2026-11-03'") == 1
    assert count("day >= '2026-11-09'") == 2
    assert count("day LIKE '2026-11-0%'") == 9
    assert count("id = 25") == 1
    assert count("id = 27") == 0
    assert count("id < 15 OR id > 90") == 3
    assert count("NOT (id < 15 OR id > 90)") == 9
    assert count("id IN (1, 2, 40)") == 2
    assert count("id IN (6, 47)") == 0
    assert count("id IS NULL") == 0
    assert count("amount IS NOT NULL") == 10
    assert count("day = '2026-11-03' AND id = 99") == 0
    assert count("id = 25 AND amount = 1.0") == 1
    with pytest.raises(deltasql.ValidationError, match="amount"):
        count("amonut = 1")
    with pytest.raises(deltasql.ValidationError):
        count("id = ")


def test_files_hold_what_the_log_says(orders, rows):
    orders.append(rows(1))
    files = orders.snapshot().files()
    assert {
        "path",
        "size",
        "modification_time",
        "partition_values",
        "stats",
        "deletion_vector",
    } <= {*files.column_names}
    (add,) = orders.snapshot().adds()
    assert files.column("path").to_pylist() == [add.path]
    assert files.column("partition_values").to_pylist() == ['{"day":"2026-11-01"}']
    assert files.column("num_records").to_pylist() == [1]


def test_history_changes_and_audit(lake, orders, rows):
    start = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=5)
    orders.append(rows(1))
    orders.overwrite(rows(2))
    other = lake.create_table("other", pa.schema([("x", pa.int64())]))
    assert [entry.version for entry in orders.history()] == [2, 1, 0]
    assert [entry.version for entry in orders.history(limit=1)] == [2]
    assert orders.history()[0].operation_params["mode"] == "Overwrite"
    changes = orders.changes(1, 2)
    assert [change.version for change in changes] == [1, 2]
    kinds = [type(action).__name__ for action in changes[1].actions]
    assert kinds == ["CommitInfo", "AddFile", "RemoveFile"]
    assert orders.changes(3) == []
    end = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
    audit = lake.audit(start, end)
    assert [(item.table, item.entry.version) for item in audit] == [
        ("sales.orders", 0),
        ("sales.orders", 1),
        ("sales.orders", 2),
        ("other", 0),
    ]
    assert {item.entry.committer for item in audit} == {"me"}
    assert lake.audit(end, end + dt.timedelta(days=1)) == []
    assert other.version == 0


def test_in_commit_timestamps_grow(orders, rows):
    for number in range(5):
        orders.append(rows(number))
    stamps = [entry.timestamp for entry in reversed(orders.history())]
    assert stamps == sorted(set(stamps))


def test_many_files_come_in_batches(orders):
    orders.commit([add(f"f{number}", id=number) for number in range(3000)])
    snapshot = orders.snapshot()
    assert sum(batch.num_rows for batch in snapshot.file_batches()) == 3000
    assert snapshot.files(where="id >= 2990").num_rows == 10


def test_a_negative_limit_is_no_limit(lake):
    table = lake.create_table("limited", pa.schema([("id", pa.int64())]))
    with pytest.raises(deltasql.ValidationError, match="limit of a history can't be -1"):
        table.history(-1)
    assert table.history(0) == []
    assert len(table.history(limit=1)) == len(table.history()) == 1
