"""Validation finds each kind of drift, and says where it began."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from deltasql.delta_log.last_checkpoint import checksum
from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import checkpoint_name, commit_name
from deltasql.delta_log.reading import read_mirror
from deltasql.errors import VersionNotFoundError
from deltasql.log.replay import Replay
from deltasql.mirror.checkpoints import checkpointing
from deltasql.mirror.validation import second_reader
from deltasql.mirror.validation.digests import differing
from deltasql.spec import codec
from tests.mirror.conftest import SCHEMA, rows

EVERY_2 = {"delta.checkpointInterval": "2"}


def test_a_sound_mirror_agrees_with_sql(any_lake, make_table):
    table = make_table(any_lake, 5, **EVERY_2)
    table.overwrite(rows(9), where="day = '2026-11-01'")
    table.append(rows(10, day="ü %/="), app_id="job", app_version=3)
    any_lake.mirror.run(once=True)
    for version in (None, 0, 3, 6):
        report = table.mirror.validate(version)
        assert report.ok, report
        assert report.first_drift is None
        assert report.reader_error is None
        assert "delta-rs" in report.reader
    assert table.mirror.validate().version == 7
    assert table.mirror.validate().checkpoint == 6


def test_without_delta_rs_our_own_reader_stays(lake, make_table, monkeypatch):
    table = make_table(lake)
    monkeypatch.setattr(second_reader, "is_installed", lambda: False)
    report = table.mirror.validate()
    assert report.ok
    assert report.reader == "deltasql"


def test_a_reader_in_a_process_of_its_own_finds_the_same(lake, make_table, log_of, monkeypatch):
    monkeypatch.setattr(second_reader, "MOST_FILES", 0)
    table = make_table(lake, 5)
    report = table.mirror.validate()
    assert report.ok, report
    assert "delta-rs" in report.reader
    # Whoever counts files only would miss it.
    path = log_of(table)[3]
    path.write_text(path.read_text().replace('"size":', '"size":1'))
    report = table.mirror.validate()
    assert report.digest_mismatches == [3]
    assert len(report.different) == 1
    path.write_text("no JSON")
    assert "delta-rs can't read the mirror" in table.mirror.validate().reader_error


def test_a_mirror_that_is_behind_did_not_drift(open_lake, make_table):
    lake = open_lake(mode="async")
    table = make_table(lake)
    table.append(rows(4))
    report = table.mirror.validate()
    assert report.ok
    assert (report.version, report.lag_versions) == (3, 1)
    with pytest.raises(VersionNotFoundError):
        table.mirror.validate(4)


def test_a_table_that_was_never_mirrored_did_not_drift(open_lake):
    lake = open_lake(mode="off")
    table = lake.create_table("t", SCHEMA)
    report = table.mirror.validate()
    assert report.ok
    assert report.lag_versions == 1


def test_other_bytes_are_drift_at_their_version(lake, make_table, log_of):
    table = make_table(lake, 4)
    log = log_of(table)
    for version in (2, 3):
        log[version].write_bytes(log[version].read_bytes().replace(b'"me"', b'"ME"'))
    report = table.mirror.validate()
    assert not report.ok
    assert report.digest_mismatches == [2, 3]
    assert report.first_drift == 2
    assert not report.differs


def test_a_missing_commit_file_is_drift(lake, make_table, log_of):
    table = make_table(lake, 4)
    log_of(table)[3].unlink()
    report = table.mirror.validate()
    assert not report.ok
    assert report.missing_versions == [3]
    assert report.first_drift == 3
    assert commit_name(3) in report.error


def test_a_foreign_commit_file_is_drift(lake, make_table, log_of):
    table = make_table(lake)
    log_of(table)[4].write_bytes(b'{"commitInfo":{}}\n')
    report = table.mirror.validate()
    assert not report.ok
    assert report.foreign_versions == [4]
    assert report.first_drift == 4


def _edited(log, version, change):
    """A commit file with some of its actions changed, as a stranger might."""
    actions = codec.decode_commit(log[version].read_bytes())
    log[version].write_bytes(codec.encode_commit(change(actions)))


def _kind(name):
    return lambda action: type(action).__name__ == name


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        ("AddFile", lambda _: [], {"missing": 1}),
        ("AddFile", lambda add: [add, replace(add, path="strange.parquet")], {"extra": 1}),
        ("AddFile", lambda add: [replace(add, size=add.size + 1)], {"different": 1}),
        ("AddFile", lambda add: [replace(add, stats='{"numRecords":7}')], {"different": 1}),
    ],
)
def test_files_that_differ(lake, make_table, log_of, kind, change, expected):
    table = make_table(lake)
    _edited(
        log_of(table),
        2,
        lambda actions: [
            new
            for action in actions
            for new in (change(action) if _kind(kind)(action) else [action])
        ],
    )
    report = table.mirror.validate()
    assert not report.ok
    found = {name: len(getattr(report, name)) for name in ("missing", "extra", "different")}
    assert {name: count for name, count in found.items() if count} == expected
    assert report.first_drift == 2


def test_metadata_and_protocol_that_differ(lake, make_table, log_of):
    table = make_table(lake)

    def change(actions):
        return [
            replace(action, description="strange")
            if _kind("Metadata")(action)
            else replace(action, writer_features=(*action.writer_features, "checkConstraints"))
            if _kind("Protocol")(action)
            else action
            for action in actions
        ]

    _edited(log_of(table), 0, change)
    report = table.mirror.validate()
    assert report.metadata_differs
    assert report.protocol_differs
    assert report.first_drift == 0


def test_a_checkpoint_that_lies_is_found(lake, log_of, monkeypatch):
    table = lake.create_table("t", SCHEMA, properties=EVERY_2)
    table.append(rows(1))
    table.append(rows(2))
    honest = checkpointing.CheckpointRun._source

    def lying(self, version):
        source = honest(self, version)
        return replace(source, files=[batch.slice(1) for batch in source.files])

    monkeypatch.setattr(checkpointing.CheckpointRun, "_source", lying)
    lake.mirror.run(once=True)
    assert log_of(table)[checkpoint_name(2)].exists()
    report = table.mirror.validate()
    assert not report.ok
    assert len(report.missing) == 1
    assert report.digest_mismatches == []
    assert report.first_drift == 2


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("damage", [b"", b"PAR1 is not enough"])
def test_a_checkpoint_that_readers_start_from_and_cannot_read(lake, log_of, policy, damage):
    """We go back to an older one; Spark, DuckDB and delta-rs don't."""
    properties = {**EVERY_2, "delta.checkpointPolicy": policy}
    table = lake.create_table("t", SCHEMA, properties=properties)
    for number in range(1, 6):
        table.append(rows(number))
    lake.mirror.run(once=True)
    assert table.mirror.validate().checkpoint == 4
    log = log_of(table).folder
    (newest,) = log.glob(f"{4:020}.checkpoint*")
    if policy == "v2":
        top = pq.ParquetFile(newest).read(columns=["sidecar"])
        newest = log / "_sidecars" / top.column("sidecar").drop_null()[-1].as_py()["path"]
    newest.write_bytes(damage)
    with pytest.raises(Exception, match="error"):
        pa.table(DeltaTable(table.location).get_add_actions())
    report = table.mirror.validate()
    assert not report.ok
    assert report.error.startswith("the checkpoint of version 4 can't be read")
    assert table.mirror.repair().ok
    assert table.mirror.validate().ok
    assert len(DeltaTable(table.location).file_uris()) == 5


