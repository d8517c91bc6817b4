"""Purge takes what the table's log knows, and nothing else; cut off, it goes on."""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from deltasql.errors import StoreError
from deltasql.objectstore.local import LocalStore
from deltasql.spec.deletion_vectors import in_file, relative_path
from tests.lake.conftest import ORDERS

FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointPolicy": "v2",
}
VECTOR = bytes(range(16))


def folder(table) -> Path:
    return Path(table.location.removeprefix("file://"))


def files_below(root: Path) -> list[str]:
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() or path.is_symlink()
    )


def put(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"bytes")
    return path


def add(path: str, **fields):
    return {
        "add": {
            "path": path, "size": 5, "partitionValues": {}, "modificationTime": 1,
            "dataChange": True, **fields,
        }
    }  # fmt: skip


@pytest.fixture
def full(lake, rows):
    """A table with files of every kind: live, dead, vectors, changes, checkpoints, sidecars."""
    table = lake.create_table("sales.full", ORDERS, properties=FEATURES)
    root = folder(table)
    table.append(rows(1))
    table.overwrite(rows(2))
    vector = in_file(VECTOR, bitmap=b"12345678", offset=1, cardinality=1, prefix="ab")
    put(root, relative_path(VECTOR, prefix="ab"))
    put(root, "day=1/with vector.parquet")
    put(root, "day=1/.with vector.parquet.crc")
    put(root, "_change_data/change.parquet")
    wire = {"storageType": "u", "pathOrInlineDv": vector.path_or_inline_dv, "offset": 1,
            "sizeInBytes": 8, "cardinality": 1}  # fmt: skip
    stats = json.dumps({"numRecords": 3})
    table.commit([add("day=1/with%20vector.parquet", deletionVector=wire, stats=stats)])
    table.commit(
        [
            {"remove": {"path": "day=1/with%20vector.parquet", "deletionTimestamp": 1,
                        "dataChange": True, "deletionVector": wire}},
            {"cdc": {"path": "_change_data/change.parquet", "partitionValues": {}, "size": 5,
                     "dataChange": False}},
        ]
    )  # fmt: skip
    while table.version < 10:
        table.append(rows(3))
    lake.mirror.run(once=True)
    names = files_below(root)
    assert any("_sidecars/" in name for name in names), names
    assert any(name.endswith("_last_checkpoint") for name in names)
    return table


def test_all_of_it_goes(lake, full, data_files):
    root = folder(full)
    known = len([n for n in files_below(root) if n.endswith((".parquet", ".bin"))]) - len(
        list((root / "_delta_log").rglob("*.parquet"))
    )
    report = lake.drop_table("sales.full", purge=True)
    assert files_below(root) == []
    assert (report.files, report.kept, report.kept_because) == (known, (), None)
    assert report.log_files >= 12
    assert lake.dropped() == []
    assert lake.store.history(full.table_id) == []
    assert lake.create_table("sales.full", ORDERS).location == full.location


def test_what_is_not_its_own_stays_and_is_told(lake, full, tmp_path):
    root = folder(full)
    outside = put(tmp_path, "elsewhere/precious.parquet")
    linked = put(tmp_path, "elsewhere/day=2/linked.parquet")
    (root / "day=2").symlink_to(linked.parent, target_is_directory=True)
    full.allow([outside.parent.as_uri()])
    full.commit([add(outside.as_uri()), add("day=2/linked.parquet")])
    foreign = [
        "_delta_log/notes.txt",
        "_delta_log/_deltasql_aside/00000000000000000001.json",
        "day=1/not committed.parquet",
        "photos/cat.jpg",
    ]
    for name in foreign:
        put(root, name)
    (root / "photos" / "dog.jpg").symlink_to(root / "nowhere.jpg")
    foreign += ["day=2", "photos/dog.jpg"]
    report = lake.drop_table("sales.full", purge=True)
    assert files_below(root) == sorted(report.kept) == sorted(foreign)
    assert (report.kept_count, report.elsewhere) == (len(foreign), 1)
    assert outside.exists()
    assert linked.exists()
    again = lake.create_table("sales.full", ORDERS)
    assert again.location != full.location, "what stayed is not built upon"


