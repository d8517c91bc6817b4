"""What adoption does beside reading right: fence, read-only, resuming, refusing, replacing."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from deltasql.errors import (
    LogFormatError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.spec import codec
from tests.adoption.logs import METADATA, PROTOCOL, add, commit_file, remove, write_log


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A table of delta-rs with three versions."""
    root = tmp_path / "stock table"
    for number in range(3):
        write_deltalake(root, rows(number), mode="append")
    return root


def ids(table: deltasql.Table, version: int | None = None) -> list[int]:
    return sorted(table.snapshot(version=version).scan().to_arrow().column("id").to_pylist())


# --- the fence ------------------------------------------------------------------------


def test_adopts_in_place_and_goes_on(stock: Path, any_lake: Any) -> None:
    before = {path.name: path.read_bytes() for path in (stock / "_delta_log").glob("*.json")}
    table = any_lake.adopt(str(stock), name="t")
    assert table.version == 3
    assert [ids(table, version) for version in range(4)] == [[0], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert table.append(rows(7)) == 4
    assert ids(table) == [0, 1, 2, 7]
    after = {path.name: path.read_bytes() for path in (stock / "_delta_log").glob("*.json")}
    assert {name: after[name] for name in before} == before
    assert len(after) == 5
    assert sorted(DeltaTable(stock).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 7]
    with pytest.raises(Exception, match=r"(?i)deltasql|feature"):
        write_deltalake(stock, rows(8), mode="append")
    assert table.mirror.validate().ok


def test_exact_bytes_and_times(stock: Path, any_lake: Any) -> None:
    files = [commit_file(stock, version) for version in range(3)]
    for number, file in enumerate(files):
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    table = any_lake.adopt(str(stock), name="t")
    kept = {record.version: record for record in any_lake.store.commits(table.table_id, after=-1)}
    assert [kept[version].body for version in range(3)] == [file.read_bytes() for file in files]
    times = [kept[version].in_commit_timestamp for version in range(3)]
    assert times == [1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000]
    assert kept[3].body == commit_file(stock, 3).read_bytes()


def test_times_that_do_not_grow_are_moved_apart(stock: Path, any_lake: Any) -> None:
    for version in range(3):
        os.utime(commit_file(stock, version), (1_700_000_000, 1_700_000_000))
    table = any_lake.adopt(str(stock), name="t", fence=False)
    found = [record.in_commit_timestamp for record in any_lake.store.history(table.table_id)]
    assert found == [1_700_000_000_002, 1_700_000_000_001, 1_700_000_000_000]


def test_in_commit_times_hold_before_files_that_were_copied_later(
    tmp_path: Path, any_lake: Any
) -> None:
    on = {
        **METADATA["metaData"],
        "configuration": {
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "3",
            "delta.inCommitTimestampEnablementTimestamp": "1600000000000",
        },
    }
    features = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["inCommitTimestamp"],
    }
    root = write_log(
        tmp_path / "t",
        [PROTOCOL, METADATA],
        [add("a")],
        [add("b")],
        [
            {"commitInfo": {"inCommitTimestamp": 1_600_000_000_000}},
            {"protocol": features},
            {"metaData": on},
        ],
        [{"commitInfo": {"inCommitTimestamp": 1_600_000_000_005}}, add("c")],
    )
    table = any_lake.adopt(str(root), name="t", fence=False, validate=False)
    found = [record.in_commit_timestamp for record in any_lake.store.history(table.table_id)]
    assert found == [1_600_000_000_005, *(1_600_000_000_000 - step for step in range(4))]


def test_without_a_fence_nothing_is_committed(stock: Path, lake: Any) -> None:
    names = sorted(path.name for path in (stock / "_delta_log").iterdir())
    table = lake.adopt(str(stock), name="t", fence=False)
    assert table.version == 2
    assert table.read_only is None
    assert sorted(path.name for path in (stock / "_delta_log").iterdir()) == names
    assert table.append(rows(9)) == 3
    write_deltalake(stock, rows(10), mode="append")


