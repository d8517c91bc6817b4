"""Rules of checkpoints, their pointer, version checksums, and of who may delete."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltasql.errors import (
    MirrorGapError,
    StoreError,
    UnsupportedFeatureError,
)
from deltasql.log.replay import Replay
from deltasql.mirror.checkpoints.checkpointing import CheckpointRun
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo, Protocol, RemoveFile, Txn
from deltasql.store.mirroring.interface import Work
from deltasql.testing.faulty_store import Fault, FaultyStore
from tests.mirror.rules.log_actions import (
    DAY,
    SCHEMA,
    add,
    checkpoint,
    file_of,
    kept,
    log_of,
    name,
    only,
    remove,
)

# --- checkpoints --------------------------------------------------------------------------


def test_rule_22_a_checkpoint_needs_its_commit_and_both_stay(lake, table):
    table.mirror.pause()
    table.commit([add("a")])
    table.commit([add("b")])
    lease = lake.store.acquire_lease(table.table_id, "me", 30)
    publish_run = CheckpointRun(lake.store, table.objects, lease, max_attempts=5)
    file_of(table, name(2)).unlink(missing_ok=True)
    with pytest.raises(MirrorGapError):
        publish_run.write(2)
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
        CheckpointRun(lake.store, cut, lease, max_attempts=5).write(2)
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
