"""Scenarios of what is written: commit files, checkpoints, and their bytes."""

from __future__ import annotations

import io
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.lake.table import Table
from deltasql.spec.actions import AddFile, RemoveFile, Txn
from deltasql.testing.delta_log import check_checkpoint, check_commit_file
from tests.mirror.scenarios.broken_store import (
    SCHEMA,
    add,
    commits,
    name,
    names,
)

# --- Delta JSON commit mirroring ----------------------------------------------------------


def test_scenario_mirroring_successful_commit(table):
    assert table.commit([add("a")]) == 1
    assert commits(table) == [name(0), name(1)]
    (change,) = table.changes(1)
    kinds = [json.loads(line) for line in table.objects.read(name(1)).splitlines()]
    assert [next(iter(item)) for item in kinds] == ["commitInfo", "add"]
    assert kinds[1]["add"]["path"] == change.actions[1].path == "a"


def test_scenario_newline_delimited_format(table):
    table.commit([add("a\u2028b"), add("c")])
    content = table.objects.read(name(1))
    assert content.endswith(b"}\n")
    lines = content.decode().removesuffix("\n").split("\n")
    assert len(lines) == 3
    assert all(len(json.loads(line)) == 1 for line in lines)


def test_scenario_action_ordering(table):
    table.commit([add("gone")])
    kept = table.snapshot()
    table.commit(
        [
            RemoveFile.of(add("gone"), deletion_timestamp=1),
            add("b"),
            add("a"),
            Txn(app_id="app", version=1),
            {"domainMetadata": {"domain": "d", "configuration": "", "removed": False}},
            kept.metadata,
        ],
        read_version=1,
        reads="all",
    )
    kinds = [next(iter(json.loads(line))) for line in table.objects.read(name(2)).splitlines()]
    assert kinds == [
        "commitInfo", "protocol", "metaData", "domainMetadata", "txn", "add", "add", "remove",
    ]  # fmt: skip


# --- Parquet checkpoint generation --------------------------------------------------------


@pytest.mark.parametrize(("interval", "due"), [(None, [10]), (4, [4, 8])])
def test_scenario_checkpoint_cadence(connect, interval, due):
    lake = connect(**({} if interval is None else {"checkpoint_interval": interval}))
    table = lake.create_table("t", SCHEMA)
    for number in range(11):
        table.commit([add(str(number))])
    lake.mirror.run(once=True)
    found = [path for path in names(table) if "checkpoint.parquet" in path]
    assert found == [name(version, "checkpoint.parquet") for version in due]
    assert json.loads(table.objects.read("_delta_log/_last_checkpoint"))["version"] == due[-1]


def checkpointed(lake: deltasql.Lake) -> tuple[Table, bytes]:
    table = lake.create_table("c", SCHEMA, properties={"delta.checkpointInterval": "2"})
    table.commit([add("a"), Txn(app_id="app", version=1)])
    table.commit([add("b")])
    lake.mirror.run(once=True)
    return table, table.objects.read(name(2, "checkpoint.parquet"))


def test_scenario_checkpoint_schema(lake):
    _, content = checkpointed(lake)
    schema = pq.read_schema(io.BytesIO(content))
    assert {"txn", "add", "remove", "metaData", "protocol"} <= set(schema.names)
    assert "commitInfo" not in schema.names
    adds = schema.field("add").type
    assert pa.types.is_map(adds.field("partitionValues").type)
    assert adds.field("size").type == pa.int64()
    assert schema.field("protocol").type.field("minReaderVersion").type == pa.int32()


def test_scenario_checkpoint_compression(lake):
    _, content = checkpointed(lake)
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    group = metadata.row_group(0)
    assert {group.column(n).compression for n in range(group.num_columns)} == {"SNAPPY"}


# --- canonical serialization --------------------------------------------------------------


def test_scenario_json_field_ordering(table):
    table.commit([add("a")])
    for version in (0, 1):
        for line in table.objects.read(name(version)).decode().splitlines():
            found = json.loads(line)
            again = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            assert again == line


def test_scenario_timestamp_formatting(table):
    table.commit([add("a")])
    table.commit([RemoveFile.of(add("a"), deletion_timestamp=7)], read_version=1, reads="all")
    created, added, removed = (
        {key: value for line in table.objects.read(name(version)).splitlines()
         for key, value in json.loads(line).items()}
        for version in range(3)
    )  # fmt: skip
    times = [
        created["commitInfo"]["inCommitTimestamp"],
        created["commitInfo"]["timestamp"],
        created["metaData"]["createdTime"],
        added["add"]["modificationTime"],
        removed["remove"]["deletionTimestamp"],
    ]
    assert all(type(item) is int for item in times)
    assert times[3:] == [1, 7]
    assert all(abs(item / 1000 - time.time()) < 3600 for item in times[:3])


def test_scenario_null_handling(lake):
    table = lake.create_table("t", pa.schema([("id", pa.int64()), ("p", pa.string())]), ["p"])
    bare = AddFile(path="a", size=1, modification_time=1, partition_values={"p": None})
    table.commit([bare])
    (line,) = [
        item for item in table.objects.read(name(1)).splitlines() if item.startswith(b'{"add"')
    ]
    # Absent fields are absent; null as a partition's value is a value.
    assert json.loads(line)["add"] == {
        "dataChange": True,
        "modificationTime": 1,
        "partitionValues": {"p": None},
        "path": "a",
        "size": 1,
    }


# --- conformance validation ---------------------------------------------------------------


def test_scenario_json_validation(table):
    table.commit([add("a"), Txn(app_id="app", version=1)])
    table.commit([RemoveFile.of(add("a"), deletion_timestamp=1)], read_version=1, reads="all")
    for version in range(3):
        check_commit_file(table.objects.read(name(version)), version)


def test_scenario_checkpoint_validation(lake, tmp_path):
    _, content = checkpointed(lake)
    path = tmp_path / "found.parquet"
    path.write_bytes(content)
    found = check_checkpoint(path)
    assert sorted(item["path"] for item in found.adds) == ["a", "b"]
