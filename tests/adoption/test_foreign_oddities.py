"""What other writers leave in their logs and Delta Spark tolerates: taken in, and kept as it is."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasql.errors import ValidationError
from tests.adoption.logs import METADATA, PROTOCOL, add, commit_file, remove, write_log


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


# --- unknown keys beside an action --------------------------------------------------------


def test_keys_beside_an_action_are_kept_byte_for_byte(tmp_path: Path, any_lake: Any) -> None:
    """As in `transaction_log_schema_evolvability` of Delta Spark's own tests."""
    root = tmp_path / "t"
    write_deltalake(root, rows(1))
    write_deltalake(root, rows(2), mode="append")
    lines = [json.loads(line) for line in commit_file(root, 1).read_text().splitlines()]
    for line in lines:
        line["some_new_action_alongside"] = {"a": 1, "b": [None, 1.50]}
    # Not as we would write it: blanks, and the unknown key first.
    odd = [json.dumps(dict(sorted(line.items(), reverse=True))) for line in lines]
    odd += ['{"new_action" : {"x":1}, "another_one": 2}', '{"txn": null, "alone":1.50}']
    commit_file(root, 1).write_text("".join(line + "\n" for line in odd))
    before = {path.name: path.read_bytes() for path in (root / "_delta_log").glob("*.json")}

    # Proven as every adoption is: by what another reader finds in it.
    table = any_lake.adopt(str(root), name="t")
    assert ids(table) == [1, 2]
    bodies = {
        f"{record.version:020}.json": record.body
        for record in any_lake.store.commits(table.table_id, after=-1)
    }
    assert {name: bodies[name] for name in before} == before
    assert table.append(rows(3)) == 3
    assert ids(table) == [1, 2, 3]
    any_lake.mirror.run(once=True)

    # Lost from the mirror, it comes back as it was.
    commit_file(root, 1).unlink()
    table.mirror.repair()
    assert commit_file(root, 1).read_bytes() == before[commit_file(root, 1).name]
    assert table.mirror.validate().ok
    copy, links = tmp_path / "copy", tmp_path / "links"
    table.mirror.export(str(copy), copy_data=True)
    assert commit_file(copy, 1).read_bytes() == before[commit_file(root, 1).name]
    table.mirror.export(str(links))
    (file,) = [line for line in _lines(links) if "add" in line]
    assert file["add"]["path"].startswith("file://")
    assert file["some_new_action_alongside"] == {"a": 1, "b": [None, 1.5]}


def _lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in commit_file(root, 1).read_text().splitlines()]


# --- properties that mean nothing -----------------------------------------------------------

ODD = {
    "delta.checkpointInterval": "every ten",
    "delta.deletedFileRetentionDuration": "",
    "delta.logRetentionDuration": "1 month",
    "delta.setTransactionRetentionDuration": "999999999999999999999 weeks",
    "delta.dataSkippingNumIndexedCols": "many",
    "delta.futureProperty": "1",
    "mirror.mode": "of",
}


