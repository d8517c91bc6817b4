"""Optimize: fewer files, the same rows, for us and for stock readers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import CommitError, ValidationError
from deltasql.lake.table import Table
from deltasql.log.removal import removes, rewritten
from deltasql.maintenance.optimizing.planning import Wish
from deltasql.spec.actions import AddFile, CommitInfo, RemoveFile
from deltasql.spec.deletion_vectors import inline
from deltasql.store.optimizing.interface import PlannedBin
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import AT_ONCE, SCHEMA, files, folder, ids, live, rows
from tests.maintenance.vectors import VECTORS, delete_marked


def small_files(lake: deltasql.Lake, name: str = "a.t", *, count: int = 5, **options) -> Table:
    table = lake.create_table(name, SCHEMA, **options)
    for number in range(count):
        table.append(rows(2 * number, 2 * number + 1, day="ab"[number % 2]))
    return table


def test_small_files_become_one(any_lake: deltasql.Lake):
    lake = any_lake
    table = small_files(lake)
    before = seen_by_all(lake, table)
    report = table.optimize()
    assert (report.version, report.versions, report.skipped) == (6, (6,), 0)
    assert report.metrics["numRemovedFiles"] == 5
    assert report.metrics["numAddedFiles"] == 1 == len(live(table))
    assert report.metrics["numAddedBytes"] == report.metrics["maxFileSize"] > 0
    assert seen_by_all(lake, table) == before
    entry = table.history(1)[0]
    assert entry.operation == "OPTIMIZE"
    assert entry.operation_params == {
        "predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false",
    }  # fmt: skip
    actions = table.changes(6)[0].actions
    (info,) = (item for item in actions if isinstance(item, CommitInfo))
    assert info.extra["operationMetrics"]["numRemovedFiles"] == "5"
    moved = [item for item in actions if isinstance(item, AddFile | RemoveFile)]
    assert len(moved) == 6
    assert not any(item.data_change for item in moved)
    assert ids(table.snapshot(version=3).scan().to_arrow()) == list(range(6)), "the past stays"
    assert table.optimize().versions == (), "there is nothing left to do"
    assert lake.check().ok


def test_bounds_of_new_files_are_those_of_their_rows(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake)
    table.optimize()
    (add,) = table.snapshot().adds()
    stats = json.loads(add.stats or "")
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (10, 0, 9)
    assert stats["nullCount"] == {"id": 0, "day": 0}


def test_partitions_stay_apart(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, count=6, partition_by=["day"])
    before = seen_by_all(lake, table)
    report = table.optimize(where="day = 'a'")
    assert len(report.versions) == 1
    assert len(live(table)) == 4
    assert table.history(1)[0].operation_params["predicate"] == "[\"day = 'a'\"]"
    report = table.optimize()
    assert len(report.versions) == 1
    assert sorted(add.partition_values["day"] for add in table.snapshot().adds()) == ["a", "b"]
    assert seen_by_all(lake, table) == before
    with pytest.raises(ValidationError, match="partition"):
        table.optimize(where="id = 1")


def test_bins_keep_to_the_target_size(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, count=9)
    size = max(add.size for add in table.snapshot().adds())
    report = table.optimize(target_size=3 * size)
    assert len(report.versions) == 3
    assert len(live(table)) == 3
    assert ids(table.scan().to_arrow()) == list(range(18))
    with pytest.raises(ValidationError, match="target_size"):
        table.optimize(target_size="large")
    assert table.optimize(target_size="1 GB").metrics["numAddedFiles"] == 1


def test_deleted_rows_go(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, count=3, properties=VECTORS)
    delete_marked(table, 1)
    before = seen_by_all(lake, table)
    assert len(before) == 5
    report = table.reorg()
    assert report.metrics["numDeletionVectorsRemoved"] == 1
    assert report.metrics["numRemovedFiles"] == 1, "the others have nothing to lose"
    entry = table.history(1)[0]
    assert (entry.operation, entry.operation_params["applyPurge"]) == ("REORG", "true")
    assert all(add.deletion_vector is None for add in table.snapshot().adds())
    assert seen_by_all(lake, table) == before


def test_a_file_without_a_live_row_goes(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, count=1, properties=VECTORS)
    (add,) = table.snapshot().adds()
    # Nobody should leave it there, but who knows.
    empty = replace(add, deletion_vector=inline([0, 1]))
    gone = removes(rewritten([add]), deletion_timestamp=1)
    table.commit([*gone, empty], "DELETE", read_version=1)
    assert len(live(table)) == 1
    assert table.optimize().metrics["numRemovedFiles"] == 1
    assert live(table) == set()


def test_few_deleted_rows_are_no_reason(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS)
    table.append(rows(*range(100)))
    delete_marked(table, 1, 2)
    size = next(table.snapshot().adds()).size
    assert table.optimize(target_size=size).versions == ()
    assert len(table.optimize(target_size=size, dead_share=0.01).versions) == 1
    assert ids(table.scan().to_arrow()) == [0, *range(3, 100)]


def test_mapped_columns(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, properties={"delta.columnMapping.mode": "name"})
    table.rename_column("day", "date")
    table.append(pa.table({"id": [99], "date": ["z"]}))
    before = seen_by_all(lake, table)
    assert len(table.optimize().versions) == 1
    assert seen_by_all(lake, table) == before


def test_columns_that_came_and_went(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, count=2, properties={"delta.columnMapping.mode": "name"})
    table.add_column("more", "double")
    table.append(rows(50).append_column("more", pa.array([1.5])))
    table.drop_column("day")
    before = seen_by_all(lake, table)
    table.optimize()
    assert seen_by_all(lake, table) == before
    assert len(live(table)) == 1


def test_zorder_bounds_both_columns(quick_lake: deltasql.Lake):
    lake = quick_lake
    schema = pa.schema([("x", pa.int64()), ("y", pa.string()), ("n", pa.int64())])
    table = lake.create_table("a.t", schema)
    for part in range(4):
        x = [number for number in range(64) if number % 4 == part for _ in range(64)]
        y = [f"{number:03d}" for _ in range(16) for number in range(64)]
        table.append(pa.table({"x": x, "y": y, "n": [part] * 1024}, schema=schema))
    before = seen_by_all(lake, table)
    total = sum(add.size for add in table.snapshot().adds())
    report = table.optimize(target_size=total // 4, zorder_by=["x", "y"])
    assert len(report.versions) == 1
    assert table.history(1)[0].operation_params["zOrderBy"] == '["x","y"]'
    assert seen_by_all(lake, table) == before
    count = len(live(table))
    assert count > 2
    for where in ("x = 3", "y = '003'"):
        assert table.snapshot().files(where).num_rows < count, where
    with pytest.raises(ValidationError, match="scalar"):
        table.optimize(zorder_by=["nothing"])


def test_a_clustered_table_is_put_in_order_once(quick_lake: deltasql.Lake):
    lake = quick_lake
    from deltasql.spec.actions import DomainMetadata

    table = lake.create_table("a.t", SCHEMA)
    table.enable_feature("clustering")
    text = json.dumps({"clusteringColumns": [["id"]], "domainName": "delta.clustering"})
    table.commit([DomainMetadata(domain="delta.clustering", configuration=text)], "CLUSTER BY")
    for number in range(3):
        table.append(rows(9 - number, number))
    before = seen_by_all(lake, table)
    report = table.optimize(target_size=500)
    assert table.history(1)[0].operation_params["clusterBy"] == '["id"]'
    found = list(table.snapshot().adds())
    assert {add.clustering_provider for add in found} == {"liquid"}
    assert len({(add.tags or {})["ZCUBE_ID"] for add in found}) == 1
    assert seen_by_all(lake, table) == before
    assert len(report.versions) == 1
    assert table.optimize(target_size=500).versions == (), "the cube is full"
    table.append(rows(77))
    kept = live(table)
    table.optimize(target_size=500)
    assert len(kept & live(table)) == len(kept) - 1, "only what is new"


def test_rows_keep_their_ids(lake: deltasql.Lake):
    table = small_files(
        lake,
        count=3,
        properties={"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"},
    )
    delete_marked(table, 0)
    expected = {}
    for add in table.snapshot().adds():
        found = pq.read_table(folder(table) / add.path).column("id").to_pylist()
        for place, value in enumerate(found):
            expected[value] = (add.base_row_id + place, add.default_row_commit_version)
    for value in set(expected) - set(ids(table.scan().to_arrow())):
        del expected[value]
    table.optimize()
    assert row_ids(table) == expected
    (add,) = table.snapshot().adds()
    assert add.base_row_id is not None
    assert add.base_row_id >= 6, "the file has ids of its own, too"
    table.append(rows(70))
    table.optimize()
    again = row_ids(table)
    assert {key: again[key] for key in expected} == expected, "and twice"
    assert again[70][1] == table.version - 1


def row_ids(table: Table) -> dict[int, tuple[int, int]]:
    properties = table.snapshot().properties
    names = [
        properties["delta.rowTracking.materializedRowIdColumnName"],
        properties["delta.rowTracking.materializedRowCommitVersionColumnName"],
    ]
    (add,) = table.snapshot().adds()
    found = pq.read_table(folder(table) / add.path)
    pairs = zip(*(found.column(name).to_pylist() for name in names), strict=True)
    return dict(zip(found.column("id").to_pylist(), pairs, strict=True))


def test_an_append_meanwhile_is_no_conflict(
    quick_lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch
):
    lake = quick_lake
    table = small_files(lake)
    other = lake.table("a.t")
    beside(monkeypatch, lambda: other.append(rows(100)))
    report = table.optimize()
    assert (report.versions, report.skipped) == ((7,), 0)
    assert ids(table.scan().to_arrow()) == [*range(10), 100]


def test_a_bin_that_lost_a_file_is_done_again(lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    table = small_files(lake)
    other = lake.table("a.t")
    beside(monkeypatch, lambda: other.overwrite(rows(1), where="id <= 1"))
    report = table.optimize()
    assert (len(report.versions), report.skipped) == (1, 0)
    assert ids(table.scan().to_arrow()) == list(range(1, 10))
    table.optimize()
    table.vacuum(**AT_ONCE, dry_run=False)
    assert files(table) == live(table), "what was written in vain is gone"


def beside(monkeypatch: pytest.MonkeyPatch, act) -> None:
    """Do something once, while a bin is written."""
    from deltasql.data import rewriting

    real, todo = rewriting.write_partition, [act]

    def write(*args, **options):
        found = real(*args, **options)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(rewriting, "write_partition", write)


def test_those_who_always_lose_give_up(quick_lake: deltasql.Lake, monkeypatch: pytest.MonkeyPatch):
    lake = quick_lake
    from deltasql.lake.upkeep.optimizing import _Optimized

    table = small_files(lake)

    def lose(_self, _move):
        raise CommitError("somebody was faster")

    monkeypatch.setattr(_Optimized, "commit", lose)
    report = table.optimize()
    assert (report.versions, report.skipped) == ((), 1)
    monkeypatch.undo()
    assert len(table.optimize().versions) == 1


def test_the_queue_is_shared(lake_url: str, lake: deltasql.Lake, tmp_path: Path):
    """Bins that others work on are left to them; those of the dead are taken over."""
    table = small_files(lake, count=8, partition_by=["day"])
    store = lake.store
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as second:
        other = second.table("a.t")
        taken = []

        def take(done: int, planned: int) -> None:
            assert (done, planned) == (1, 2)
            taken.append(other.optimize())

        report = table.optimize(progress=take)
    assert len(report.versions) + len(taken[0].versions) == 2
    assert len(taken[0].versions) == 1, "the second took what the first had planned"
    assert store.claim_bin(table.table_id, "{}", "x") is None
    assert len(live(table)) == 2
    assert ids(table.scan().to_arrow()) == list(range(16))


def test_what_the_dead_had_claimed_is_taken_over(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = small_files(lake, count=8, partition_by=["day"])
    claimed = []

    def die(_done: int, _planned: int) -> None:
        found = lake.store.claim_bin(table.table_id, claimed[0], "somebody dead")
        assert found is not None
        claimed.append(found)

    real = lake.store.queue_bins

    def queue(table_id, plan_id, settings, bins):
        claimed.append(settings)
        return real(table_id, plan_id, settings, bins)

    lake.store.queue_bins = queue
    assert len(table.optimize(progress=die).versions) == 1
    assert table.optimize().versions == (), "its files are somebody else's"
    with lake.transaction() as tx:
        tx.sql_execute("UPDATE dl_optimize_bins SET claimed_until = '2000-01-01 00:00:00.000'")
    assert len(table.optimize().versions) == 1
    assert len(live(table)) == 2
    assert ids(table.scan().to_arrow()) == list(range(16))


def test_what_the_queue_says_is_checked(quick_lake: deltasql.Lake):
    """Any writer may write to it: files of two partitions, one file twice, or no paths at all."""
    lake = quick_lake
    table = small_files(lake, count=4, partition_by=["day"])
    table.append(rows(20, 24, day="c"))
    before = sorted(table.scan().to_arrow().to_pylist(), key=str)
    one, *others = sorted(live(table))
    settings, store = Wish().settings, lake.store
    for number, paths in enumerate([(one, *others), (one, one)]):
        assert store.queue_bins(table.table_id, f"forged{number}", settings, [
            PlannedBin(paths, 1)
        ]) == 1  # fmt: skip
        table.optimize()
        assert sorted(table.scan().to_arrow().to_pylist(), key=str) == before
        store.queue_bins(table.table_id, "swept", settings, [])
    with lake.transaction() as tx:
        for number, text in enumerate(["nope", "[7, [], {}]", "{}", "7", "[" * 900]):
            tx.sql_execute(
                "INSERT INTO dl_optimize_bins VALUES (?, ?, ?, ?, 1, '2000-01-01 00:00:00.000',"
                " '2999-01-01 00:00:00.000', NULL, NULL)",
                [f"odd{number}", table.table_id, settings, text],
            )
    table.append(rows(30, 31, day="c"))
    table.optimize()
    assert [len(live(table)), store.claim_bin(table.table_id, settings, "x")] == [3, None]
    assert lake.check().ok


def test_workers_do_it(sqlite_url: str, tmp_path: Path):
    settings = {"maintenance.optimize_files": 5}
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake"), settings=settings) as lake:
        table, few = small_files(lake, count=5), small_files(lake, "a.few", count=4)
        (job,) = (job for job in lake.maintenance.run() if job.work == "OPTIMIZE")
        assert (job.table, job.reason, job.state) == ("a.t", "5 files", "DONE")
        assert job.outcome == "5 files became 1"
        assert (len(live(table)), len(live(few))) == (1, 4)
        assert "OPTIMIZE" not in {job.work for job in lake.maintenance.run()}
