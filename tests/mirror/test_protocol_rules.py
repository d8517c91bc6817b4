"""The rules of protocol-rules.md that a commit and its mirror obey together, by number.

Rules that one layer obeys by itself have their tests in tests/unit; what readers make of
mirrors is in tests/readers.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import (
    MirrorConflictError,
    MirrorGapError,
    StoreError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.log.replay import Replay
from deltasql.mirror.checkpointing import CheckpointFlight
from deltasql.spec import codec, deletion_vectors
from deltasql.spec.actions import AddFile, CdcFile, CommitInfo, Protocol, RemoveFile, Txn
from deltasql.store.mirror_log import Work
from deltasql.table import Table
from deltasql.testing.delta_log import check_commit_file
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.conftest import landed

SCHEMA = pa.schema([("id", pa.int64())])
DAY = 86_400_000


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[deltasql.Lake]:
    url, place = f"sqlite:///{tmp_path / 'lake.db'}", (tmp_path / "lake").as_uri()
    with deltasql.connect(url, location=place) as lake:
        yield lake


@pytest.fixture
def table(lake: deltasql.Lake) -> Table:
    """Its checkpoints are due at every second version."""
    return lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})


def add(path: str, **fields: Any) -> AddFile:
    given = {"size": 10, "modification_time": 1, "stats": '{"numRecords":10}', **fields}
    return AddFile(path=path, **given)


def remove(path: str, *, at: int) -> RemoveFile:
    return RemoveFile.of(add(path), deletion_timestamp=at)


def name(version: int, kind: str = "json") -> str:
    return f"_delta_log/{version:020}.{kind}"


def log_of(table: Table) -> list[str]:
    return [item.path.removeprefix("_delta_log/") for item in table.objects.list("_delta_log")]


def actions(table: Table, version: int) -> list[tuple[str, Any]]:
    lines = table.objects.read(name(version)).decode().removesuffix("\n").split("\n")
    return [next(iter(json.loads(line).items())) for line in lines]


def only(table: Table, version: int, kind: str) -> list[Any]:
    return [value for found, value in actions(table, version) if found == kind]


def checkpoint(table: Table, version: int) -> list[tuple[str, Any]]:
    content = table.objects.read(name(version, "checkpoint.parquet"))
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    return [(kind, value) for row in rows for kind, value in row.items() if value is not None]


def kept(table: Table, version: int, kind: str) -> list[Any]:
    return [value for found, value in checkpoint(table, version) if found == kind]


# --- commit files -------------------------------------------------------------------------


def test_rule_01_versions_are_contiguous_and_actions_are_lines(table):
    for number in range(3):
        table.commit([add(f"a\n{number}\u2029")])
    found = [item for item in log_of(table) if item.endswith(".json")]
    assert found == [f"{version:020}.json" for version in range(4)]
    for version in range(4):
        content = table.objects.read(name(version))
        check_commit_file(content, version)
        assert content.count(b"\n") == len(actions(table, version))


def test_rule_02_an_existing_entry_is_compared_and_never_replaced(lake, table):
    table.commit([add("a")])
    ours = table.objects.read(name(1))
    inode = _file(table, name(1)).stat().st_ino
    landed(lake)
    lake.store.forget_mirrored(table.table_id, first=0, last=1)
    assert lake.engine.catch_up(table.target) == 2
    assert _file(table, name(1)).stat().st_ino == inode, "the same bytes were left alone"
    _file(table, name(1)).write_bytes(ours[:-10])
    lake.store.forget_mirrored(table.table_id, first=1, last=1)
    with pytest.raises(MirrorConflictError):
        lake.engine.catch_up(table.target)
    assert table.objects.read(name(1)) == ours[:-10]


def _file(table: Table, path: str) -> Path:
    return Path(table.location.removeprefix("file://")) / path


def test_rule_03_a_version_waits_for_the_one_before(lake, table):
    table.commit([add("a")])
    table.mirror.pause()
    table.commit([add("b")])
    _file(table, name(1)).unlink()
    lake.store.forget_mirrored(table.table_id, first=2, last=2)
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


# --- checkpoints --------------------------------------------------------------------------


def test_rule_22_a_checkpoint_needs_its_commit_and_both_stay(lake, table):
    table.mirror.pause()
    table.commit([add("a")])
    table.commit([add("b")])
    lease = lake.store.acquire_lease(table.table_id, "me", 30)
    flight = CheckpointFlight(lake.store, table.objects, lease, max_attempts=5)
    _file(table, name(2)).unlink(missing_ok=True)
    with pytest.raises(MirrorGapError):
        flight.write(2)
    assert not [item for item in log_of(table) if "checkpoint" in item]
    lake.store.release_lease(lease)
    table.mirror.resume()
    lake.store.forget_mirrored(table.table_id, first=0, last=2)
    lake.mirror.run(once=True)
    assert {f"{2:020}.json", f"{2:020}.checkpoint.parquet"} <= set(log_of(table))


def test_rule_24_tombstones_go_when_they_expire(lake, table):
    now = lake.store.clock_ms()
    table.commit([add("old"), add("new"), add("never")])
    gone = [
        remove("old", at=now - 8 * DAY),
        remove("new", at=now - 6 * DAY),
        replace(remove("never", at=0), deletion_timestamp=None),
    ]
    table.commit(gone, read_version=1, reads="all")
    lake.mirror.run(once=True)
    assert [item["path"] for item in kept(table, 2, "remove")] == ["new"]
    assert len(only(table, 2, "remove")) == 3


def test_rule_24_the_retention_is_the_table_s(lake):
    table = lake.create_table(
        "short",
        SCHEMA,
        properties={
            "delta.checkpointInterval": "2",
            "delta.deletedFileRetentionDuration": "interval 5 days",
        },
    )
    table.commit([add("a")])
    gone = remove("a", at=lake.store.clock_ms() - 6 * DAY)
    table.commit([gone], read_version=1, reads="all")
    lake.mirror.run(once=True)
    assert kept(table, 2, "remove") == []


def test_rule_25_txns_stay_for_ever(lake, table):
    table.commit([Txn(app_id="ancient", version=1, last_updated=1)])
    table.commit([add("a")])
    lake.mirror.run(once=True)
    assert [item["appId"] for item in kept(table, 2, "txn")] == ["ancient"]


def test_rule_25_unless_the_table_says_how_long(lake):
    table = lake.create_table(
        "forgetful",
        SCHEMA,
        properties={
            "delta.checkpointInterval": "2",
            "delta.setTransactionRetentionDuration": "interval 1 days",
        },
    )
    now = lake.store.clock_ms()
    table.commit([Txn(app_id="ancient", version=1, last_updated=now - 2 * DAY)])
    table.commit([Txn(app_id="recent", version=1, last_updated=now)])
    lake.mirror.run(once=True)
    assert [item["appId"] for item in kept(table, 2, "txn")] == ["recent"]


def test_rule_29_restated_adds_change_no_data(lake):
    table = lake.create_table(
        "ids",
        SCHEMA,
        properties={"delta.enableRowTracking": "true", "delta.checkpointInterval": "2"},
    )
    table.commit([add("a", tags={"k": "v"}, clustering_provider="liquid")])
    table.commit([add("b")])
    lake.mirror.run(once=True)
    first, second = sorted(kept(table, 2, "add"), key=lambda item: item["path"])
    assert first["dataChange"] is second["dataChange"] is False
    assert (first["baseRowId"], first["defaultRowCommitVersion"]) == (0, 1)
    assert (second["baseRowId"], second["defaultRowCommitVersion"]) == (10, 2)
    assert (dict(first["tags"]), first["clusteringProvider"]) == ({"k": "v"}, "liquid")


def test_rule_33_the_pointer_comes_after_and_never_goes_back(lake, table):
    for number in range(5):
        table.commit([add(str(number))])
    lake.mirror.run(once=True)
    pointer = json.loads(table.objects.read("_delta_log/_last_checkpoint"))
    assert pointer["version"] == 4
    assert pointer["size"] == len(checkpoint(table, 4)), "actions, not bytes"
    lake.store.forget_checkpoint(table.table_id, 2)
    table.objects.delete([name(2, "checkpoint.parquet")])
    lake.mirror.run(once=True)
    assert f"{2:020}.checkpoint.parquet" in log_of(table)
    assert json.loads(table.objects.read("_delta_log/_last_checkpoint")) == pointer


def test_rule_33_a_pointer_whose_reading_broke_off_is_not_taken_for_broken(lake, table):
    for number in range(5):
        table.commit([add(str(number))])
    lake.mirror.run(once=True)
    pointer = table.objects.read("_delta_log/_last_checkpoint")
    table.objects.delete([name(2, "checkpoint.parquet")])
    lease = lake.store.acquire_lease(table.table_id, "me", 30, Work.CHECKPOINTS)
    cut = FaultyStore(
        table.objects,
        lambda call: Fault.TRUNCATED_READ if call.verb == "read_tagged" else None,
    )
    with pytest.raises(StoreError, match="_last_checkpoint"):
        CheckpointFlight(lake.store, cut, lease, max_attempts=5).write(2)
    assert table.objects.read("_delta_log/_last_checkpoint") == pointer


# --- version checksums --------------------------------------------------------------------


def test_rule_36_checksums_are_exact_at_every_version(lake, table):
    table.commit([add("a"), add("b", size=7)])
    table.commit([add("a", size=11)])
    now = lake.store.clock_ms()
    table.commit([RemoveFile.of(add("b", size=7), deletion_timestamp=now), add("c", size=1)],
                 read_version=2, reads="all")  # fmt: skip
    table.commit([add("b", size=7)])
    replay = Replay()
    for change in table.changes(0):
        replay.apply(change.version, change.actions)
        found = json.loads(table.objects.read(name(change.version, "crc")))
        live = list(replay.files.values())
        assert found["numFiles"] == len(live)
        assert found["tableSizeBytes"] == sum(item.size for item in live)
        (info,) = [item for item in change.actions if isinstance(item, CommitInfo)]
        assert found["inCommitTimestampOpt"] == info.in_commit_timestamp


def test_rule_37_no_compaction_stands_in_for_commits(lake, table):
    for number in range(4):
        table.commit([add(str(number))])
    lake.mirror.run(once=True)
    assert not [item for item in log_of(table) if "compacted" in item]


# --- features -----------------------------------------------------------------------------


def test_rule_45_times_are_in_the_first_line_and_grow(lake, table):
    for number in range(20):
        table.commit([add(str(number))])
    times = []
    for version in range(21):
        kind, info = actions(table, version)[0]
        assert kind == "commitInfo"
        times.append(info["inCommitTimestamp"])
    assert times == sorted(set(times))
    with pytest.raises(deltasql.ValidationError):
        table.commit([CommitInfo(in_commit_timestamp=1), add("x"), CommitInfo()])


def test_rule_46_times_do_not_depend_on_when_the_mirror_wrote(lake, table):
    table.mirror.pause()
    table.commit([add("a")])
    committed = table.snapshot(1).timestamp.timestamp()
    time.sleep(0.1)
    table.mirror.resume()
    lake.mirror.run(once=True)
    assert only(table, 1, "commitInfo")[0]["inCommitTimestamp"] == round(committed * 1000)


def test_rule_46_times_in_commits_can_not_be_left_out(lake):
    with pytest.raises(ValidationError, match="in-commit timestamps"):
        lake.create_table("old", SCHEMA, properties={"delta.enableInCommitTimestamps": "false"})


def test_rule_50_change_files_are_in_commits_and_not_in_checkpoints(lake):
    table = lake.create_table(
        "cdf",
        SCHEMA,
        properties={"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "2"},
    )
    table.commit([add("a")])
    table.commit([add("b"), CdcFile(path="_change_data/c", size=1)])
    lake.mirror.run(once=True)
    assert only(table, 2, "cdc")[0]["dataChange"] is False
    assert {kind for kind, _ in checkpoint(table, 2)} == {"protocol", "metaData", "add"}


def test_rule_51_catalog_managed_tables_are_refused(lake, table):
    protocol = table.snapshot().protocol
    managed = replace(
        protocol,
        min_reader_version=3,
        reader_features=("catalogManaged",),
        writer_features=tuple(sorted({*protocol.writer_features, "catalogManaged"})),
    )
    with pytest.raises(deltasql.DeltaSqlError):
        table.commit([managed])
    assert table.version == 0
    assert "deltasql" in protocol.writer_features, "the fence keeps others out instead"


def test_rule_55_data_files_have_names_of_their_own(lake, table):
    rows = pa.table({"id": [1]})
    for _ in range(3):
        table.append(rows)
    table.overwrite(rows)
    paths = [only(table, version, "add")[0]["path"] for version in range(1, 5)]
    assert len(set(paths)) == 4
    assert all(table.objects.head(path) is not None for path in paths), "old ones are vacuum's"


# --- several checkpoints, and who may delete ------------------------------------------------


def test_rule_32_any_complete_checkpoint_and_none_newer(lake):
    table = lake.create_table(
        "two",
        SCHEMA,
        properties={"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2"},
    )
    for number in range(5):
        table.commit([add(str(number))])
    lake.mirror.run(once=True)
    (named,) = (item for item in log_of(table) if item.startswith(f"{4:020}.checkpoint."))
    assert len(named.split(".")) == 4, "a V2 checkpoint has an id in its name"
    # A classic name beside it holds the same; a set of parts that is not whole holds nothing.
    content = table.objects.read(f"_delta_log/{named}")
    table.objects.put_if_absent(f"_delta_log/{4:020}.checkpoint.parquet", content)
    for part in ("0000000001.0000000002",):
        table.objects.put_if_absent(f"_delta_log/{4:020}.checkpoint.{part}.parquet", b"half")
    newest = table.mirror.validate()
    assert (newest.ok, newest.checkpoint) == (True, 4)
    # Whichever is left does as well.
    table.objects.delete([f"_delta_log/{named}"])
    assert table.mirror.validate().ok
    before = table.mirror.validate(version=3)
    assert (before.ok, before.checkpoint) == (True, 2), "of those at or before the version"
    assert table.mirror.validate(version=1).checkpoint is None


def test_rule_07_the_order_of_actions_means_nothing():
    actions = [add("a"), RemoveFile(path="b", deletion_timestamp=1), Txn(app_id="x", version=1)]
    states = []
    for order in (actions, actions[::-1]):
        replay = Replay()
        replay.apply(0, [add("b")])
        replay.apply(1, order)
        states.append((replay.files, replay.tombstones, replay.txns))
    assert states[0] == states[1]


def test_rule_52_cleanup_must_know_every_writer_feature(lake, table):
    unknown = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("fromTheFuture",)
    )
    with lake.store._writing("test") as session:
        action = json.dumps(codec.to_wire(unknown)["protocol"])
        session.execute("UPDATE dl_protocol_updates SET action = ?", (action,))
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
            table.mirror.cleanup(dry_run=dry_run)