def test_properties_that_mean_nothing_do_not_stop_the_mirror(
    tmp_path: Path, open_lake: Any, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    lake = open_lake(store_url, checkpoint_interval=4)
    root = tmp_path / "t"
    write_deltalake(root, rows(0))
    lines = [json.loads(line) for line in commit_file(root, 0).read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"] = ODD
    commit_file(root, 0).write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = lake.adopt(str(root), name="t", validate=False)
    with caplog.at_level(logging.WARNING, "deltasql.mirror"):
        for number in range(4):
            table.append(rows(number))
        lake.mirror.run(once=True)
        assert table.mirror.cleanup(dry_run=True).deleted == ()
    status = table.mirror.status()
    assert (status.lag_versions, status.error_message) == (0, None), status
    assert (root / "_delta_log" / f"{4:020}.checkpoint.parquet").exists()
    assert DeltaTable(root).version() == 5
    warned = {line.key for line in caplog.records if "the default applies" in line.getMessage()}
    assert warned == ODD.keys() - {"delta.futureProperty"}
    assert len([line for line in caplog.records if "the default applies" in line.getMessage()]) == 6

    # They are no obstacle to other changes, and can be mended.
    metadata = table.snapshot().metadata
    mended = {**metadata.configuration, "delta.checkpointInterval": "2"}
    wrong = {**mended, "delta.logRetentionDuration": "2 months"}
    with pytest.raises(ValidationError, match=r"delta\.logRetentionDuration"):
        table.commit([{"metaData": {**_wire(metadata), "configuration": wrong}}])
    table.commit([{"metaData": {**_wire(metadata), "configuration": mended}}])
    lake.mirror.run(once=True)
    assert (root / "_delta_log" / f"{6:020}.checkpoint.parquet").exists()


def _wire(metadata: Any) -> dict[str, Any]:
    return {**METADATA["metaData"], "id": metadata.id, "schemaString": metadata.schema_string}


# --- paths ----------------------------------------------------------------------------------


def test_files_of_odd_paths_can_be_removed(tmp_path: Path, lake: Any) -> None:
    paths = ["a//b", "c\nd"]
    root = write_log(tmp_path / "t", [PROTOCOL, METADATA], [add(path) for path in paths])
    table = lake.adopt(str(root), name="t", validate=False)
    assert sorted(file.path for file in table.snapshot().adds()) == paths
    with pytest.raises(ValidationError, match="path"):
        table.commit([add("e//f")])
    table.commit([remove(path) for path in paths], read_version=table.version)
    assert list(table.snapshot().adds()) == []


# --- checkpoints and times of others --------------------------------------------------------


def test_a_checkpoint_may_space_its_json_anew(tmp_path: Path, any_lake: Any) -> None:
    """As in `parsed-stats` of the kernel's tables."""
    root = tmp_path / "t"
    write_deltalake(root, rows(1))
    write_deltalake(root, pa.table({"id": [2], "a, \"b": ["c: \"d\\"]}), mode="append",
                    schema_mode="merge")  # fmt: skip
    DeltaTable(root).create_checkpoint()
    (path,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    lines = pq.read_table(path).to_pylist()
    for line in lines:
        if line["add"] is not None:
            line["add"]["stats"] = json.dumps(json.loads(line["add"]["stats"]))
        if line["metaData"] is not None:
            line["metaData"]["schemaString"] = json.dumps(
                json.loads(line["metaData"]["schemaString"]), indent=1
            )
    pq.write_table(pa.Table.from_pylist(lines, schema=pq.read_schema(path)), path)
    before = path.read_bytes()
    table = any_lake.adopt(str(root), name="t")
    assert table.mirror.validate().ok
    assert any_lake.check("t").ok
    table.mirror.repair()
    assert path.read_bytes() == before, "it is as good as ours"


def test_a_checkpoint_with_other_bounds_is_still_found(tmp_path: Path, any_lake: Any) -> None:
    root = tmp_path / "t"
    write_deltalake(root, rows(1))
    DeltaTable(root).create_checkpoint()
    (path,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    lines = pq.read_table(path).to_pylist()
    for line in lines:
        if line["add"] is not None:
            line["add"]["stats"] = line["add"]["stats"].replace('"id":1', '"id": 7')
    pq.write_table(pa.Table.from_pylist(lines, schema=pq.read_schema(path)), path)
    table = any_lake.adopt(str(root), name="t")
    assert not table.mirror.validate().ok


def test_times_that_go_back_are_no_damage(tmp_path: Path, any_lake: Any) -> None:
    """As in `cdc_ict_table` of delta-rs' tables."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
    metadata = METADATA["metaData"]
    times = (1_700_000_009_000, 1_700_000_001_000, 1_700_000_005_000)
    infos = [{"commitInfo": {"inCommitTimestamp": time, "timestamp": time}} for time in times]
    write_log(
        tmp_path / "t",
        [
            infos[0],
            {"protocol": {**protocol, "writerFeatures": ["inCommitTimestamp"]}},
            {
                "metaData": {
                    **metadata,
                    "configuration": {"delta.enableInCommitTimestamps": "true"},
                }
            },
        ],
        *([info] for info in infos[1:]),
    )
    table = any_lake.adopt(str(tmp_path / "t"), name="t")
    stored = [entry.timestamp.timestamp() * 1000 for entry in reversed(table.history())][:3]
    assert stored == [times[1] - 1, times[1], times[2]]
    assert any_lake.check("t").ok
    any_lake.rebuild("t")
    assert any_lake.check("t", full=True).ok


# --- sizes ----------------------------------------------------------------------------------


def test_sizes_that_no_column_holds_together_are_mirrored(tmp_path: Path, any_lake: Any) -> None:
    root = tmp_path / "t"
    write_deltalake(root, rows(1))
    claimed = add("huge.parquet") | {}
    claimed["add"] = claimed["add"] | {"size": 2**63 - 1, "modificationTime": 2**63 - 1}
    commit_file(root, 1).write_text(json.dumps(claimed) + "\n")
    table = any_lake.adopt(str(root), name="t", validate=False)
    version = table.append(rows(2))
    any_lake.mirror.run(once=True)
    assert table.mirror.status().mirrored_version == version
