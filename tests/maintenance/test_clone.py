"""Shallow clones: tables of their own, whose source's files stay as long as they are needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

import deltasql
from deltasql.data.reading.placed import PlacedRows
from deltasql.errors import TableExistsError, ValidationError
from deltasql.spec.actions import DomainMetadata
from deltasql.spec.properties import CLUSTERING_DOMAIN
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import AT_ONCE, SCHEMA, churned, files, folder, ids, live, rows
from tests.maintenance.test_vacuum_kinds import VECTORS, mark, put_vectors

# It looks for file:///… below the table.
NO_ABSOLUTE = "DuckDB"


def test_a_clone_goes_its_own_way(any_lake: deltasql.Lake):
    lake = any_lake
    table = churned(lake)
    clone = table.clone("a.clone", version=1)
    assert ids(clone.scan().to_arrow()) == [0]
    assert files(clone) == set()
    entry = clone.history()[-1]
    assert (entry.operation, entry.operation_params["sourceVersion"]) == ("CLONE", "1")
    clone.append(rows(50))
    table.append(rows(60))
    assert (ids(clone.scan().to_arrow()), ids(table.scan().to_arrow())) == ([0, 50], [2, 60])
    assert [row["id"] for row in seen_by_all(lake, clone, but=NO_ABSOLUTE)] == [0, 50]
    with pytest.raises(TableExistsError):
        table.clone("a.clone")


def test_vacuum_and_purge_spare_what_a_clone_needs(lake: deltasql.Lake):
    table = churned(lake)
    clone = table.clone("a.clone", version=1)
    assert table.vacuum(**AT_ONCE).dead == 1
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1
    assert ids(clone.scan().to_arrow()) == [0]
    clone.overwrite(rows(5))
    assert clone.vacuum(**AT_ONCE, dry_run=False).count == 0, "the file is not the clone's"
    assert ids(clone.snapshot(version=0).scan().to_arrow()) == [0]
    lake.drop_table("a.t")
    with pytest.raises(ValidationError, match="other tables name 1"):
        lake.purge("a.t")
    assert ids(clone.snapshot(version=0).scan().to_arrow()) == [0]
    lake.drop_table("a.clone", purge=True)
    lake.purge("a.t")
    assert not folder(table).exists() or files(table) == set()


def test_no_two_rows_have_one_id(lake: deltasql.Lake):
    """Ids of rows that were moved are in the source's files, and count there alone."""
    table = lake.create_table("a.t", SCHEMA, properties={"delta.enableRowTracking": "true"})
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    table.update("id = 1", {"day": "'moved'"})
    source = _row_ids(table)
    clone = table.clone("a.clone")
    before = _row_ids(clone)
    assert sorted(before.values()) == list(range(6))
    clone.append(rows(7, 8))
    clone.update("id = 2", {"day": "'moved'"})
    after = _row_ids(clone)
    assert before.items() <= after.items()
    assert len(set(after.values())) == 8
    assert _row_ids(table) == source
    assert lake.check("a.clone").tables["a.clone"].ok


def _row_ids(table: deltasql.Table) -> dict[int, int]:
    snapshot = table.snapshot()
    reader = PlacedRows(table.objects, snapshot.state)
    found = {}
    for part in reader.read(list(snapshot.adds()), ids=True):
        # After the table's own columns.
        found.update(zip(part["id"].to_pylist(), part.column(2).to_pylist(), strict=True))
    return found


def test_vectors_come_along(lake: deltasql.Lake):
    table = lake.create_table("a b.t", SCHEMA, properties=VECTORS)
    table.append(rows(1, 2, 3))
    (path,) = live(table)
    _, (vector,) = put_vectors(table, [0])
    mark(table, path, None, vector)
    clone = table.clone("a.clone")
    table.overwrite(rows(9))
    assert table.vacuum(**AT_ONCE, dry_run=False).count == 0
    assert ids(clone.scan().to_arrow()) == [2, 3]
    assert [row["id"] for row in seen_by_all(lake, clone, but=NO_ABSOLUTE)] == [2, 3]
    second = clone.clone("a.second")
    assert ids(second.scan().to_arrow()) == [2, 3]


def test_a_clone_of_a_clustered_table_is_clustered(quick_lake: deltasql.Lake):
    table = quick_lake.create_table("a.t", SCHEMA)
    table.enable_feature("clustering")
    text = json.dumps({"clusteringColumns": [["id"]], "domainName": CLUSTERING_DOMAIN})
    table.commit([DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=text)], "CLUSTER BY")
    table.append(rows(2, 1))
    clone = table.clone("a.clone")
    clone.append(rows(3))
    clone.optimize()
    assert clone.history(1)[0].operation_params["clusterBy"] == '["id"]'
    assert [row["id"] for row in seen_by_all(quick_lake, clone, but=NO_ABSOLUTE)] == [1, 2, 3]


def test_missing_files_stop_it(lake: deltasql.Lake, tmp_path: Path):
    table = churned(lake)
    table.vacuum(**AT_ONCE, dry_run=False)
    with pytest.raises(ValidationError, match="gone"):
        table.clone("a.clone", version=1, location=tmp_path / "elsewhere")
    assert [item.name for item in lake.tables()] == ["a.t"]
    clone = table.clone("a.clone", location=tmp_path / "elsewhere")
    assert ids(clone.scan().to_arrow()) == [2]


def test_what_delta_rs_reads_without_its_kernel(sqlite_url: str, tmp_path: Path):
    """docs/readers.md tells of it: a release that fixes it shall be noticed."""
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = churned(lake)
        clone = table.clone("a.clone")
        with pytest.raises(FileNotFoundError):
            DeltaTable(clone.location).to_pyarrow_table()
        mapped = lake.create_table("a.m", SCHEMA, properties={"delta.columnMapping.mode": "name"})
        mapped.append(rows(1))
        found = DeltaTable(mapped.location).to_pyarrow_table()
        assert found.column("id").to_pylist() == [None]


def test_a_clone_lets_go_of_what_it_has_forgotten(any_lake: deltasql.Lake):
    """Its source's storage would grow for ever otherwise."""
    lake = any_lake
    table = lake.create_table(
        "a.t",
        SCHEMA,
        properties={
            "delta.checkpointInterval": "2",
            "delta.deletedFileRetentionDuration": "interval 0 seconds",
        },
    )
    table.append(rows(1, 2))
    clone = table.clone("a.clone")
    clone.append(rows(3))
    for number in range(4):
        clone.overwrite(rows(number))
    table.overwrite(rows(9))
    lake.mirror.run(once=True)
    lake.presence.beat()
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 0, "the clone's history has it"
    assert clone.expire(**AT_ONCE, dry_run=False).files == 1
    assert ids(clone.snapshot(4).scan().to_arrow()) == [2]
    assert table.vacuum(**AT_ONCE, dry_run=False).dead == 1
    assert (files(table), files(clone) >= live(clone)) == (live(table), True)
    assert clone.vacuum(**AT_ONCE, dry_run=False).count == 4, "its own are still its vacuum's"
    assert lake.check().ok