def test_fence_keeps_what_the_old_protocol_implied(stock: Path, lake: Any) -> None:
    table = lake.adopt(str(stock), name="t")
    protocol = table.snapshot().protocol
    assert protocol.min_reader_version == 1
    assert set(protocol.writer_features or ()) == {
        "appendOnly",
        "invariants",
        "inCommitTimestamp",
        "deltasql",
    }
    properties = table.snapshot().properties
    assert properties["delta.inCommitTimestampEnablementVersion"] == "3"
    stamp = table.history(limit=1)[0].timestamp.timestamp() * 1000
    assert properties["delta.inCommitTimestampEnablementTimestamp"] == str(round(stamp))


def test_dry_run_writes_nothing(stock: Path, lake: Any) -> None:
    report = lake.adopt(str(stock), name="t", dry_run=True)
    assert (report.version, report.versions, report.files) == (2, 3, 3)
    assert report.commits
    assert report.read_only is None
    assert "appendOnly" in report.features
    assert lake.tables() == []
    assert lake.store.staged_tables() == []
    assert not commit_file(stock, 3).exists()


def test_progress(stock: Path, lake: Any) -> None:
    seen: list[Any] = []
    lake.adopt(str(stock), name="t", progress=seen.append)
    assert [item.version for item in seen] == [0, 1, 2, 3]
    assert seen[0].newest == 2


# --- what can't be written ------------------------------------------------------------


def test_a_feature_that_is_not_written_makes_it_read_only(tmp_path: Path, any_lake: Any) -> None:
    features = ["columnMapping", "icebergCompatV2", "appendOnly", "invariants"]
    protocol = {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": features}
    root = write_log(tmp_path / "t", [{"protocol": protocol}, METADATA], [add("a")])
    table = any_lake.adopt(str(root), name="t")
    assert "icebergCompatV2" in table.read_only
    assert table.version == 1
    assert not commit_file(root, 2).exists()
    with pytest.raises(ValidationError, match="read-only"):
        table.commit([add("b")])
    # Its writers go on; adopting it once more takes their commits in.
    write_log(root, [add("b")], first=2)
    again = any_lake.adopt(str(root), name="t")
    assert again.version == 2
    assert [item.name for item in any_lake.tables()] == ["t"]


def test_a_writer_feature_nobody_knows_is_read_only(tmp_path: Path, lake: Any) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["tomorrow"]}
    root = write_log(tmp_path / "t", [{"protocol": protocol}, METADATA])
    assert "tomorrow" in lake.adopt(str(root), name="t").read_only


def test_a_reader_feature_nobody_knows_is_refused(tmp_path: Path, lake: Any) -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["tomorrow"],
        "writerFeatures": ["tomorrow"],
    }
    root = write_log(tmp_path / "t", [{"protocol": protocol}, METADATA])
    with pytest.raises(UnsupportedFeatureError, match="tomorrow") as caught:
        lake.adopt(str(root), name="t")
    assert caught.value.features == ("tomorrow",)
    assert lake.store.staged_tables() == []


@pytest.mark.parametrize("protocol_first", [True, False])
def test_a_type_of_an_unknown_feature_names_the_feature(
    protocol_first: bool, tmp_path: Path, lake: Any
) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["tomorrow"]}
    lines = [{"protocol": protocol}, typed("timestamp_of_tomorrow")]
    root = write_log(tmp_path / "t", lines if protocol_first else lines[::-1])
    with pytest.raises(UnsupportedFeatureError, match="tomorrow") as caught:
        lake.adopt(str(root), name="t")
    assert caught.value.features == ("tomorrow",)


