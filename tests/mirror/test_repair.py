"""Repair: exact bytes come back, strangers' objects stay until force moves them aside."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasql.delta_log.last_checkpoint import parse_last_checkpoint
from deltasql.delta_log.names import checkpoint_name, commit_name
from deltasql.errors import (
    MirrorConflictError,
    MirrorError,
    MirrorGapError,
    VersionNotFoundError,
)
from deltasql.spec import codec
from tests.faults.outcomes import Faults
from tests.mirror.conftest import landed, rows, statuses

POINTER = "_last_checkpoint"


def test_a_whole_mirror_needs_no_repair(any_lake, make_table, log_of):
    table = make_table(any_lake, 5, **{"delta.checkpointInterval": "4"})
    before = log_of(table).contents()
    report = table.mirror.repair()
    assert report.ok
    assert (report.restored, report.checkpoints, report.conflicts) == ([], [], [])
    assert not report.pointer_rewritten
    assert log_of(table).contents() == before


@pytest.mark.parametrize("gone", [[0], [6], [1, 2, 4], list(range(7))])
def test_deleted_commit_files_come_back_byte_for_byte(lake, make_table, log_of, gone):
    table = make_table(lake, 6, **{"delta.checkpointInterval": "2"})
    log = log_of(table)
    before = log.contents()
    for version in gone:
        log[version].unlink()
    report = table.mirror.repair()
    assert report.ok
    assert report.restored == gone
    assert log.contents() == before
    assert all(record.status == "SUCCESS" for record in statuses(table).values())


def test_the_whole_log_comes_back(any_lake, make_table, log_of):
    table = make_table(any_lake, 5, **{"delta.checkpointInterval": "4"})
    log = log_of(table)
    before = log.contents()
    shutil.rmtree(log.folder)
    report = table.mirror.repair()
    assert report.ok
    assert report.restored == list(range(6))
    assert report.checkpoints == [4]
    after = log.contents()
    assert after.keys() == before.keys()
    assert {name: after[name] for name in after if name.endswith((".json", ".crc"))} == {
        name: before[name] for name in before if name.endswith((".json", ".crc"))
    }
    assert table.mirror.validate().ok


@pytest.mark.parametrize("length", [0, 1, 50, -1])
def test_a_truncated_upload_is_written_whole(lake, make_table, log_of, length):
    table = make_table(lake)
    log = log_of(table)
    whole = log[2].read_bytes()
    log[2].write_bytes(whole[:length])
    report = table.mirror.repair()
    assert report.ok
    assert report.restored == [2]
    assert log[2].read_bytes() == whole


def test_a_stale_hadoop_checksum_goes_with_the_file_rule_36(lake, make_table, log_of):
    table = make_table(lake)
    log = log_of(table)
    log[2].write_bytes(b"")
    stale = log[f".{commit_name(2)}.crc"]
    stale.write_bytes(b"crc\0")
    assert table.mirror.repair().ok
    assert not stale.exists()


def test_a_foreign_object_is_reported_and_stays(lake, make_table, log_of):
    table = make_table(lake)
    log = log_of(table)
    log[2].write_bytes(b'{"commitInfo":{}}\n')
    for version in (None, 2):
        report = table.mirror.repair(version=version)
        assert not report.ok
        assert report.conflicts == [commit_name(2)]
        assert report.moved_aside == {}
        assert log[2].read_bytes() == b'{"commitInfo":{}}\n'


def test_force_moves_a_foreign_object_aside(lake, make_table, log_of):
    table = make_table(lake)
    log = log_of(table)
    whole = log[2].read_bytes()
    log[2].write_bytes(b"garbage")
    report = table.mirror.repair(force=True)
    assert report.ok
    assert report.restored == [2]
    assert log[2].read_bytes() == whole
    assert log[report.moved_aside[commit_name(2)]].read_bytes() == b"garbage"
    # No reader minds what lies aside.
    assert DeltaTable(table.location).version() == 3
    assert table.mirror.validate().ok


@pytest.mark.parametrize("version", [None, 2])
def test_a_foreign_object_of_the_same_size_is_reported_and_moved_aside(
    any_lake, make_table, log_of, version
):
    table = make_table(any_lake)
    log = log_of(table)
    whole = log[2].read_bytes()
    foreign = whole.replace(b'"me"', b'"ME"')
    assert foreign != whole
    log[2].write_bytes(foreign)
    assert table.mirror.repair(version=1).ok
    report = table.mirror.repair(version=version)
    assert report.conflicts == [commit_name(2)]
    assert (report.restored, report.moved_aside) == ([], {})
    assert log[2].read_bytes() == foreign
    report = table.mirror.repair(version=version, force=True)
    assert report.ok
    assert report.restored == [2]
    assert log[2].read_bytes() == whole
    assert log[report.moved_aside[commit_name(2)]].read_bytes() == foreign


@pytest.mark.parametrize("has_file", [True, False])
def test_a_body_that_sql_has_lost_is_never_written(lake, make_table, log_of, tmp_path, has_file):
    """Repair takes SQL's bytes for ours only while they have the digest of the commit."""
    table = make_table(lake)
    log = log_of(table)
    log[2].write_bytes(b"garbage") if has_file else log[2].unlink()
    with sqlite3.connect(tmp_path / "lake.db") as connection:
        connection.execute("UPDATE dl_table_versions SET body = x'7b7d' WHERE version = 2")
    connection.close()
    report = table.mirror.repair(force=True)
    assert not report.ok
    assert "is not what was committed" in report.errors[0]
    assert (report.restored, report.moved_aside) == ([], {})
    assert log[2].exists() == has_file


