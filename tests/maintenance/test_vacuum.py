"""Vacuum deletes what no version within the retention needs, and nothing else."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

import deltasql
from deltasql.errors import MirrorError, ValidationError
from deltasql.objectstore.local import LocalStore
from deltasql.spark.cut import Cut
from deltasql.store.upkeep.interface import STREAM
from tests.maintenance.tables import (
    AT_ONCE,
    SCHEMA,
    churned,
    files,
    folder,
    ids,
    live,
    make_old,
    rows,
)

ORPHAN = "part-00000-0b0b6b1e-3a52-4d1a-9c3c-1f0f3a8f7e11-c000.snappy.parquet"
NO_MARGIN = {**AT_ONCE, "clock_margin": timedelta(0)}


def test_dry_run_is_the_default_and_deletes_nothing(lake: deltasql.Lake):
    table = churned(lake)
    before = files(table)
    report = table.vacuum(**AT_ONCE)
    assert (report.dry_run, report.dead, report.orphans) == (True, 2, 0)
    assert set(report.files) == before - live(table)
    assert report.bytes > 0
    assert files(table) == before


def test_dead_files_go_and_the_table_stays(any_lake: deltasql.Lake):
    lake = any_lake
    table = churned(lake)
    report = table.vacuum(**AT_ONCE, dry_run=False)
    assert (report.dead, report.orphans, report.count) == (2, 0, 2)
    assert files(table) == live(table)
    assert ids(table.scan().to_arrow()) == [2]
    assert table.vacuum(**AT_ONCE, dry_run=False).count == 0, "they are gone already"
    assert lake.check().ok


def test_who_reads_a_version_without_its_files_is_told_of_vacuum(lake: deltasql.Lake):
    table = churned(lake)
    table.vacuum(**AT_ONCE, dry_run=False)
    with pytest.raises(FileNotFoundError, match="version 1 can't be read") as caught:
        table.snapshot(1).scan().to_arrow()
    assert "vacuum deletes" in caught.value.cause
    assert caught.value.path is not None


def test_dead_files_are_found_without_a_listing(
    lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    """Of the table, that is: what is in the log after SQL's newest version is looked at."""
    table = churned(lake)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a listing")

    listed = LocalStore.list

    def after_the_newest(store: LocalStore, prefix: str = "", *, start_after: str | None = None):
        """What follows in the log, of which there is nothing, and no file of the table."""
        assert prefix == "_delta_log", f"a listing of {prefix!r}"
        assert start_after == f"_delta_log/{table.version:020}.json"
        found = list(listed(store, prefix, start_after=start_after))
        assert not [item for item in found if item.path.endswith(".json")]
        return iter(found)

    monkeypatch.setattr(LocalStore, "list", after_the_newest)
    monkeypatch.setattr(LocalStore, "folders", refuse)
    assert table.vacuum(**AT_ONCE, find_orphans=False).dead == 2
    assert table.vacuum(**AT_ONCE, find_orphans=False, dry_run=False).dead == 2


def test_no_retention_is_not_a_matter_of_clocks(any_lake: deltasql.Lake):
    """The time of a version is past that of the one before, which may be ahead of the clock."""
    lake = any_lake
    table = churned(lake)
    with lake.transaction() as transaction:
        transaction.sql_execute("UPDATE dl_table_heads SET last_ict = last_ict + 60000")
    table.overwrite(rows(7))
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 3
    assert files(table) == live(table)


def test_what_is_within_the_retention_stays(lake: deltasql.Lake):
    table = churned(lake)
    before = files(table)
    assert table.vacuum(dry_run=False).count == 0
    assert table.vacuum("1 hour", dry_run=False, enforce_retention_duration=False).count == 0
    assert files(table) == before
    for version in range(1, 4):
        assert table.snapshot(version).scan().to_arrow().num_rows == 1