def test_a_sidecar_of_another_size_is_not_the_one_that_was_named(lake, log_of):
    """Readers go by the size that the checkpoint tells; the next one does not name it again."""
    properties = {**EVERY_2, "delta.checkpointPolicy": "v2"}
    table = lake.create_table("t", SCHEMA, properties=properties)
    for number in range(1, 6):
        table.append(rows(number))
    lake.mirror.run(once=True)
    log = log_of(table).folder
    (newest,) = log.glob(f"{4:020}.checkpoint*")
    top = pq.ParquetFile(newest).read(columns=["sidecar"])
    sidecar = log / "_sidecars" / top.column("sidecar").drop_null()[-1].as_py()["path"]
    # The same rows, in other bytes.
    pq.write_table(pq.read_table(sidecar), sidecar, compression="none")
    report = table.mirror.validate()
    assert report.error.startswith("the checkpoint of version 4 can't be read: it has")
    table.append(rows(6))
    lake.mirror.run(once=True)
    assert table.mirror.validate().checkpoint == 6
    assert len(DeltaTable(table.location).file_uris()) == 6
    assert sidecar.name not in str(pq.ParquetFile(*log.glob(f"{6:020}.checkpoint*")).read())
    assert table.mirror.repair().ok
    assert table.mirror.validate(5).ok


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_pointer_at_no_checkpoint_is_found(lake, make_table, log_of, is_signed):
    table = make_table(lake, 5, **EVERY_2)
    lake.mirror.run(once=True)
    pointer = log_of(table).folder / "_last_checkpoint"
    told = json.loads(pointer.read_text()) | {"version": 99}
    told["checksum"] = checksum(told) if is_signed else told["checksum"]
    pointer.write_text(json.dumps(told))
    with pytest.raises(Exception, match="Invalid Checkpoint"):
        DeltaTable(table.location)
    report = table.mirror.validate()
    assert not report.ok
    assert report.error == "_last_checkpoint points at version 99: it has no checkpoint"
    assert table.mirror.repair().ok
    assert table.mirror.validate().ok
    assert DeltaTable(table.location).version() == table.version
    # One that is no JSON is ignored by readers.
    pointer.write_text("{")
    assert table.mirror.validate().ok
    assert DeltaTable(table.location).version() == table.version


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_the_mirror_alone_tells_the_table_without_its_early_commits(
    lake, make_table, log_of, policy
):
    table = make_table(lake, 5, **EVERY_2, **{"delta.checkpointPolicy": policy})
    log = log_of(table)
    for version in range(4):
        log[version].unlink()
    objects = table.objects
    replay = Replay()
    assert read_mirror(objects, list_log(objects), 5, replay) == 4
    paths = {path for path, _ in replay.files}
    assert paths == set(table.snapshot().files().column("path").to_pylist())
    assert replay.table() == (table.snapshot().protocol, table.snapshot().metadata)


