"""Rules of commit files: their actions, paths, values and stats."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import (
    MirrorConflictError,
    MirrorGapError,
)
from deltasql.lake.table import Table
from deltasql.spec import deletion_vectors
from deltasql.spec.actions import RemoveFile, Txn
from deltasql.testing.delta_log import check_commit_file
from tests.mirror.conftest import landed
from tests.mirror.rules.log_actions import (
    SCHEMA,
    actions,
    add,
    file_of,
    kept,
    log_of,
    name,
    only,
)

# --- commit files -------------------------------------------------------------------------


def test_rule_01_versions_are_contiguous_and_actions_are_lines(table):
    for number in range(3):
        table.commit([add(f"a%0A{number}\u2029", tags={"line": "one\ntwo\u2028"})])
    found = [item for item in log_of(table) if item.endswith(".json")]
    assert found == [f"{version:020}.json" for version in range(4)]
    for version in range(4):
        content = table.objects.read(name(version))
        check_commit_file(content, version)
        assert content.count(b"\n") == len(actions(table, version))


def test_rule_02_an_existing_entry_is_compared_and_never_replaced(lake, table):
    table.commit([add("a")])
    ours = table.objects.read(name(1))
    inode = file_of(table, name(1)).stat().st_ino
    landed(lake)
    lake.store.forget_mirrored(table.table_id, first=0, last=1)
    assert lake.engine.catch_up(table.target) == 2
    assert file_of(table, name(1)).stat().st_ino == inode, "the same bytes were left alone"
    file_of(table, name(1)).write_bytes(ours[:-10])
    lake.store.forget_mirrored(table.table_id, first=1, last=1)
    with pytest.raises(MirrorConflictError):
        lake.engine.catch_up(table.target)
    assert table.objects.read(name(1)) == ours[:-10]


def test_rule_03_a_version_waits_for_the_one_before(lake, table):
    table.commit([add("a")])
    table.mirror.pause()
    table.commit([add("b")])
    file_of(table, name(1)).unlink()
    lake.store.forget_mirrored(table.table_id, first=2, last=2)
    table.mirror.resume()
    with pytest.raises(MirrorGapError):
        lake.engine.catch_up(table.target)
    assert f"{2:020}.json" not in log_of(table)


def test_rule_03_the_mirror_has_the_committed_bytes(lake, table):
    table.commit([add("a", stats='{"numRecords": 1,  "maxValues":{"id":1.50}}')])
    for record in lake.store.commits(table.table_id, after=-1):
        assert table.objects.read(name(record.version)) == record.body


def test_rule_04_metadata_replaces_the_old_one_whole(lake, table):
    metadata = table.snapshot().metadata
    named = replace(metadata, name="n", description="d", configuration={"a": "1"})
    table.commit([named])
    table.commit([replace(named, name=None, configuration={"b": "2"})])
    lake.mirror.run(once=True)
    assert only(table, 2, "metaData")[0]["configuration"] == {"b": "2"}
    assert "name" not in only(table, 2, "metaData")[0]
    found = table.snapshot().metadata
    assert (found.name, found.description, found.configuration) == (None, "d", {"b": "2"})


def test_rule_05_required_fields_are_there_even_when_empty(lake):
    table = lake.create_table("bare", SCHEMA, properties={"delta.enableInCommitTimestamps": "true"})
    table.commit([{"metaData": _wire_metadata(table)}])
    table.commit([add("a", stats=None)])
    (metadata,) = only(table, 1, "metaData")
    assert metadata["configuration"] == {}
    assert (metadata["partitionColumns"], metadata["format"]["options"]) == ([], {})
    assert only(table, 2, "add")[0]["partitionValues"] == {}


def _wire_metadata(table: Table) -> dict[str, Any]:
    metadata = table.snapshot().metadata
    return {
        "id": metadata.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": metadata.schema_string,
        "partitionColumns": [],
        "configuration": {},
    }


def test_rule_08_what_nobody_knows_is_carried_through(lake, table):
    odd = {"newAction": {"b": [1, None], "a": {"x": 1.50}}}
    fields = {**_wire_add("a"), "newField": None, "tags": {"k": None}}
    table.commit([odd, {"add": fields}])
    assert only(table, 1, "newAction") == [odd["newAction"]]
    (found,) = only(table, 1, "add")
    assert found["newField"] is None
    assert found["tags"] == {"k": None}


def _wire_add(path: str) -> dict[str, Any]:
    return {
        "path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True,
    }  # fmt: skip


# --- reconciliation -----------------------------------------------------------------------


def test_rule_11_12_one_path_is_live_with_one_vector_and_a_tombstone_with_another(lake):
    table = lake.create_table(
        "v",
        SCHEMA,
        properties={"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "2"},
    )
    table.commit([add("a")])
    deleted = add("a", deletion_vector=deletion_vectors.inline([1]))
    gone = RemoveFile.of(add("a"), deletion_timestamp=lake.store.clock_ms())
    table.commit([gone, deleted], read_version=1, reads="all")
    lake.mirror.run(once=True)
    (live,), (tombstone,) = kept(table, 2, "add"), kept(table, 2, "remove")
    assert live["path"] == tombstone["path"] == "a"
    assert live["deletionVector"]["storageType"] == "i"
    assert tombstone["deletionVector"] is None


def test_rule_13_txns_keep_version_and_time(lake, table):
    table.commit([Txn(app_id="app", version=9, last_updated=5)])
    table.commit([add("a"), Txn(app_id="other", version=1)])
    lake.mirror.run(once=True)
    assert kept(table, 2, "txn") == [
        {"appId": "app", "version": 9, "lastUpdated": 5},
        {"appId": "other", "version": 1, "lastUpdated": None},
    ]


def test_rule_14_removed_domains_are_in_commits_and_not_in_checkpoints(lake, table):
    for domain in ("kept", "gone"):
        table.commit([_domain(domain)])
    table.commit([_domain("gone", removed=True)])
    table.commit([add("a")])
    lake.mirror.run(once=True)
    assert only(table, 3, "domainMetadata")[0]["removed"] is True
    assert [item["domain"] for item in kept(table, 2, "domainMetadata")] == ["gone", "kept"]
    assert [item["domain"] for item in kept(table, 4, "domainMetadata")] == ["kept"]


def _domain(name: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": removed}}


def test_rule_15_commit_info_belongs_to_its_own_version(lake, table):
    table.commit([add("a")])
    table.commit([add("b")])
    lake.mirror.run(once=True)
    assert only(table, 1, "commitInfo")[0]["inCommitTimestamp"]
    content = table.objects.read(name(2, "checkpoint.parquet"))
    assert "commitInfo" not in pq.read_schema(io.BytesIO(content)).names


# --- paths, values, stats -----------------------------------------------------------------


def test_rule_16_paths_are_encoded_once_and_absolute_ones_stay(lake, table):
    table.allow(["/elsewhere"])
    table.commit([add("file:///elsewhere/a%20b"), add("p=a%2520b/c")])
    paths = {item["path"] for item in only(table, 1, "add")}
    assert paths == {"file:///elsewhere/a%20b", "p=a%2520b/c"}
    odd = lake.create_table("odd", pa.schema([("id", pa.int64()), ("p", pa.string())]), ["p"])
    odd.append(pa.table({"id": [1], "p": ["a%b"]}))
    (found,) = only(odd, 1, "add")
    assert found["path"].startswith("p=a%2525b/"), "the folder is named a%25b"
    assert found["partitionValues"] == {"p": "a%b"}


@pytest.mark.parametrize(
    "stats",
    [
        '{"numRecords":1,"minValues":{"id":9007199254740993},"maxValues":{"id":9007199254740993}}',
        '{"numRecords":1,"minValues":{"id":-0.0},"maxValues":{"id":1.50E+2}}',
        '{ "numRecords" : 1 , "more":"é\\u00e9" }',
    ],
)
def test_rule_19_stats_are_verbatim_in_commits_and_checkpoints(lake, table, stats):
    table.commit([add("a", stats=stats)])
    table.commit([Txn(app_id="x", version=1)])
    lake.mirror.run(once=True)
    assert only(table, 1, "add")[0]["stats"] == stats
    assert kept(table, 2, "add")[0]["stats"] == stats


def test_rule_21_cut_bounds_enclose_the_data(lake):
    schema = pa.schema([("s", pa.string()), ("t", pa.timestamp("us", "UTC"))])
    table = lake.create_table("s", schema)
    low, high = "a" * 200, "zé" * 100
    times = pa.array([1_000_001, 2_000_999], pa.timestamp("us", "UTC"))
    table.append(pa.table({"s": [low, high], "t": times}))
    stats = json.loads(only(table, 1, "add")[0]["stats"])
    assert stats["minValues"]["s"] <= low
    assert len(stats["minValues"]["s"]) < len(low)
    # A maximum that can't be rounded up is left out.
    assert stats["maxValues"].get("s", high) >= high
    assert len(stats["maxValues"].get("s", "")) < len(high)
    assert stats["minValues"]["t"] == "1970-01-01T00:00:01.000Z"
    assert stats["maxValues"]["t"] in ("1970-01-01T00:00:02.000Z", "1970-01-01T00:00:02.001Z")
    found = table.scan(where="t > '1970-01-01T00:00:02.000500Z'").to_arrow()
    assert found.num_rows == 1, "a bound below the value by less than 1 ms hides nothing"


def test_rule_03_the_version_before_is_ours(lake, table):
    """Another process wrote it, or somebody after it: what is there may be anybody's."""
    table.commit([add("a")])
    landed(lake)
    table.mirror.pause()
    table.commit([add("b")])
    theirs = table.objects.read(name(1)).replace(b'"a"', b'"z"')
    file_of(table, name(1)).write_bytes(theirs)
    lake.engine._published = {}
    table.mirror.resume()
    with pytest.raises(MirrorConflictError, match="differs from what SQL has") as caught:
        lake.engine.catch_up(table.target)
    assert caught.value.path == name(1)
    assert f"{2:020}.json" not in log_of(table)
    file_of(table, name(1)).write_bytes(theirs.replace(b'"z"', b'"a"'))
    assert lake.engine.catch_up(table.target) == 1