def test_a_dropped_table_is_listed_and_purged_later(lake, orders, rows, data_files):
    orders.append(rows(1))
    lake.drop_table("sales.orders")
    (found,) = lake.dropped()
    assert (found.name, found.table_id, found.location) == (
        "sales.orders",
        orders.table_id,
        orders.location,
    )
    assert not found.is_purging
    assert abs(found.dropped_at.timestamp() * 1000 - lake.store.clock_ms()) < 60_000
    assert len(data_files()) == 1
    assert lake.purge("sales.orders").files == 1
    assert data_files() == []
    assert lake.dropped() == []
    with pytest.raises(deltasql.TableNotFoundError):
        lake.purge("sales.orders")


def test_a_live_table_is_not_purged(lake, orders, rows, ids):
    orders.append(rows(1))
    for name in ("sales.orders", orders.table_id):
        with pytest.raises(deltasql.TableNotFoundError):
            lake.purge(name)
    assert ids(orders) == [1]


def test_of_two_with_one_name_the_id_tells(lake, rows, ids):
    tables = []
    for number in range(2):
        tables.append(lake.create_table("t", ORDERS))
        tables[-1].append(rows(number))
        lake.drop_table("t")
    kept = lake.create_table("t", ORDERS)
    kept.append(rows(7))
    with pytest.raises(deltasql.ValidationError, match="2 dropped tables"):
        lake.purge("t")
    assert lake.purge(tables[0].table_id).files == 1
    assert [found.table_id for found in lake.dropped()] == [tables[1].table_id]
    assert lake.purge("t").files == 1
    assert ids(kept) == [7]


@pytest.mark.parametrize("failing", range(4))
def test_a_purge_that_failed_goes_on(lake, full, monkeypatch, failing):
    root = folder(full)
    lake.drop_table("sales.full")
    delete, calls = LocalStore.delete, []

    def fail(self, paths):
        calls.append(1)
        if len(calls) > failing:
            raise deltasql.StoreError("the disk is gone")
        delete(self, paths)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete", fail)
        with pytest.raises(deltasql.StoreError, match="disk"):
            lake.purge("sales.full")
    (found,) = lake.dropped()
    assert found.is_purging
    with pytest.raises(deltasql.TableError):  # nor is it there any more, in the end
        lake.adopt(full.location, "again")
    with pytest.raises(deltasql.LocationTakenError, match="full"):
        lake.create_table("u", ORDERS, location=full.location)
    lake.purge("sales.full")
    assert files_below(root) == []
    assert lake.dropped() == []


def test_a_killed_purge_goes_on(sqlite_url, tmp_path, rows):
    lake = deltasql.connect(sqlite_url, location=str(tmp_path / "lake"))
    table = lake.create_table("t", ORDERS)
    for number in range(3):
        table.append(rows(number))
    script = """
        import os, sys, deltasql
        from deltasql.objectstore.local import LocalStore
        delete = LocalStore.delete
        def die(self, paths):
            delete(self, list(paths)[:2])
            os._exit(9)
        LocalStore.delete = die
        deltasql.connect(sys.argv[1], location=sys.argv[2]).drop_table("t", purge=True)
    """
    arguments = [sys.executable, "-c", textwrap.dedent(script), sqlite_url, str(tmp_path / "lake")]
    assert subprocess.run(arguments, check=False).returncode == 9
    left = files_below(tmp_path / "lake" / "t")
    assert len([name for name in left if name.endswith(".parquet")]) == 1
    (found,) = lake.dropped()
    assert found.is_purging
    with lake.store.locked([]) as log:  # as if the dead one's leases had run out
        log.execute("UPDATE dl_mirror_leases SET expires_at = '2000-01-01 00:00:00.000'")
    lake.purge(found.table_id)
    assert files_below(tmp_path / "lake" / "t") == []
    lake.close()