def test_the_lake_tells_its_progress(lake, make_table, log_of):
    for name in ("a", "b", "c"):
        make_table(lake, 1, name=name)
    log_of(lake.table("b"))[1].unlink()
    seen = []
    report = lake.mirror.validate(progress=lambda done, total, one: seen.append((done, total, one)))
    assert not report.ok
    assert [name for name, one in report.tables.items() if not one.ok] == ["b"]
    assert [(done, total, one.table) for done, total, one in seen] == [
        (1, 3, "a"),
        (2, 3, "b"),
        (3, 3, "c"),
    ]


def test_repair_validate_and_cleanup_on_s3(sqlite_url, seaweedfs):
    lake = deltasql.connect(
        sqlite_url,
        location=seaweedfs.location(f"mirror/{uuid.uuid4()}"),
        settings=seaweedfs.options(),
    )
    with lake:
        table = lake.create_table("t", SCHEMA, properties=EVERY_2)
        for number in range(1, 5):
            table.append(rows(number))
        lake.mirror.run(once=True)
        report = table.mirror.validate()
        assert report.ok, report
        assert report.reader_error is None
        assert report.checkpoint == 4
        objects = table.objects
        before = {item.path: objects.read(item.path) for item in objects.list("_delta_log")}
        lost = [f"_delta_log/{name}" for name in (commit_name(1), checkpoint_name(2))]
        objects.delete(lost)
        objects.delete([f"_delta_log/{commit_name(3)}"])
        objects.put(f"_delta_log/{commit_name(3)}", b"garbage")
        assert not table.mirror.validate().ok
        repaired = table.mirror.repair(force=True)
        assert repaired.ok
        assert repaired.restored == [1, 3]
        assert repaired.checkpoints == [2]
        for path, content in before.items():
            if path.endswith(".json"):
                assert objects.read(path) == content
        assert table.mirror.validate().ok
        assert table.mirror.cleanup().reason


def test_what_lies_there_before_the_first_version_is_mirrored_is_drift(open_lake, log_of):
    table = open_lake(mode="async").create_table("t", SCHEMA)
    table.append(rows(1))
    assert table.mirror.validate().ok
    write_deltalake(log_of(table).folder.parent, rows(100))
    report = table.mirror.validate()
    assert not report.ok
    assert (report.digest_mismatches, report.first_drift) == ([0], 0)


def test_whoever_interrupts_waits_for_the_reads_under_way_alone(lake, make_table, monkeypatch):
    table = make_table(lake, 1)
    objects, reads = table.objects, []

    def read_slowly(_store: object, path: str) -> bytes:
        reads.append(path)
        time.sleep(0.05)
        return b""

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(objects), "read", read_slowly)
    with pytest.raises(KeyboardInterrupt):
        differing(objects, dict.fromkeys(range(400), sha256(b"").digest()), range(400), interrupt)
    assert len(reads) < 100
