"""A corrupt log is refused, by file and line, and SQL stays as it was."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasql.errors import LogFormatError
from tests.adoption.logs import METADATA, PROTOCOL, add, commit_file, remove, vector, write_log

NAME = "{:020d}.json"


def good(root: Path) -> Path:
    """Version 0 says what the table is; three more have files."""
    return write_log(
        root,
        [{"commitInfo": {"operation": "CREATE TABLE"}}, PROTOCOL, METADATA],
        [{"commitInfo": {}}, add("a"), add("b")],
        [{"commitInfo": {}}, remove("a"), add("c"), {"txn": {"appId": "x", "version": 1}}],
        [{"commitInfo": {}}, add("d")],
    )


def replace_line(root: Path, version: int, number: int, line: str) -> None:
    file = commit_file(root, version)
    lines = file.read_text().splitlines()
    lines[number - 1] = line
    file.write_text("\n".join(lines) + "\n")


def _missing(root: Path) -> None:
    commit_file(root, 2).unlink()


def _missing_first(root: Path) -> None:
    commit_file(root, 0).unlink()


def _truncated(root: Path) -> None:
    file = commit_file(root, 2)
    file.write_text(file.read_text().rstrip()[:-20])


def _empty(root: Path) -> None:
    commit_file(root, 2).write_text("")


def _no_protocol(root: Path) -> None:
    replace_line(root, 0, 2, "")


def _no_metadata(root: Path) -> None:
    replace_line(root, 0, 3, "")


def _two_protocols(root: Path) -> None:
    replace_line(root, 1, 1, json.dumps(PROTOCOL))
    replace_line(root, 1, 2, json.dumps(PROTOCOL))


def _two_metadata(root: Path) -> None:
    replace_line(root, 1, 1, json.dumps(METADATA))
    replace_line(root, 1, 3, json.dumps(METADATA))


def _wrong_type(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("b", size="big")))


def _wrong_partition_values(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("b", partitionValues={"p": 1})))


def _missing_field(root: Path) -> None:
    line = add("b")
    del line["add"]["modificationTime"]
    replace_line(root, 1, 3, json.dumps(line))


def _doubled_key(root: Path) -> None:
    replace_line(
        root, 1, 3, json.dumps(add("b")).replace('"path": "b"', '"path": "b", "path": "z"')
    )


def _doubled_key_far_in(root: Path) -> None:
    line = json.dumps(add("b", tags={"q": "1"})).replace('"q": "1"', '"q" : "1", "q":"2"')
    replace_line(root, 1, 3, line)


def _doubled_action(root: Path) -> None:
    replace_line(root, 1, 3, '{"add":{}, "add":{}}')


def _file_twice(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("a")))


def _added_and_removed(root: Path) -> None:
    replace_line(root, 2, 3, json.dumps(add("a")))


def _txn_twice(root: Path) -> None:
    replace_line(root, 2, 3, json.dumps({"txn": {"appId": "x", "version": 2}}))


def _two_actions(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps({**add("b"), **remove("c")}))


def _not_an_object(root: Path) -> None:
    replace_line(root, 1, 3, "[1, 2]")


def _bad_schema(root: Path) -> None:
    broken = {"metaData": {**METADATA["metaData"], "schemaString": '{"type":"struct"}'}}
    replace_line(root, 0, 3, json.dumps(broken))


def _bad_protocol(root: Path) -> None:
    wrong = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 2}}
    replace_line(root, 0, 2, json.dumps(wrong))


def _nul(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("b\0c")))


def _bad_vector(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("b", deletionVector=vector("x", cardinality="1"))))


def _deep(root: Path) -> None:
    replace_line(root, 1, 1, '{"commitInfo":{"x":' + "[" * 900 + "]" * 900 + "}}")


def _half_a_character(root: Path) -> None:
    replace_line(root, 1, 1, '{"commitInfo":{"x":"\\ud800","n":12345678901234567890}}')


def _climbing(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("../b")))


def _climbing_in_disguise(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("x/%2E%2e/%2e./b")))


def _climbing_by_scheme(root: Path) -> None:
    replace_line(root, 1, 3, json.dumps(add("s3://bucket/t/../b")))


def _climbing_change(root: Path) -> None:
    change = {"path": "_change_data/../../b", "partitionValues": {}, "size": 1, "dataChange": False}
    replace_line(root, 1, 3, json.dumps({"cdc": change}))


def _beyond_calendars(root: Path) -> None:
    configuration = {"delta.enableInCommitTimestamps": "true"}
    timed = {"metaData": {**METADATA["metaData"], "configuration": configuration}}
    features = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["inCommitTimestamp"],
    }
    replace_line(root, 0, 1, '{"commitInfo":{"inCommitTimestamp":1}}')
    replace_line(root, 0, 2, json.dumps({"protocol": features}))
    replace_line(root, 0, 3, json.dumps(timed))
    replace_line(root, 1, 1, '{"commitInfo":{"inCommitTimestamp":999999999999999}}')


CORRUPTIONS: dict[Callable[[Path], None], str] = {
    _missing: NAME.format(2),
    _truncated: f"{NAME.format(2)}:4",
    _empty: f"{NAME.format(2)}:1",
    _no_protocol: NAME.format(0),
    _no_metadata: NAME.format(0),
    _missing_first: NAME.format(0),
    _two_protocols: f"{NAME.format(1)}:2",
    _two_metadata: f"{NAME.format(1)}:3",
    _wrong_type: f"{NAME.format(1)}:3",
    _wrong_partition_values: f"{NAME.format(1)}:3",
    _missing_field: f"{NAME.format(1)}:3",
    _doubled_key: f"{NAME.format(1)}:3",
    _doubled_key_far_in: f"{NAME.format(1)}:3",
    _doubled_action: f"{NAME.format(1)}:3",
    _file_twice: f"{NAME.format(1)}:3",
    _added_and_removed: f"{NAME.format(2)}:3",
    _txn_twice: f"{NAME.format(2)}:4",
    _two_actions: f"{NAME.format(1)}:3",
    _not_an_object: f"{NAME.format(1)}:3",
    _bad_schema: f"{NAME.format(0)}:3",
    _bad_protocol: f"{NAME.format(0)}:2",
    _nul: f"{NAME.format(1)}:3",
    _bad_vector: f"{NAME.format(1)}:3",
    _deep: f"{NAME.format(1)}:1",
    _half_a_character: f"{NAME.format(1)}:1",
    _climbing: f"{NAME.format(1)}:3",
    _climbing_in_disguise: f"{NAME.format(1)}:3",
    _climbing_by_scheme: f"{NAME.format(1)}:3",
    _climbing_change: f"{NAME.format(1)}:3",
    _beyond_calendars: NAME.format(1),
}


@pytest.mark.parametrize("dry_run", [False, True], ids=["adopt", "dry-run"])
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda call: call.__name__.strip("_"))
def test_refused_by_file_and_line(
    corrupt: Callable[[Path], None], dry_run: bool, tmp_path: Path, lake: Any
) -> None:
    root = good(tmp_path / "t")
    corrupt(root)
    before = dump(tmp_path / "lake.db")
    with pytest.raises(LogFormatError) as caught:
        lake.adopt(str(root), name="t", dry_run=dry_run)
    assert CORRUPTIONS[corrupt] in caught.value.problem
    assert dump(tmp_path / "lake.db") == before
    assert not commit_file(root, 4).exists()


def test_the_good_one_is_good(tmp_path: Path, lake: Any) -> None:
    table = lake.adopt(str(good(tmp_path / "t")), name="t")
    assert table.version == 4
    assert sorted(found.path for found in table.snapshot().adds()) == ["b", "c", "d"]


def dump(path: Path) -> list[str]:
    """Everything in the database but ids that were used up."""
    with sqlite3.connect(path) as connection:
        lines = [line for line in connection.iterdump() if "sqlite_sequence" not in line]
    connection.close()
    return lines


# --- checkpoints --------------------------------------------------------------------------


@pytest.fixture
def truncated(tmp_path: Path) -> Path:
    """A table whose history begins at its checkpoint of version 2."""
    root = tmp_path / "t"
    for number in range(3):
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, pa.table({"id": [3]}), mode="append")
    for version in (0, 1):
        commit_file(root, version).unlink()
    return root


def checkpoint(root: Path) -> Path:
    return root / "_delta_log" / f"{2:020d}.checkpoint.parquet"


def rewrite(root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = pq.read_table(checkpoint(root))
    pq.write_table(change(table), checkpoint(root))


def refused(lake: Any, root: Path, match: str) -> None:
    with pytest.raises(LogFormatError, match=match):
        lake.adopt(str(root), name="t")
    assert lake.tables() == []
    assert lake.store.staged_tables() == []


def test_truncated_history_is_fine(truncated: Path, any_lake: Any) -> None:
    table = any_lake.adopt(str(truncated), name="t")
    assert table.version == 4
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [0, 1, 2, 3]
    assert table.snapshot(version=2).scan().to_arrow().num_rows == 3
    assert any_lake.store.head(table.table_id).earliest_version == 2
    assert table.mirror.validate().ok
    assert table.append(pa.table({"id": [9]})) == 5


def test_older_commits_are_history(truncated: Path, any_lake: Any) -> None:
    write_log(truncated, [add("gone")], first=1)
    table = any_lake.adopt(str(truncated), name="t")
    assert [entry.version for entry in table.history()] == [4, 3, 2, 1]
    assert any_lake.store.head(table.table_id).earliest_version == 2
    assert table.changes(1, 1)[0].actions[0].path == "gone"


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_checkpoint_lacks_the_table(kind: str, truncated: Path, lake: Any) -> None:
    rewrite(truncated, lambda table: table.drop_columns([kind]))
    refused(lake, truncated, rf"checkpoint\.parquet: the checkpoint has 0 {kind}")


def test_checkpoint_has_a_file_twice(truncated: Path, lake: Any) -> None:
    rewrite(truncated, lambda table: pa.concat_tables([table, table.filter(_adds(table))]))
    refused(lake, truncated, r"checkpoint\.parquet: the checkpoint has the file .* twice")


def _adds(table: pa.Table) -> pa.ChunkedArray:
    return table["add"].is_valid()


def test_checkpoint_is_no_parquet(truncated: Path, lake: Any) -> None:
    checkpoint(truncated).write_bytes(b"PAR1 not really")
    refused(lake, truncated, NAME.format(1))


def test_incomplete_multi_part_checkpoint(truncated: Path, lake: Any) -> None:
    log = truncated / "_delta_log"
    checkpoint(truncated).rename(log / f"{2:020d}.checkpoint.0000000001.0000000002.parquet")
    with pytest.raises(LogFormatError, match=NAME.format(1)) as caught:
        lake.adopt(str(truncated), name="t")
    assert f"{2:020d}.checkpoint.0000000002.0000000002.parquet is missing" in caught.value.cause


def test_incomplete_checkpoint_beside_all_commits_is_passed_by(tmp_path: Path, lake: Any) -> None:
    root = good(tmp_path / "t")
    (root / "_delta_log" / f"{2:020d}.checkpoint.0000000001.0000000002.parquet").write_bytes(b"")
    report = lake.adopt(str(root), name="t", dry_run=True)
    assert "incomplete" in report.problems[0]
    assert lake.adopt(str(root), name="t").version == 4


def test_hole_below_a_checkpoint(truncated: Path, lake: Any) -> None:
    shutil.copy(commit_file(truncated, 2), commit_file(truncated, 0))
    report = lake.adopt(str(truncated), name="t", dry_run=True)
    assert any(NAME.format(1) in problem for problem in report.problems)
    assert (report.earliest_version, report.version) == (2, 3)


def test_stale_side_files_are_passed_by(tmp_path: Path, lake: Any) -> None:
    root = good(tmp_path / "t")
    log = root / "_delta_log"
    (log / f".{1:020d}.json.crc").write_bytes(b"crc\0stale")
    (log / "_last_checkpoint").write_text("garbage")
    (log / f"{1:020d}.{2:020d}.compacted.json").write_text("nonsense")
    (log / "_staged_commits").mkdir()
    staged = f"{4:020d}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"
    (log / "_staged_commits" / staged).write_text("{}")
    (log / "._junk").write_text("x")
    assert lake.adopt(str(root), name="t").version == 4
