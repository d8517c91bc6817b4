"""Commits of a strict writer whose rows say whatever it likes: others are not harmed by them."""

from __future__ import annotations

import json
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest

import deltasql
from deltasql.store.rows import partition_key_of
from tests.cli.grants.statements import ROWS, as_role, refusal

_COMMIT = (
    "SELECT dl_commit(1, %s, false, NULL, NULL, 0, 0, %s, %s, %s, NULL, 'WRITE', '{{}}', NULL,"
    " false, {adds}, %s, NULL, %s, true)"
)
_ADD = (
    "ARRAY[ROW(%(key)s, ''::bytea, %(partition)s, 1, 0, 1, NULL, NULL, true, NULL, NULL, NULL,"
    " %(path)s, '{}', NULL, NULL, NULL, NULL, NULL)::dl_added_file]"
)
_SCHEMA = '{"type":"struct","fields":[]}'
ODD_METADATA = {
    "schema": {"schemaString": "nope"},
    "deep schema": {"schemaString": "[" * 100_000},
    "decimal": {"schemaString": _SCHEMA.replace(
        "[]", '[{"name":"x","type":"decimal(99,99)","nullable":true,"metadata":{}}]')},
    "properties": {"configuration": {
        "delta.checkpointInterval": "0",
        "delta.logRetentionDuration": "interval 99999999999999999 days",
        "delta.deletedFileRetentionDuration": "interval -1 days",
        "delta.columnMapping.mode": "odd",
        "delta.constraints.x": "error('x')",
    }},
    "no metadata": "nope",
}  # fmt: skip


def _commit(
    forger: psycopg.Connection,
    *,
    path: str | None = None,
    removes: Any = None,
    other: Any = None,
) -> None:
    adds = "ARRAY[]::dl_added_file[]"
    if path is not None:
        adds = psycopg.ClientCursor(forger).mogrify(
            _ADD, {"key": _key(path), "partition": partition_key_of("{}"), "path": path}
        )
    body = (b'{"commitInfo":{"timestamp":', b',"inCommitTimestamp":', b"}}\n")
    statement = _COMMIT.format(adds=adds.replace("%", "%%"))
    given = [None if item is None else json.dumps(item) for item in (removes, other)]
    forger.execute(statement, [uuid.uuid4().hex, *body, *given])


def _key(path: str) -> bytes:
    return sha256(path.encode()).digest()[:16]


@pytest.mark.parametrize("strict", [True])
@pytest.mark.parametrize("ends", ["vacuum", "purge"])
def test_nothing_elsewhere_is_deleted(connect_as, postgres_url, names, tmp_path, ends):
    """Files that were added, and removed again, wherever their paths lead."""
    owner = connect_as("owner")
    other = owner.create_table("u", ROWS.schema)
    other.append(ROWS)
    (name,) = other.snapshot().files().column("path").to_pylist()
    here = Path(owner.table("t").location.removeprefix("file://"))
    there = Path(other.location.removeprefix("file://"))
    (here / "link").symlink_to(there)
    secret = tmp_path / "secret"
    secret.write_text("x")
    paths = [
        f"../u/{name}", f"%2e%2e/u/{name}", f"%2E%2E%2Fu%2F{name}", f"x/../../u/{name}",
        f"_delta_log/../../u/{name}", f"link/{name}", f"..\\u\\{name}", f"//{there}/{name}",
        f"../u/_delta_log/{0:020}.json", "../../secret", f"_delta_log/{0:020}.json",
        *(form.format(place) for place in (secret, there / name)
          for form in ("{}", "file:{}", "file://{}", "FILE://{}", "file://localhost{}")),
    ]  # fmt: skip
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        for path in paths:
            action = {"path": path, "deletionTimestamp": 0, "dataChange": True}
            added = json.dumps({**action, "size": 1, "partitionValues": {}})
            removed = {"path_key": "\\x" + _key(path).hex(), "dv_key": "\\x", "path": path,
                       "deletion_timestamp": 0, "data_change": True,
                       "action": json.dumps(action)}  # fmt: skip
            changed = {"path": path, "size_bytes": 1, "partition_values": "{}", "action": added}
            _commit(forger, path=path)
            _commit(forger, removes=[removed])
            _commit(forger, other={"cdc": [changed]})
    if ends == "vacuum":
        for _ in range(2):
            owner.table("t").vacuum(0, dry_run=False, enforce_retention_duration=False)
        assert (here / "_delta_log" / f"{0:020}.json").exists()
    else:
        assert owner.drop_table("t", purge=True).elsewhere
    assert secret.exists()
    assert (there / "_delta_log" / f"{0:020}.json").exists()
    assert owner.table("u").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("strict", [True])
@pytest.mark.parametrize("odd", ODD_METADATA.values(), ids=ODD_METADATA)
def test_what_one_table_says_stops_no_other(connect_as, postgres_url, names, odd):
    """Its own readers are told; everything that goes over all tables goes on."""
    owner = connect_as("owner")
    other = owner.create_table("u", ROWS.schema)
    action: Any = odd
    if isinstance(odd, dict):
        action = {"id": "x", "format": {"provider": "parquet", "options": {}},
                  "schemaString": _SCHEMA, "partitionColumns": [], "configuration": {},
                  "createdTime": 0, **odd}  # fmt: skip
    row = {"schema_json": "nope", "partition_columns": "nope", "table_properties": "nope",
           "stats_columns": "nope", "action": json.dumps(action)}  # fmt: skip
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        _commit(forger, other={"metadata": [row]})
    other.append(ROWS)
    owner.mirror.run(once=True)
    assert other.mirror.status().lag_versions == 0
    assert [table.name for table in owner.tables()] == ["t", "u"]
    assert len(owner.audit("2020-01-01", "2999-01-01")) == 5
    owner.maintenance.run()
    owner.leftovers()
    for call in (
        owner.mirror.status, owner.mirror.validate, owner.mirror.repair, owner.check,
        owner.vacuum, owner.expire, lambda: owner.table("t").scan().to_arrow(),
        lambda: owner.table("t").detail(), lambda: owner.table("t").history(),
    ):  # fmt: skip
        try:
            call()
        except deltasql.DeltaSqlError:
            continue
    assert owner.mirror.validate().tables["u"].ok


@pytest.mark.parametrize("strict", [True])
@pytest.mark.parametrize("name", ["", "..", "a/../../b", "x\x1b[31m", "a" * 100_000, "a\nb"])
def test_a_table_of_any_name_is_renamed_back(connect_as, postgres_url, names, name):
    with psycopg.connect(as_role(postgres_url, names["writer"]), autocommit=True) as forger:
        assert refusal(forger, psycopg.ClientCursor(forger).mogrify(
            "SELECT dl_rename_table(1, %s)", [name])) is None  # fmt: skip
    owner = connect_as("owner")
    owner.mirror.run(once=True)
    owner.mirror.status()
    assert owner.rename_table(name, "t").scan().to_arrow().num_rows == 2