def test_a_released_table_keeps_its_files(lake, orders, rows):
    orders.append(rows(1))
    orders.release()
    before = files_below(folder(orders))
    report = lake.drop_table("sales.orders", purge=True)
    assert "released" in report.kept_because
    assert files_below(folder(orders)) == before
    assert lake.dropped() == []


def test_a_table_that_others_write_is_not_purged(lake, orders, rows):
    orders.append(rows(1))
    put(folder(orders), "_delta_log/00000000000000000002.json")
    lake.drop_table("sales.orders")
    before = files_below(folder(orders))
    with pytest.raises(deltasql.MirrorError, match="does not know"):
        lake.purge("sales.orders")
    assert files_below(folder(orders)) == before


def test_two_tables_that_were_let_into_one_place(lake, orders, rows, ids):
    """So it could be before places were kept: neither takes the other's files."""
    orders.append(rows(1))
    other = lake.create_table("other", ORDERS)
    with lake.store.locked([]) as log:
        log.execute(
            "UPDATE dl_tables SET location = (SELECT location FROM dl_tables"
            f" WHERE table_id = {orders.table_id:d}) WHERE table_id = {other.table_id:d}"
        )
        log.execute("DELETE FROM dl_places")
    report = lake.drop_table("other", purge=True)
    assert "sales.orders" in report.kept_because
    assert ids(orders) == [1]
    assert orders.mirror.validate().ok


def test_a_table_within_another_that_is_purged_stays(lake, orders, rows, ids, tmp_path):
    """So it was by default before places were kept."""
    inner = lake.create_table("inner", ORDERS, location=str(tmp_path / "out"))
    inner.append(rows(5))
    into = folder(orders) / "inner"
    (tmp_path / "out").rename(into)
    with lake.store.locked([]) as log:
        log.execute(f"UPDATE dl_tables SET location = '{into}' WHERE table_id = {inner.table_id:d}")
        log.execute("DELETE FROM dl_places")
    orders.append(rows(1))
    # A path of the outer table's log that leads into the inner one is not its own to delete.
    (name,) = [path.name for path in into.glob("*.parquet")]
    orders.commit([add(f"inner/{name}", partitionValues={"day": "x"})])
    report = lake.drop_table("sales.orders", purge=True)
    assert (report.files, report.kept) == (1, ())
    assert ids(lake.table("inner")) == [5]
    assert lake.table("inner").mirror.validate().ok


# --- logs that are not the table's ----------------------------------------------------------