def test_one_version_waits_for_the_one_before_rule_3(lake, make_table, log_of):
    table = make_table(lake)
    log = log_of(table)
    log[1].unlink()
    log[2].unlink()
    report = table.mirror.repair(version=2)
    assert not report.ok
    assert commit_name(1) in report.errors[0]
    assert not log[2].exists()
    assert table.mirror.repair(version=1).restored == [1]
    assert table.mirror.repair(version=2).restored == [2]


def test_a_version_that_never_was(lake, make_table):
    table = make_table(lake)
    with pytest.raises(VersionNotFoundError):
        table.mirror.repair(version=4)


def test_missing_and_broken_checkpoints_are_written_again(any_lake, make_table, log_of):
    table = make_table(any_lake, 6, **{"delta.checkpointInterval": "2"})
    log = log_of(table)
    log[checkpoint_name(2)].unlink()
    log[checkpoint_name(4)].write_bytes(log[checkpoint_name(4)].read_bytes()[:-9])
    log[checkpoint_name(6)].write_bytes(b"")
    report = table.mirror.repair()
    assert report.ok
    assert report.checkpoints == [2, 4, 6]
    assert table.mirror.validate().checkpoint == 6
    assert table.mirror.validate().ok
    assert DeltaTable(table.location).version() == 6


def test_a_v2_checkpoint_without_its_sidecar_is_broken(lake, make_table, log_of):
    table = make_table(lake, 4, **{"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2"})
    log = log_of(table)
    assert table.mirror.validate().checkpoint == 4
    for sidecar in log["_sidecars"].iterdir():
        sidecar.unlink()
    assert table.mirror.validate().checkpoint is None
    report = table.mirror.repair()
    assert report.ok
    assert report.checkpoints == [2, 4]
    assert table.mirror.validate().checkpoint == 4
    assert DeltaTable(table.location).version() == 4


@pytest.mark.parametrize("tags", [None, {}])
def test_a_checkpoint_with_an_empty_map_of_tags_is_as_right_as_one_without(
    lake, make_table, log_of, tags
):
    """Writers differ in what they make of no tags, and repair leaves a right checkpoint alone."""
    table = make_table(lake, 1, **{"delta.checkpointInterval": "2"})
    add = {"path": "day=a/x.parquet", "size": 5, "partitionValues": {"day": "a"}, "tags": tags}
    table.commit([{"add": {**add, "modificationTime": 1, "dataChange": True}}])
    lake.mirror.run(once=True)
    path = log_of(table)[checkpoint_name(2)]
    content = pq.read_table(path)
    adds = content["add"].to_pylist()
    for item in adds:
        if item is not None:
            item["tags"] = [] if tags is None else None
    place, field = content.schema.get_field_index("add"), content.schema.field("add")
    other = content.set_column(place, field, pa.array(adds, field.type))
    pq.write_table(other, path)
    before = path.read_bytes()
    report = table.mirror.repair()
    assert (report.ok, report.moved_aside, report.checkpoints) == (True, {}, [])
    assert path.read_bytes() == before
    assert table.mirror.validate().ok
    assert lake.check(full=True).ok


