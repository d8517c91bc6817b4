"""Everyday questions: what changed, how large is it, what does it look like, bring it back."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import (
    LocationTakenError,
    TableExistsError,
    TableNotFoundError,
    ValidationError,
)


def test_what_changed(lake, orders, rows):
    other = lake.create_table("hr.people", pa.schema([("id", pa.int64())]))
    other.append(pa.table({"id": [1]}))
    orders.append(rows(1, 2, 3))
    orders.delete("id = 2")
    orders.overwrite(rows(7), where="day = '2026-11-01'")
    found = lake.audit(since="1d", table="sales.*", changes=True)
    assert {item.table for item in found} == {"sales.orders"}
    told = [(item.changed.rows_added, item.changed.rows_removed) for item in found]
    assert told[:2] == [(0, 0), (3, 0)]
    assert sum(added - removed for added, removed in told) == orders.count() == 1
    assert told[3] == (1, 2)
    assert found[3].changed.files_added == 1
    assert lake.audit(since=timedelta(days=1)), "a duration will do, too"
    assert lake.audit()[0].changed is None, "only where it is asked for"
    assert lake.audit("2999-01-01") == []
    with pytest.raises(ValidationError, match="both"):
        lake.audit("2020-01-01", since="1d")


def test_rows_that_a_vector_deletes_alone_are_removed(lake, rows):
    table = lake.create_table(
        "v", rows(1).schema, properties={"delta.enableDeletionVectors": "true"}
    )
    table.append(rows(*range(10)))
    table.delete("id = 3")
    changed = lake.audit(table="v", changes=True)[-1].changed
    assert (changed.rows_added, changed.rows_removed) == (0, 1)
    table.optimize(purge=True)
    moved = lake.audit(table="v", changes=True)[-1].changed
    assert (moved.rows_added, moved.rows_removed) == (0, 0)
    assert (moved.files_added, moved.files_removed) == (1, 1)


def test_how_large_it_is(orders, rows):
    orders.append(rows(1, 2))
    orders.append(rows(3, day="2026-11-02"))
    orders.overwrite(rows(4), where="day = '2026-11-01'")
    size = orders.size
    assert (size.rows, size.files, size.partitions) == (2, 2, 2)
    assert size.size_bytes == orders.detail()["sizeInBytes"]
    assert size.old_files == 1
    assert size.old_bytes > 0
    orders.vacuum("0 seconds", False, enforce_retention_duration=False)
    assert orders.size.old_files == 0


def test_what_it_looks_like(orders, rows):
    orders.append(rows(*range(10)))
    orders.append(rows(*range(10, 20), day="2026-11-02"))
    assert orders.head(3).num_rows == 3
    assert orders.scan(limit=12).to_arrow().num_rows == 12
    assert orders.scan("id < 5", ["id"], limit=50).count() == 5
    assert orders.scan(limit=4).count() == 4
    assert orders.scan(limit=0).to_arrow().num_rows == 0
    assert orders.snapshot(version=1).head(100).num_rows == 10
    with pytest.raises(ValidationError, match="limit"):
        orders.scan(limit=-1)
    with pytest.raises(ValidationError, match="whole files"):
        orders.scan(limit=1).to_pyarrow_dataset()


def test_which_tables(lake, orders):
    lake.create_table("hr.people", pa.schema([("id", pa.int64())]))
    assert [table.name for table in lake.tables("sales.*")] == ["sales.orders"]
    assert orders.kind == "live"
    orders.release()
    assert lake.table("sales.orders").kind == "released"
    lake.drop_table("hr.people")
    assert [item.kind for item in lake.dropped()] == ["dropped"]


def test_undrop(lake, orders, rows, ids):
    orders.append(rows(1))
    orders.append(rows(2))
    lake.drop_table("sales.orders")
    back = lake.undrop("sales.orders")
    assert (back.version, ids(back), lake.dropped()) == (2, [1, 2], [])
    assert back.snapshot(version=1).count() == 1
    assert back.append(rows(3)) == 3
    assert back.mirror.validate().ok
    assert lake.check("sales.orders").ok
    with pytest.raises(TableNotFoundError):
        lake.undrop("sales.orders")


def test_undrop_beside_a_new_table_of_the_name(lake, orders, rows, ids):
    orders.append(rows(1))
    lake.drop_table("sales.orders")
    lake.create_table("sales.orders", rows(1).schema)
    with pytest.raises(TableExistsError, match="already"):
        lake.undrop("sales.orders")
    back = lake.undrop("sales.orders", new_name="sales.old")
    assert (back.name, ids(back)) == ("sales.old", [1])


def test_what_was_adopted_again_is_not_brought_back(lake, orders, rows):
    orders.append(rows(1))
    orders.mirror.repair()
    lake.drop_table("sales.orders")
    lake.adopt(orders.location, "again")
    with pytest.raises(LocationTakenError):
        lake.undrop("sales.orders")


def test_nor_once_the_adopted_table_was_purged(lake, orders, rows):
    orders.append(rows(1))
    lake.drop_table("sales.orders")
    lake.adopt(orders.location, "again")
    lake.drop_table("again", purge=True)
    with pytest.raises(LocationTakenError, match="can't be brought back"):
        lake.undrop("sales.orders")
    assert [item.name for item in lake.dropped()] == ["sales.orders"]


def test_nor_beside_the_history_that_the_adopted_table_left(lake, orders, rows, ids):
    orders.append(rows(1))
    lake.drop_table("sales.orders")
    again = lake.adopt(orders.location, "again")
    again.append(rows(2))
    again.release()
    lake.drop_table("again", purge=True)
    with pytest.raises(LocationTakenError, match="can't be brought back"):
        lake.undrop("sales.orders")
    assert ids(lake.adopt(orders.location, "sales.orders")) == [1, 2]


def test_properties_of_a_table_that_exists_are_not_ignored(lake, orders, rows):
    key = "delta.appendOnly"
    with pytest.raises(ValidationError, match="other properties"):
        lake.create_table("sales.orders", rows(1).schema, properties={key: "true"}, exists_ok=True)
    orders.set_properties({key: "true"})
    same = lake.create_table(
        "sales.orders", rows(1).schema, properties={key: "true"}, exists_ok=True
    )
    assert same.table_id == orders.table_id


def test_the_database_names_the_committer(postgres_url, tmp_path):
    with deltasql.connect(postgres_url, location=str(tmp_path / "lake")) as lake:
        assert lake.committer == "postgres"
        lake.create_table("t", pa.schema([("id", pa.int64())]))
        assert lake.audit()[0].entry.committer == "postgres"


def test_settings_may_name_the_committer(sqlite_url):
    with deltasql.connect(sqlite_url, settings={"committer": "ann"}) as lake:
        assert lake.committer == "ann"
    with deltasql.connect(sqlite_url, committer="bob", settings={"committer": "ann"}) as lake:
        assert lake.committer == "bob"


def test_root_alone_is_no_committer(sqlite_url, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    with deltasql.connect(sqlite_url) as lake:
        assert lake.committer.startswith("root@")