def test_a_short_retention_needs_a_word(lake: deltasql.Lake):
    table = churned(lake)
    with pytest.raises(ValidationError, match="deletedFileRetentionDuration") as caught:
        table.vacuum(retention="6 days")
    assert "enforce_retention_duration" in caught.value.remedy
    with pytest.raises(ValidationError, match="not a duration"):
        table.vacuum(retention="soon")
    assert table.vacuum(retention=timedelta(days=8)).count == 0
    for week in (24 * 7, "7 days", "7d", "168h"):
        assert table.vacuum(retention=week).retention == timedelta(days=7)


def test_the_tables_own_retention_is_the_default(lake: deltasql.Lake):
    properties = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    table = lake.create_table("a.t", SCHEMA, properties=properties)
    table.append(rows(1))
    table.overwrite(rows(2))
    assert table.vacuum().dead == 1


def test_who_deleted_what_is_a_query(lake: deltasql.Lake):
    table = churned(lake)
    gone = files(table) - live(table)
    report = table.vacuum(**AT_ONCE, dry_run=False)
    with lake.store.locked([]) as log:
        found = log.execute(
            "SELECT f.path, f.kind, v.committer, v.vacuum_id FROM dl_vacuum_files AS f"
            " JOIN dl_vacuums AS v ON v.vacuum_id = f.vacuum_id"
            " WHERE f.deleted_at IS NOT NULL AND v.ended_at IS NOT NULL"
        )
    assert {path for path, *_ in found} == gone
    assert {tuple(rest) for _, *rest in found} == {("DEAD", lake.committer, report.vacuum_id)}


def test_a_pin_keeps_its_version(any_lake: deltasql.Lake):
    lake = any_lake
    table = churned(lake)
    with table.pin(version=2) as held:
        (pin,) = lake.pins()
        assert (pin.table, pin.version) == ("a.t", 2)
        assert table.vacuum(**AT_ONCE).dead == 1
        assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1
        assert ids(held.scan().to_arrow()) == [1]
    assert lake.pins() == []
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1


def test_a_stream_keeps_its_version_and_all_later_ones(lake: deltasql.Lake):
    table = churned(lake, times=5)
    with lake.presence.held(table.table_id, 2, STREAM):
        assert table.vacuum(**AT_ONCE).dead == 1
        assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1
        for version in range(2, 6):
            assert ids(table.snapshot(version=version).scan().to_arrow()) == [version - 1]
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 3


def test_a_long_read_holds_its_version(lake: deltasql.Lake):
    table = churned(lake)
    batches = table.snapshot(version=2).scan().to_batches()
    first = next(batches)
    lake.presence.beat()
    (pin,) = lake.pins()
    assert pin.version == 2
    table.vacuum(**AT_ONCE, dry_run=False)
    assert ids(table.snapshot(version=2).scan().to_arrow()) == [1] == first.column("id").to_pylist()
    assert list(batches) == []
    assert lake.pins() == []


def test_a_cut_holds_what_was_read_in_it(lake_url: str, lake: deltasql.Lake, tmp_path: Path):
    """`db.snapshot()`, as soon as the table is first read there."""
    table, cut = churned(lake), Cut(lake)
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as other:
        with cut.taken():
            assert cut.version_of(table) == 3
            table.overwrite(rows(9))
            lake.store.beat(lake.presence.session_id or "", writing=None)
            assert other.table("a.t").vacuum(**AT_ONCE, dry_run=False).dead == 2
            assert ids(table.snapshot(version=cut.version_of(table)).scan().to_arrow()) == [2]
        assert lake.pins() == []
        assert other.table("a.t").vacuum(**AT_ONCE, dry_run=False).dead == 1


