"""Hand-made histories, some of them hostile: SQL agrees with a plain replay at every version."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.adoption.loading import parts
from deltasql.log.replay import Replay
from deltasql.spec import codec
from tests.adoption.logs import METADATA, add, commit_file, remove, vector, write_log

FEATURES = ["deletionVectors", "domainMetadata", "appendOnly", "invariants"]
PROTOCOL = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": FEATURES,
    }
}


def random_history(seed: int, versions: int) -> list[list[Any]]:
    """Adds, restatements, removes of what is live, dead or never was, txns that go back."""
    dice = random.Random(seed)
    commits: list[list[Any]] = [[PROTOCOL, METADATA]]
    for number in range(1, versions):
        used: set[tuple[str, str]] = set()
        actions: list[Any] = [{"commitInfo": {"operation": f"op {number}"}}]
        for _ in range(dice.randrange(5)):
            key = (f"f{dice.randrange(8)}", dice.choice(["", "", "v1", "v2"]))
            if key in used:
                continue
            used.add(key)
            dv = {"deletionVector": vector(key[1], offset=1)} if key[1] else {}
            made = dice.choice([add, add, remove])(key[0], **dv)
            if "add" in made:
                made["add"]["stats"] = json.dumps({"numRecords": number, "note": "a\tb\\c\nd"})
            actions.append(made)
        if dice.random() < 0.3:
            actions.append({"txn": {"appId": "app", "version": dice.randrange(9)}})
        if dice.random() < 0.3:
            domain = {"domain": dice.choice("xy"), "configuration": f"c{number}"}
            actions.append({"domainMetadata": {**domain, "removed": dice.random() < 0.4}})
        if dice.random() < 0.2:
            actions.append({"metaData": {**METADATA["metaData"], "name": f"n{number}"}})
        dice.shuffle(actions)
        commits.append(actions)
    return commits


def must_agree(table: Any, root: Path, versions: int) -> None:
    replay = Replay()
    for version in range(versions):
        body = commit_file(root, version).read_bytes()
        replay.apply(version, codec.decode_commit(body))
        snapshot = table.snapshot(version=version)
        found = {(item.path, item.dv_id): item for item in snapshot.adds()}
        assert found == replay.files, version
        assert snapshot.txns == {name: txn.version for name, txn in replay.txns.items()}
        assert snapshot.domains == {
            name: domain.configuration for name, domain in replay.domains.items()
        }
        assert snapshot.metadata == replay.metadata
        store = table._lake.store
        stream = store.tombstones(table.table_id, version, newer_than=-1)
        gone = [json.loads(text) for text in stream.read_all()["action"].to_pylist()]
        assert sorted(codec.dumps(item) for item in gone) == sorted(
            codec.dumps(codec.wire_fields(item)) for item in replay.tombstones.values()
        ), version


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", [1, 7, 50_000], ids="rows-{}".format)
def test_any_history(seed: int, rows: int, tmp_path: Path, any_lake: Any, monkeypatch: Any) -> None:
    """Parts of every size: what one part knows by itself, another has to ask the database."""
    monkeypatch.setattr(parts, "MOST_ROWS", rows)
    monkeypatch.setattr(parts, "MOST_VERSIONS", max(1, rows // 2))
    root = write_log(tmp_path / "t", *random_history(seed, 25))
    table = any_lake.adopt(str(root), name="t", fence=False, validate=False)
    must_agree(table, root, 25)


def test_metadata_after_its_files_in_a_commit(tmp_path: Path, any_lake: Any) -> None:
    stats = json.dumps({"numRecords": 3, "minValues": {"id": 5}, "maxValues": {"id": 9}})
    root = write_log(tmp_path / "t", [add("a", stats=stats), METADATA, PROTOCOL])
    table = any_lake.adopt(str(root), name="t", fence=False, validate=False)
    assert table.snapshot().files("id = 7").num_rows == 1
    assert table.snapshot().files("id = 10").num_rows == 0


def test_a_commit_in_many_pieces(tmp_path: Path, any_lake: Any, monkeypatch: Any) -> None:
    from deltasql.adoption.loading import history

    monkeypatch.setattr(history, "_SLICE", 3)
    monkeypatch.setattr(parts, "MOST_ROWS", 4)
    first = [PROTOCOL, METADATA, *(add(f"f{number}") for number in range(20))]
    second = [*(remove(f"f{number}") for number in range(0, 20, 2)), add("g")]
    root = write_log(tmp_path / "t", first, second)
    table = any_lake.adopt(str(root), name="t", fence=False, validate=False)
    must_agree(table, root, 2)


def test_lines_as_others_write_them(tmp_path: Path, lake: Any) -> None:
    """Blanks, carriage returns, empty lines, no newline at the end, escapes."""
    text = "\r\n".join(
        [
            json.dumps(PROTOCOL, indent=None, separators=(" , ", " : ")),
            "",
            json.dumps(METADATA),
            json.dumps(add("a%20b/ü", tags={"k:\\": 'q"u'})),
            "   ",
        ]
    )
    root = write_log(tmp_path / "t", [])
    commit_file(root, 0).write_bytes(text.encode())
    table = lake.adopt(str(root), name="t", fence=False, validate=False)
    must_agree(table, root, 1)


def test_typed_stats_become_words(tmp_path: Path, lake: Any) -> None:
    """A checkpoint with stats_parsed alone still prunes."""
    root = write_log(tmp_path / "t", [], [], [{"commitInfo": {}}])
    for version in (0, 1):
        commit_file(root, version).unlink()
    stats = {
        "numRecords": 3,
        "minValues": {"id": 5},
        "maxValues": {"id": 9},
        "nullCount": {"id": 0},
    }
    file = add("a")["add"]
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**METADATA["metaData"], "configuration": [("k", "v")]}},
        {"add": {**file, "partitionValues": [], "stats_parsed": stats}},
    ]
    schema = pa.schema(
        [
            (
                "protocol",
                pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
            ),
            ("metaData", _metadata_type()),
            ("add", _add_type()),
        ]
    )
    for row in rows:
        if "metaData" in row:
            row["metaData"]["format"] = {"provider": "parquet", "options": []}
    log = root / "_delta_log"
    pq.write_table(pa.Table.from_pylist(rows, schema), log / f"{2:020d}.checkpoint.parquet")
    table = lake.adopt(str(root), name="t", fence=False, validate=False)
    (found,) = table.snapshot().adds()
    assert json.loads(found.stats) == stats
    assert table.snapshot().properties == {"k": "v"}
    assert table.snapshot().files("id > 9").num_rows == 0


def _metadata_type() -> pa.DataType:
    texts = pa.map_(pa.string(), pa.string())
    return pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", texts)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", texts),
            ("createdTime", pa.int64()),
        ]
    )


def _add_type() -> pa.DataType:
    numbers = pa.struct([("id", pa.int64())])
    parsed = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", numbers),
            ("maxValues", numbers),
            ("nullCount", numbers),
        ]
    )
    return pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats_parsed", parsed),
        ]
    )