def test_a_type_of_no_feature_is_named_itself(tmp_path: Path, lake: Any) -> None:
    root = write_log(tmp_path / "t", [PROTOCOL, typed("timestamp_of_tomorrow")])
    with pytest.raises(UnsupportedFeatureError, match="json:2") as caught:
        lake.adopt(str(root), name="t")
    assert caught.value.features == ("type timestamp_of_tomorrow",)


def typed(name: str) -> dict[str, Any]:
    """Metadata of one column of that type."""
    field = {"name": "a", "type": name, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    return {"metaData": {**METADATA["metaData"], "schemaString": schema}}


# --- names and places -----------------------------------------------------------------


def test_no_table_there(tmp_path: Path, lake: Any) -> None:
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        lake.adopt(str(tmp_path / "nothing"), name="t")


def test_a_table_is_adopted_once(stock: Path, tmp_path: Path, any_lake: Any) -> None:
    any_lake.adopt(str(stock), name="t")
    with pytest.raises(TableExistsError, match="it is t"):
        any_lake.adopt(stock.as_uri(), name="u")
    with pytest.raises(TableExistsError, match="already"):
        any_lake.adopt(str(stock), name="t")
    other = tmp_path / "other"
    write_deltalake(other, rows(1))
    with pytest.raises(TableExistsError, match="already"):
        any_lake.adopt(str(other), name="t")
    assert not commit_file(other, 1).exists()


# --- after the loss of SQL ------------------------------------------------------------


def test_rebuild_from_the_mirror(open_lake: Any, tmp_path: Path) -> None:
    lake = open_lake()
    table = lake.create_table("t", rows().schema)
    for number in range(12):
        table.append(rows(number), app_id="app", app_version=number)
    lake.mirror.run(once=True)
    history = table.history()
    lake.close()
    (tmp_path / "lake.db").unlink()
    again = open_lake()
    rebuilt = again.adopt(table.location, name="t")
    assert rebuilt.version == 12
    assert [ids(rebuilt, version) for version in (0, 5, 12)] == [
        [],
        list(range(5)),
        list(range(12)),
    ]
    assert rebuilt.history() == history
    assert rebuilt.snapshot().txns == {"app": 11}
    assert rebuilt.append(rows(99)) == 13
    assert rebuilt.mirror.validate().ok


# --- foreign writers meanwhile --------------------------------------------------------


def test_a_commit_that_slips_in_is_picked_up(stock: Path, any_lake: Any) -> None:
    """Just as the fence is about to be written, a stock writer takes its version."""
    put = any_lake.objects(str(stock)).put_if_absent
    slipped = []

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def put_if_absent(self, path: str, data: Any) -> bool:
            if len(slipped) < 3:
                slipped.append(path)
                write_deltalake(stock, rows(100 + len(slipped)), mode="append")
            return put(path, data)

    racing = Racing()
    racing.inner = any_lake.objects(str(stock))  # type: ignore[attr-defined]
    any_lake.objects.use(str(stock), racing)
    table = any_lake.adopt(str(stock), name="t")
    assert table.version == 6
    assert ids(table) == [0, 1, 2, 101, 102, 103]
    assert [entry.operation for entry in table.history()].count("ADOPT") == 1


def test_a_commit_after_the_fence_is_taken_in(tmp_path: Path, lake: Any) -> None:
    """A writer that does not look at the protocol: what it wrote is in the log, and so in SQL."""
    root = write_log(tmp_path / "t", [PROTOCOL, METADATA], [add("a")])
    put = lake.objects(str(root)).put_if_absent

    class Careless:
        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def put_if_absent(self, path: str, data: Any) -> bool:
            done = put(path, data)
            write_log(root, [add("b")], first=3)
            return done

    careless = Careless()
    careless.inner = lake.objects(str(root))  # type: ignore[attr-defined]
    lake.objects.use(str(root), careless)
    table = lake.adopt(str(root), name="t", validate=False)
    assert table.version == 3
    assert sorted(found.path for found in table.snapshot().adds()) == ["a", "b"]


def test_a_failed_proof_leaves_everything_as_it_was(
    stock: Path, lake: Any, monkeypatch: Any
) -> None:
    from deltasql.mirror.validation import second_reader

    right = second_reader._read

    def wrong(*question: Any) -> second_reader.IndependentView:
        other = pa.RecordBatch.from_pydict({"path": ["other"], "size": [1]})
        return replace(right(*question), files=[other])

    monkeypatch.setattr(second_reader, "_read", wrong)
    with pytest.raises(LogFormatError, match="differently"):
        lake.adopt(str(stock), name="t")
    assert lake.tables() == []
    assert lake.store.staged_tables() == []
    assert not commit_file(stock, 3).exists()
    assert lake.adopt(str(stock), name="t", validate=False).version == 3


def test_unknown_actions_and_fields_survive(tmp_path: Path, any_lake: Any) -> None:
    odd = add("a")
    odd["add"]["invented"] = {"b": [1, None]}
    unknown = {"later": {"x": 1}}
    info = {"commitInfo": {"operation": 7, "operationParameters": "none", "timestamp": "now"}}
    root = write_log(tmp_path / "t", [info, PROTOCOL, METADATA, odd, unknown], [remove("a")])
    table = any_lake.adopt(str(root), name="t", validate=False)
    (found,) = table.snapshot(version=0).adds()
    assert found.extra == {"invented": {"b": [1, None]}}
    body = next(any_lake.store.commits(table.table_id, after=-1, upto=0)).body
    assert body == commit_file(root, 0).read_bytes()
    kinds = [codec.to_wire(action) for action in table.changes(0, 0)[0].actions]
    assert unknown in kinds


def test_two_at_once_adopt_it_once(stock: Path, open_lake: Any, store_url: str) -> None:
    one = open_lake(store_url)
    done: list[Any] = []

    def adopt(name: str) -> None:
        try:
            done.append(one.adopt(str(stock), name=name))
        except deltasql.DeltaSqlError as error:
            done.append(error)

    threads = [threading.Thread(target=adopt, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    tables = one.tables()
    assert len(tables) == 1
    assert sum(isinstance(item, deltasql.Table) for item in done) == 1
    assert ids(tables[0]) == [0, 1, 2]
    assert one.store.staged_tables() == []
    (told,) = [item for item in done if isinstance(item, Exception)]
    # By whom it was found depends on the moment; that it was slow is never the reason.
    assert isinstance(told, deltasql.TableExistsError | deltasql.LocationTakenError)
    assert f"use {tables[0].name}" in told.remedy


def test_relative_locations_are_those_of_the_moment(
    tmp_path: Path, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        write_deltalake(tmp_path / folder / "t", rows(*folder.encode()))
    monkeypatch.chdir(tmp_path / "a")
    one = lake.adopt("t", "one")
    monkeypatch.chdir(tmp_path / "b")
    assert lake.adopt("t", "two", dry_run=True).location == (tmp_path / "b" / "t").as_uri()
    two = lake.adopt("t", "two")
    assert (ids(one), ids(two)) == ([ord("a")], [ord("b")])


def test_locations_with_odd_names(tmp_path: Path, lake: Any) -> None:
    root = tmp_path / "a b#ü"
    write_deltalake(root, rows(1))
    table = lake.adopt(str(root), name="t")
    assert ids(lake.table("t")) == [1]
    assert table.append(rows(2)) == 2
    assert sorted(DeltaTable(root).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_a_copy_is_its_own_table(stock: Path, tmp_path: Path, lake: Any) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stock, copy)
    one, two = lake.adopt(str(stock), name="one"), lake.adopt(str(copy), name="two")
    one.append(rows(50))
    assert ids(one) == [0, 1, 2, 50]
    assert ids(two) == [0, 1, 2]
    assert json.loads(commit_file(copy, 3).read_text().splitlines()[0])["commitInfo"]