def test_orphans_go_when_they_are_old(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    orphan = folder(table) / ORPHAN
    orphan.write_bytes(b"rows of a job that died")
    make_old(orphan, hours=1)
    assert table.vacuum(**AT_ONCE, dry_run=False).orphans == 0, "the clocks may be apart"
    assert table.vacuum("2 hours", enforce_retention_duration=False).orphans == 0
    report = table.vacuum(**NO_MARGIN, dry_run=False)
    assert (report.orphans, report.files) == (1, (ORPHAN,))
    assert files(table) == live(table)


def test_orphans_lie_where_delta_writes(quick_lake: deltasql.Lake):
    """People keep copies of files, and plain Parquet, beside those of a table."""
    table = quick_lake.create_table("a.t", SCHEMA, partition_by=["day"])
    table.append(rows(1))
    changes = "cdc" + ORPHAN.removeprefix("part")
    ours = {"day=b/", "day=b/c=d/", "_change_data/day=b/", "Zq/", "Zq/day=b/", ""}
    orphans = {folder + (changes if "_change" in folder else ORPHAN) for folder in ours}
    kept = {
        folder + ORPHAN
        for folder in ("backup/", "backup/day=b/", "day=b/old/", "2025/", "v 1/", "Zqq/", "ä1/")
    }
    for name in orphans | kept:
        path = folder(table) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")
        make_old(path, hours=24 * 30)
    report = table.vacuum(dry_run=False)
    assert set(report.files) == orphans
    assert (report.orphans, report.foreign) == (len(orphans), len(kept))
    assert files(table) == live(table) | kept


def test_no_margin_makes_files_of_writes_under_way_orphans(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    with pytest.raises(ValidationError, match="clock_margin can't be"):
        table.vacuum(**AT_ONCE, dry_run=False, clock_margin=timedelta(hours=-1))


def test_clocks_may_be_an_hour_apart(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    orphan = folder(table) / ORPHAN
    folder(table).mkdir(exist_ok=True)
    orphan.write_bytes(b"just written, by a clock that is an hour behind")
    make_old(orphan, hours=1)
    table.append(rows(1))
    table.vacuum(**AT_ONCE, dry_run=False)
    assert orphan.exists()


def test_what_is_not_deltas_is_nobodys_to_delete(lake: deltasql.Lake, tmp_path: Path):
    table = lake.create_table("a.t", SCHEMA, partition_by=["day"])
    table.append(rows(1))
    root = folder(table)
    outside = tmp_path / ORPHAN
    outside.write_bytes(b"outside")
    strange = [
        "README.md", "lookup.parquet", "_SUCCESS", ".hidden/" + ORPHAN, "_tmp/" + ORPHAN,
        "other/_delta_log/00000000000000000000.json", "other/" + ORPHAN, "other/deep/" + ORPHAN,
        "a%2E%2E/%2e%2e/lookup.parquet", "part-00000-no-uuid.parquet", "..part.parquet",
    ]  # fmt: skip
    for name in strange:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"not ours")
        make_old(root / name, hours=10_000)
    (root / "linked").symlink_to(tmp_path, target_is_directory=True)
    make_old(outside, hours=10_000)
    before = files(table)
    report = table.vacuum(**NO_MARGIN, dry_run=False)
    assert report.count == 0
    assert report.foreign
    assert files(table) == before
    assert outside.exists()


def test_odd_partition_folders_are_listed_right(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA, partition_by=["day"])
    for day in ("a b", "ü/ö", "100%", "x=y", "..", None, "_d", "a:b"):
        table.append(rows(1, day=day))  # type: ignore[arg-type]
    for path in folder(table).rglob("*.parquet"):
        make_old(path, hours=10_000)
    assert table.vacuum(**NO_MARGIN, dry_run=False).count == 0
    assert table.scan().to_arrow().num_rows == 8
    table.overwrite(rows(2))
    assert table.vacuum(**NO_MARGIN, dry_run=False).dead == 8
    assert files(table) == live(table)


def test_files_that_another_table_names_stay(lake: deltasql.Lake):
    table = churned(lake)
    dead = sorted(files(table) - live(table))
    clone = lake.create_table("a.clone", SCHEMA)
    add = next(iter(table.snapshot(version=1).adds()))
    clone.commit([{"add": {
        "path": f"{table.objects.location}/{add.path}", "size": add.size,
        "modificationTime": 1, "partitionValues": {}, "dataChange": True,
    }}])  # fmt: skip
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == len(dead) - 1
    assert ids(clone.scan().to_arrow()) == [0]


def test_a_released_table_is_refused(lake: deltasql.Lake):
    table = churned(lake)
    table.release()
    with pytest.raises(ValidationError, match="can't be vacuumed"):
        table.vacuum(**AT_ONCE, dry_run=False)
    assert lake.vacuum(**AT_ONCE) == []


def test_a_log_that_is_ahead_is_refused(lake: deltasql.Lake):
    table = churned(lake)
    (folder(table) / "_delta_log" / f"{table.version + 1:020}.json").write_text("{}")
    with pytest.raises(MirrorError, match="does not know"):
        table.vacuum(**AT_ONCE, dry_run=False)


def test_a_copy_of_the_database_deletes_nothing_once_it_went_its_own_way(tmp_path: Path):
    """Its files and the other's lie at one place; both have committed since, the copy more."""
    settings, location = {"mirror.mode": "off"}, str(tmp_path / "lake")
    url, copy_url = (f"sqlite:///{tmp_path / name}.db" for name in ("lake", "copy"))
    with deltasql.connect(url, location=location) as lake:
        table = churned(lake)
        lake.mirror.run(once=True)
    shutil.copy(tmp_path / "lake.db", tmp_path / "copy.db")
    with (
        deltasql.connect(url, location=location) as lake,
        deltasql.connect(copy_url, location=location, settings=settings) as copy,
    ):
        table, copied = lake.table("a.t"), copy.table("a.t")
        table.append(rows(50, 51))
        assert table.mirror.status().lag_versions == 0
        for _ in range(3):
            copied.append(rows(60, 61))
        before = ids(table.scan().to_arrow())
        for path in files(table):
            make_old(folder(table) / path, hours=1)
        for dry_run in (True, False):
            with pytest.raises(MirrorError, match="not the table's"):
                copied.vacuum(**NO_MARGIN, dry_run=dry_run)
        assert ids(table.scan().to_arrow()) == before


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_files_of_a_foreign_table_are_not_orphans(
    quick_lake: deltasql.Lake, tmp_path: Path, is_mirrored: bool
):
    """Somebody who writes SQL may put a table anywhere, and has upkeep delete what is there."""
    table = quick_lake.create_table("a.t", SCHEMA)
    if is_mirrored:
        quick_lake.mirror.run(once=True)
    shutil.rmtree(folder(table), ignore_errors=True)
    write_deltalake(str(folder(table)), rows(0, 1))
    before = files(table)
    for path in before:
        make_old(folder(table) / path, hours=1)
    with pytest.raises(MirrorError, match="not the table's"):
        table.vacuum(**NO_MARGIN, dry_run=False)
    assert files(table) == before


def test_the_whole_lake(lake: deltasql.Lake):
    tables = [churned(lake, name) for name in ("a.s", "a.t")]
    assert [report.dead for report in lake.vacuum(**AT_ONCE)] == [2, 2]
    told: list[tuple[str, int]] = []
    reports = lake.vacuum(**AT_ONCE, dry_run=False, progress=lambda *at: told.append(at))
    assert [report.table for report in reports] == ["a.s", "a.t"]
    assert told == [("a.s", 2), ("a.t", 2)]
    for table in tables:
        assert files(table) == live(table)


def test_a_dropped_table_can_be_purged_after_a_vacuum(lake: deltasql.Lake):
    table = churned(lake)
    table.vacuum(**AT_ONCE, dry_run=False)
    lake.drop_table("a.t", purge=True)
    with lake.store.locked([]) as log:
        assert log.execute("SELECT count(*) FROM dl_vacuum_files")[0][0] == 0
    assert not folder(table).exists() or files(table) == set()