@pytest.mark.parametrize("content", [None, b"garbage", b'{"version":90,"size":1}'])
def test_a_pointer_that_points_nowhere_is_rewritten_rule_33(lake, make_table, log_of, content):
    table = make_table(lake, 4, **{"delta.checkpointInterval": "2"})
    log = log_of(table)
    before = log[POINTER].read_bytes()
    if content is None:
        log[POINTER].unlink()
    else:
        log[POINTER].write_bytes(content)
    report = table.mirror.repair()
    assert report.ok
    assert report.pointer_rewritten
    assert log[POINTER].read_bytes() == before
    assert parse_last_checkpoint(before) == 4


def test_repair_catches_up_what_failed(lake, make_table, log_of, outage):
    table = make_table(lake)
    store = outage(lake, table)
    store.is_down = True
    table.append(rows(4))
    for _ in range(6):
        lake.mirror.run(once=True)
    assert statuses(table)[4].status == "FAILED"
    store.is_down = False
    report = table.mirror.repair()
    assert report.ok
    assert report.mirrored == 1
    assert statuses(table)[4].status == "SUCCESS"
    assert log_of(table).versions() == [0, 1, 2, 3, 4]


# --- a mirror that is ahead -----------------------------------------------------------


def _restored_to_earlier(lake, table, sqlite_url, open_lake, tmp_path):
    """The database as it was at version 3; the mirror has two more."""
    path = sqlite_url.removeprefix("sqlite:///")
    copy = tmp_path / "backup.db"
    # Else the copy has the lease of a publish run that never gives it back there.
    landed(lake)
    with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    table.append(rows(4))
    table.append(rows(5), app_id="job", app_version=7)
    history = table.history()
    again = open_lake(f"sqlite:///{copy}")
    return again.table(table.name), history


@pytest.fixture
def ahead(lake, make_table, sqlite_url, open_lake, tmp_path):
    table = make_table(lake)
    return _restored_to_earlier(lake, table, sqlite_url, open_lake, tmp_path)


def test_a_mirror_that_is_ahead_stops_commits(ahead, log_of):
    table, _ = ahead
    before = log_of(table).contents()
    with pytest.raises(MirrorError, match="ahead of SQL"):
        table.append(rows(9))
    assert table.version == 3
    report = table.mirror.repair()
    assert not report.ok
    assert report.ahead == [4, 5]
    assert log_of(table).contents() == before
    drift = table.mirror.validate()
    assert drift.foreign_versions == [4, 5]
    assert drift.first_drift == 4


def test_taking_back_survives_a_lost_answer(ahead):
    table, history = ahead
    faults = Faults(table._lake, "lost")
    faults.arm()
    report = table.mirror.repair(take_back=True)
    assert faults.was_committed
    assert report.taken_back == [4, 5]
    assert table.history() == history


def test_versions_are_taken_back_into_sql_with_their_bytes(ahead, log_of):
    table, history = ahead
    before = log_of(table).contents()
    report = table.mirror.repair(take_back=True)
    assert report.ok
    assert report.taken_back == [4, 5]
    assert table.version == 5
    assert log_of(table).contents() == before
    assert table.history() == history
    assert table.snapshot().txns == {"job": 7}
    assert table.mirror.validate().ok
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3, 4, 5]
    assert table.append(rows(6)) == 6
    assert log_of(table).versions() == list(range(7))


def test_nothing_is_taken_back_over_a_gap(ahead, log_of):
    table, _ = ahead
    log_of(table)[4].unlink()
    with pytest.raises(MirrorGapError):
        table.mirror.repair(take_back=True)
    assert table.version == 3


def test_nothing_is_taken_back_that_is_not_valid(ahead, log_of):
    table, _ = ahead
    log_of(table)[5].write_bytes(b'{"commitInfo":{"inCommitTimestamp":1}}\n')
    with pytest.raises(MirrorError, match="can't be taken back"):
        table.mirror.repair(take_back=True)
    assert table.version == 3


def test_force_moves_versions_aside_that_sql_does_not_know(ahead, log_of):
    table, _ = ahead
    report = table.mirror.repair(force=True)
    assert report.ok
    assert commit_name(5) in report.moved_aside
    assert log_of(table).versions() == [0, 1, 2, 3]
    assert table.append(rows(9)) == 4
    assert table.mirror.validate().ok


