"""How many clients of buckets a process keeps: few, however many tables there are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.lake import object_stores
from deltasql.testing.faulty_store import FaultyStore

SCHEMA = pa.schema([("id", pa.int64())])
TABLES = 40


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_do_not_grow_with_the_tables(seaweedfs, sqlite_url, monkeypatch):
    monkeypatch.setattr(object_stores, "_OPEN", 5)
    settings = {"mirror.mode": "async", **seaweedfs.options()}
    with deltasql.connect(sqlite_url, seaweedfs.location("open"), settings=settings) as lake:
        before = _descriptors()
        for number in range(TABLES):
            lake.create_table(f"t{number}", SCHEMA)
        lake.mirror.run(once=True)
        assert _descriptors() - before < TABLES
        assert not any(item.lag_versions for item in lake.mirror.status())
        # One that was closed meanwhile opens again.
        table = lake.table("t0")
        table.append(pa.table({"id": [1]}, schema=SCHEMA))
        lake.mirror.run(once=True)
        assert table.mirror.validate().ok


def test_a_store_that_was_given_stays(seaweedfs, sqlite_url, monkeypatch):
    monkeypatch.setattr(object_stores, "_OPEN", 2)
    place = seaweedfs.location("given")
    with deltasql.connect(sqlite_url, place, settings=seaweedfs.options()) as lake:
        own = FaultyStore(lake.objects(f"{place}/own"))
        lake.objects.use(f"{place}/own", own)
        wrapped = []

        def around(store):
            wrapped.append(store)
            return FaultyStore(store)

        lake.objects.wrap(around)
        first = lake.objects(f"{place}/a")
        assert lake.objects(f"{place}/a") is first
        for name in "bcd":
            assert isinstance(lake.objects(f"{place}/{name}"), FaultyStore)
        assert lake.objects(f"{place}/own").inner is own
        again = lake.objects(f"{place}/a")
        assert again is not first
        assert isinstance(again, FaultyStore), "opened again, and wrapped again"
        assert first.head("nothing") is None, "who holds it may go on"


@pytest.mark.parametrize("count", [200])
def test_local_folders_stay(sqlite_url, tmp_path, count):
    with deltasql.connect(sqlite_url, tmp_path.as_uri()) as lake:
        found = [lake.objects(f"{tmp_path.as_uri()}/{n}") for n in range(count)]
        assert [lake.objects(f"{tmp_path.as_uri()}/{n}") for n in range(count)] == found