@pytest.fixture
def small(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        yield lake


@pytest.fixture
def stock_ids():
    def read(place):
        return sorted(DeltaTable(str(place)).to_pyarrow_table().column("id").to_pylist())

    return read


def replace_all(place, rows):
    shutil.rmtree(place)
    write_deltalake(str(place), rows)


def point_elsewhere(place, rows):
    place.rename(place.with_name("ours"))
    other = place.with_name("other")
    write_deltalake(str(other), rows)
    place.symlink_to(other)


def point_log_elsewhere(place, rows):
    shutil.rmtree(place)
    write_deltalake(str(place), rows)
    (place / "_delta_log").rename(place.with_name("log"))
    (place / "_delta_log").symlink_to(place.with_name("log"))


@pytest.mark.parametrize("change", [replace_all, point_elsewhere, point_log_elsewhere])
def test_a_log_of_others_stays(small, tmp_path, rows, stock_ids, change):
    """Its versions have the numbers of ours, and not our bytes."""
    table = small.create_table("t", ORDERS, location=str(tmp_path / "t"))
    table.append(rows(1))
    table.append(rows(2))
    small.drop_table("t")
    change(tmp_path / "t", rows(100))
    before = files_below(tmp_path)
    report = small.purge("t")
    assert "log" in report.kept_because
    assert (report.files, report.log_files) == (0, 0)
    assert files_below(tmp_path) == before
    assert stock_ids(tmp_path / "t") == [100]
    assert small.dropped() == []
    if change is point_log_elsewhere:
        with pytest.raises(StoreError, match="not followed"):
            small.adopt(str(tmp_path / "t"), "theirs")
    else:
        assert small.adopt(str(tmp_path / "t"), "theirs").version >= 0


def test_files_that_others_read_on_stay(small, tmp_path, rows):
    """They went on from our version 1, and still read the file of it."""
    table = small.create_table("t", ORDERS)
    table.append(rows(1))
    table.mirror.pause()
    table.append(rows(2))
    small.drop_table("t")
    root = tmp_path / "lake" / "t"
    (root / "_delta_log" / "00000000000000000002.json").write_text('{"commitInfo":{}}\n')
    before = files_below(root)
    assert "its version 2 differs" in small.purge("t").kept_because
    assert files_below(root) == before


def test_a_newer_table_that_the_restored_database_does_not_know_stays(
    small, sqlite_url, tmp_path, rows, stock_ids
):
    table = small.create_table("t", ORDERS)
    table.append(rows(1))
    table.append(rows(2))
    small.drop_table("t")
    restored = _restored(small, tmp_path)
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        lake.purge("t")
        assert lake.create_table("t", ORDERS).location == table.location
        lake.table("t").append(rows(9))
    with deltasql.connect(restored, location=str(tmp_path / "lake")) as lake:
        assert "a different one" in lake.purge("t").kept_because
    assert stock_ids(tmp_path / "lake" / "t") == [9]


def _restored(lake, tmp_path) -> str:
    lake.close()
    shutil.copy(tmp_path / "lake.db", tmp_path / "restored.db")
    return f"sqlite:///{tmp_path / 'restored.db'}"


@pytest.mark.parametrize("way_out", ["take back", "adopt"])
def test_a_purge_that_is_refused_changes_nothing(
    small, sqlite_url, tmp_path, rows, ids, way_out
):  # fmt: skip
    small.create_table("t", ORDERS).append(rows(1))
    restored = _restored(small, tmp_path)
    with deltasql.connect(sqlite_url) as lake:
        lake.table("t").append(rows(2))
    with deltasql.connect(restored) as lake:
        with pytest.raises(deltasql.MirrorError, match="does not know"):
            lake.drop_table("t", purge=True)
        assert [table.name for table in lake.tables()] == ["t"]
        if way_out == "take back":
            lake.table("t").mirror.repair(take_back=True)
        else:
            lake.drop_table("t")
            with pytest.raises(deltasql.MirrorError, match="does not know"):
                lake.purge("t")
            assert not lake.dropped()[0].is_purging
            lake.adopt(str(tmp_path / "lake" / "t"), "t")
        assert ids(lake.table("t")) == [1, 2]


def test_a_purge_that_had_begun_before_others_went_on_ends(small, tmp_path, rows, ids):
    table = small.create_table("t", ORDERS)
    table.append(rows(1))
    small.drop_table("t")
    assert small.store.begin_purge(table.table_id) is not None
    info = {"timestamp": 1, "inCommitTimestamp": 2**42, "operation": "WRITE"}
    theirs = tmp_path / "lake" / "t" / "_delta_log" / "00000000000000000002.json"
    theirs.write_text(json.dumps({"commitInfo": info}) + "\n")
    before = files_below(tmp_path / "lake")
    assert "version 2" in small.purge("t").kept_because
    assert files_below(tmp_path / "lake") == before
    assert ids(small.adopt(str(tmp_path / "lake" / "t"), "t")) == [1]


def test_a_purged_table_is_not_found_by_recovery(small, rows):
    small.create_table("kept", ORDERS)
    small.create_table("t", ORDERS).append(rows(1))
    small.drop_table("t", purge=True)
    assert [(found.table, found.status) for found in small.recover().tables] == [
        ("kept", "present")
    ]