def test_taking_back_on_every_database(any_lake, make_table, log_of):
    """As if they had been lost in SQL: the versions of another lake's log, put behind ours."""
    table = make_table(any_lake)
    table.mirror.pause()
    state = table.snapshot().state
    ours = log_of(table)
    # Longer than what SQL keeps uncompressed.
    tag = b"x" * 100_000
    lines = [
        b'{"commitInfo":{"inCommitTimestamp":%d,"operation":"WRITE","txnId":"x%d"}}\n'
        b'{"add":{"dataChange":true,"modificationTime":1,"partitionValues":{"day":"a"},'
        b'"path":"day=a/f%d.parquet","size":5,"tags":{"t":"%b"}}}\n'
        % (state.in_commit_timestamp + n, n, n, tag)
        for n in (1, 2)
    ]
    for version, line in zip((4, 5), lines, strict=True):
        ours[version].write_bytes(line)
    report = table.mirror.repair(take_back=True)
    assert report.taken_back == [4, 5]
    assert report.ok
    assert [record.version for record in table.history()] == [5, 4, 3, 2, 1, 0]
    assert table.snapshot().files().num_rows == 5
    assert [ours[4].read_bytes(), ours[5].read_bytes()] == lines
    assert table.mirror.validate().ok


# --- logs that are not ours -----------------------------------------------------------


@pytest.mark.parametrize("version", [None, 1, 2])
def test_nothing_is_written_into_another_tables_log(lake, make_table, log_of, version):
    """Somebody deleted the folder, and began a table of their own there."""
    table = make_table(lake)
    log = log_of(table)
    shutil.rmtree(log.folder.parent)
    write_deltalake(log.folder.parent, rows(100))
    before = log.contents()
    report = table.mirror.repair(version=version)
    assert not report.ok
    assert report.restored == []
    assert log.contents() == before
    assert DeltaTable(table.location).to_pyarrow_table()["id"].to_pylist() == [100]


def test_repair_writes_nothing_before_a_conflict_either(lake, make_table, log_of):
    """Of a log whose oldest commits were cleaned up only later ones can be told from ours."""
    table = make_table(lake, 5)
    table.mirror.pause()
    table.append(rows(6))
    log = log_of(table)
    log[1].unlink()
    log[5].write_bytes(b"{}")
    before = log.contents()
    report = table.mirror.repair()
    assert report.conflicts == [commit_name(5)]
    assert (report.restored, report.mirrored, report.pointer_rewritten) == ([], 0, False)
    assert log.contents() == before
    assert table.mirror.repair(force=True).ok
    assert log.versions() == list(range(7))


def test_no_version_is_mirrored_alone_after_another_history(lake, make_table, log_of):
    table = make_table(lake)
    table.mirror.pause()
    table.append(rows(4))
    log = log_of(table)
    log[3].write_bytes(b"{}")
    for force in (False, True):
        report = table.mirror.repair(version=4, force=force)
        assert commit_name(3) in report.errors[0]
        assert not log[4].exists()


def test_another_history_is_not_taken_back(ahead, log_of, open_lake):
    """The restored database went on by itself: SQL's version 4 is not the mirror's."""
    table, _ = ahead
    off = open_lake(table._lake.url, mode="off").table("t")
    assert off.append(rows(44)) == 4
    before = log_of(table).contents()
    with pytest.raises(MirrorConflictError, match="can't be taken back"):
        table.mirror.repair(take_back=True)
    assert table.version == 4
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3, 44]
    assert log_of(table).contents() == before


@pytest.mark.parametrize("damage", ["missing", "other id"])
def test_versions_that_do_not_continue_sqls_are_not_taken_back(ahead, log_of, damage):
    table, _ = ahead
    log = log_of(table)
    if damage == "missing":
        log[3].unlink()
    else:
        first, _, rest = log[5].read_bytes().partition(b"\n")
        metadata = replace(table.snapshot().state.metadata, id="another")
        line = codec.encode_commit([metadata])
        log[5].write_bytes(first + b"\n" + line + rest)
    with pytest.raises(MirrorConflictError, match="can't be taken back"):
        table.mirror.repair(take_back=True)
    assert table.version == 3
