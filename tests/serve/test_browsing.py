"""Pages of the log, the same on every database."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import deltasql


@pytest.fixture
def lake(store_url, tmp_path):
    with deltasql.connect(store_url, location=str(tmp_path / "lake"), committer="me") as lake:
        yield lake


def test_pages(lake):
    table = lake.create_table("sales.or_ders", pa.schema([("id", pa.int64())]))
    for number in range(5):
        table.append(pa.table({"id": [number]}))
    table.overwrite(pa.table({"id": [9]}))
    other = lake.create_table("hr.people", pa.schema([("id", pa.int64())]))
    with lake.transaction() as tx:
        tx.table("sales.or_ders").append(pa.table({"id": [1]}))
        tx.table("hr.people").append(pa.table({"id": [1]}))
    store = lake.store
    assert [item.name for item in store.browse_tables()] == ["hr.people", "sales.or_ders"]
    assert [item.name for item in store.browse_tables(after="hr.people")] == ["sales.or_ders"]
    assert [item.name for item in store.browse_tables(search="OR_D")] == ["sales.or_ders"]
    assert store.browse_tables(search="or%") == store.browse_tables(search="r_p") == []
    listing = store.browse_table("sales.or_ders")
    assert (listing.version, listing.mirrored_version, listing.files) == (7, 7, 2)
    assert store.browse_table("none") is None
    summary = store.summary()
    assert (summary.tables, summary.versions, summary.files) == (2, 10, 3)
    # Versions and what they did to the files.
    page = store.browse_versions(table.table_id, before=7, most=3)
    assert [item.record.version for item in page] == [6, 5, 4]
    assert all(item.json_written and item.mirrored_at for item in page)
    growth = {item.version: item for item in store.growth(table.table_id)}
    assert growth[6].gone_files == 5
    assert growth[6].gone_bytes > 0
    assert growth[6].body is not None
    assert store.growth(table.table_id, largest=1)[0].body is None
    # Times.
    now = store.clock_ms()
    found = store.browse_audit(start=0, stop=now + 1000, most=4)
    assert len(found) == 4
    times = [record.in_commit_timestamp for _, record in found]
    assert times == sorted(times, reverse=True)
    assert sum(store.activity(start=0, stop=now + 1000, bucket=1000).values()) == 10
    (moved,) = {record.transaction_id for _, record in found} - {None}
    pair = store.browse_transaction(moved, start=0, stop=now + 1000)
    assert [name for name, _ in pair] == ["hr.people", "sales.or_ders"]
    # Files of the newest and of an older version, page by page.
    for version, count in ((7, 2), (5, 5), (0, 0)):
        seen, after = [], ""
        while page := store.browse_files(table.table_id, version, after=after, most=2):
            seen += [item.path for item in page]
            after = page[-1].path
        expected = table.snapshot(version).files().column("path").to_pylist()
        assert sorted(seen) == sorted(expected)
        assert len(seen) == count
    landed = store.landed(table.table_id, after=-1, upto=7, most=5)
    assert [version for version, _ in landed] == [0, 1, 2, 3, 4]
    assert all(0 <= waited < 60_000 for _, waited in landed)
    assert store.behind() == []
    other.mirror.pause()
    other.append(pa.table({"id": [2]}))
    (late,) = store.behind()
    assert (late.name, late.versions, late.is_paused, late.is_failed) == (
        "hr.people",
        1,
        True,
        False,
    )
    assert abs(time.time() * 1000 - late.oldest) < 60_000
    # Partitions, the largest first.
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    days = lake.create_table("days", schema, ["day"])
    for day, count in (("a", 1), (None, 500), ("b", 1)):
        rows = pa.table({"id": range(count), "day": pa.array([day] * count, pa.string())})
        days.append(rows)
    days.append(pa.table({"id": [1], "day": ["b"]}))
    found, number = store.browse_partitions(days.table_id, most=2)
    assert [(item.partition_values, item.files) for item in found] == [
        ('{"day":null}', 1),
        ('{"day":"b"}', 2),
    ]
    assert number == 3
    assert store.browse_partitions(0) == ([], 0)
