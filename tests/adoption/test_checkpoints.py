"""Histories that begin at a checkpoint, of every kind that there is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasql.errors import LogFormatError
from deltasql.spec import codec
from tests.adoption.logs import commit_file

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
VERSION = 10


def make(lake: Any, **properties: str) -> Any:
    """A checkpoint at version 10, with a tombstone, a txn and a domain, and one commit more."""
    table = lake.create_table("made", SCHEMA, partition_by=["day"], properties=properties)
    for number in range(8):
        rows = pa.table({"id": [number], "day": [f"d {number % 2}"]}, schema=SCHEMA)
        table.append(rows, app_id="app", app_version=number)
    table.overwrite(SCHEMA.empty_table(), where="id = 2")
    table.commit([{"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}}])
    assert table.version == VERSION
    lake.mirror.run(once=True)
    table.append(pa.table({"id": [99], "day": ["d 1"]}, schema=SCHEMA))
    lake.mirror.run(once=True)
    return table


def log_of(table: Any) -> Path:
    return Path(table.location.removeprefix("file://")) / "_delta_log"


def classic(log: Path) -> None:
    assert (log / f"{VERSION:020d}.checkpoint.parquet").exists()


def multi_part(log: Path) -> None:
    name = log / f"{VERSION:020d}.checkpoint.parquet"
    whole = pq.read_table(name)
    half = whole.num_rows // 2
    for number, part in enumerate([whole.slice(0, half), whole.slice(half)], start=1):
        pq.write_table(part, log / f"{VERSION:020d}.checkpoint.{number:010d}.{2:010d}.parquet")
    name.unlink()


def v2(log: Path) -> None:
    assert list(log.glob("*.checkpoint.*-*.parquet"))
    assert list((log / "_sidecars").glob("*.parquet"))


def v2_as_json(log: Path) -> None:
    """The top file in JSON, which names the same sidecars."""
    (top,) = log.glob("*.checkpoint.*-*.parquet")
    lines = []
    for row in pq.read_table(top).to_pylist(maps_as_pydicts="strict"):
        for kind, fields in row.items():
            if fields is not None:
                lines.append(json.dumps({kind: _present(fields)}))
    top.unlink()
    (log / f"{VERSION:020d}.checkpoint.{uuid.uuid4()}.json").write_text("\n".join(lines))


def v2_inline(log: Path) -> None:
    """The top file in JSON with its files inline."""
    v2_as_json(log)
    (top,) = log.glob("*.checkpoint.*.json")
    lines = [line for line in top.read_text().splitlines() if "sidecar" not in json.loads(line)]
    for sidecar in (log / "_sidecars").glob("*.parquet"):
        for row in pq.read_table(sidecar).to_pylist(maps_as_pydicts="strict"):
            for kind, fields in row.items():
                if fields is not None:
                    fields.pop("stats_parsed", None)
                    fields.pop("partitionValues_parsed", None)
                    lines.append(json.dumps({kind: _present(fields)}))
        sidecar.unlink()
    top.write_text("\n".join(lines))


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


POLICY = {"delta.checkpointPolicy": "v2"}
FORMS: dict[Callable[[Path], None], dict[str, str]] = {
    classic: {},
    multi_part: {},
    v2: POLICY,
    v2_as_json: POLICY,
    v2_inline: POLICY,
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_begins_at_a_checkpoint(form: Callable[[Path], None], lake: Any) -> None:
    made = make(lake, **FORMS[form])
    log = log_of(made)
    wanted = {version: _facts(made, version) for version in (VERSION, VERSION + 1)}
    form(log)
    for version in range(VERSION):
        commit_file(log.parent, version).unlink()
    lake.drop_table("made")
    table = lake.adopt(made.location, name="again")
    assert {version: _facts(table, version) for version in wanted} == wanted
    assert lake.store.head(table.table_id).earliest_version == VERSION
    assert len(_tombstones(table, VERSION)) == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 3, 4, 5, 6, 7, 99]
    assert table.snapshot().files("day = 'd 0'").num_rows == 3
    assert table.append(pa.table({"id": [5], "day": ["x"]}, schema=SCHEMA)) == VERSION + 2
    assert table.mirror.validate().ok


def _facts(table: Any, version: int) -> tuple[Any, ...]:
    snapshot = table.snapshot(version=version)
    files = sorted(
        codec.dumps({**codec.wire_fields(add), "dataChange": None}) for add in snapshot.adds()
    )
    return files, snapshot.txns, snapshot.domains, snapshot.metadata, snapshot.protocol


def _tombstones(table: Any, version: int) -> list[str]:
    stream = table._lake.store.tombstones(table.table_id, version, newer_than=-1)
    found: list[str] = stream.read_all()["action"].to_pylist()
    return found


@pytest.mark.parametrize("form", [v2_inline, v2_as_json], ids=lambda form: form.__name__)
def test_a_checkpoint_says_things_once(form: Callable[[Path], None], lake: Any) -> None:
    """Each line of a checkpoint once more, or a sidecar without its path: told by the dry run."""
    made = make(lake, **POLICY)
    log = log_of(made)
    form(log)
    for version in range(VERSION):
        commit_file(log.parent, version).unlink()
    lake.drop_table("made")
    (top,) = log.glob("*.checkpoint.*.json")
    lines = top.read_text().splitlines()
    kinds = set()
    for line in lines:
        (kind,) = json.loads(line)
        if kind in kinds or kind in ("checkpointMetadata", "remove"):
            continue
        kinds.add(kind)
        again = line if kind != "sidecar" else '{"sidecar": 7}'
        top.write_text("\n".join([*lines, again]))
        for dry_run in (True, False):
            with pytest.raises(LogFormatError):
                lake.adopt(made.location, name="again", dry_run=dry_run)
        assert lake.store.staged_tables() == []
    assert kinds >= {"txn", "domainMetadata", "metaData", "protocol"}
    assert kinds & {"add", "sidecar"}
