"""NUL characters and very long names in every text of a log: told alike by all databases."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

import deltasql
from tests.adoption.forms.checkpoints import KINDS, parquet
from tests.adoption.logs import METADATA, PROTOCOL, SCHEMA, add, remove, write_log

NUL = "a\0b"
# No index of a database takes it, however well it is packed.
LONG = "".join(random.Random(22).choices(string.ascii_letters, k=9_000))
FEATURES = {"minReaderVersion": 1, "minWriterVersion": 7}


def _protocol(*features: str) -> dict[str, Any]:
    return {"protocol": {**FEATURES, "writerFeatures": list(features)}}


def _metadata(**changed: Any) -> dict[str, Any]:
    return {"metaData": {**METADATA["metaData"], **changed}}


def _partitioned(name: str) -> list[dict[str, Any]]:
    schema = json.loads(SCHEMA)
    schema["fields"].append({"name": name, "type": "string", "nullable": True, "metadata": {}})
    metadata = _metadata(schemaString=json.dumps(schema), partitionColumns=[name])
    return [PROTOCOL, metadata, add("x", partitionValues={name: "v"})]


def _with(*actions: dict[str, Any]) -> list[dict[str, Any]]:
    return [PROTOCOL, METADATA, *actions]


def _logs(text: str) -> dict[str, list[dict[str, Any]]]:
    domain = {"domain": text, "configuration": text, "removed": False}
    vector = {"storageType": "u", "pathOrInlineDv": text, "sizeInBytes": 1, "cardinality": 1}
    info = {"operation": text, "userName": text, "operationParameters": {text: text}}
    change = {"path": text, "size": 1, "partitionValues": {text: text}, "dataChange": False}
    return {
        "feature": [_protocol(text), METADATA],
        "txn": _with({"txn": {"appId": text, "version": 1}}),
        "domain": [_protocol("domainMetadata"), METADATA, {"domainMetadata": domain}],
        "id": [PROTOCOL, _metadata(id=text)],
        "name": [PROTOCOL, _metadata(name=text, description=text)],
        "property": [PROTOCOL, _metadata(configuration={text: text})],
        "partition column": [PROTOCOL, _metadata(partitionColumns=[text])],
        "partitioned": _partitioned(text),
        "format": [PROTOCOL, _metadata(format={"provider": text, "options": {text: text}})],
        "schema": [PROTOCOL, _metadata(schemaString=text)],
        "path": _with(add(text)),
        "stats": _with(add("x", stats=text)),
        "tags": _with(add("x", tags={text: text})),
        "partition values": _with(add("x", partitionValues={text: text})),
        "clustering": _with(add("x", clusteringProvider=text)),
        "further field": _with(add("x", more={text: text})),
        "vector": _with(add("x", deletionVector=vector)),
        "commit info": _with({"commitInfo": info}),
        "commit id": _with({"commitInfo": {"operation": "x", "txnId": text}}),
        "change": _with({"cdc": change}),
        "remove": _with(remove(text)),
        "unknown action": _with({text: {text: text}}),
    }


@pytest.mark.parametrize("text", [NUL, LONG], ids=["NUL", "long"])
@pytest.mark.parametrize("what", _logs(""))
def test_every_text_of_a_log(any_lake: Any, tmp_path: Path, what: str, text: str) -> None:
    _adopt(any_lake, write_log(tmp_path / "t", _logs(text)[what]))


@pytest.mark.parametrize("text", [NUL, LONG], ids=["NUL", "long"])
@pytest.mark.parametrize("what", ["feature", "txn", "partitioned", "partition values", "path"])
def test_texts_of_a_checkpoint(any_lake: Any, tmp_path: Path, what: str, text: str) -> None:
    """Its commits are gone, and adds come as columns."""
    root = tmp_path / "t"
    (root / "_delta_log").mkdir(parents=True)
    parquet(root / "_delta_log" / f"{3:020}.checkpoint.parquet", _logs(text)[what], KINDS)
    _adopt(any_lake, root)


def _adopt(any_lake: Any, root: Path) -> None:
    """Dry and for real: both say the same, and what is adopted can be read."""
    told = []
    for dry_run in (True, False):
        try:
            any_lake.adopt(str(root), "t", dry_run=dry_run, validate=False, fence=False)
            told.append("adopted")
        except (deltasql.LogFormatError, deltasql.ValidationError) as error:
            told.append(error.problem)
    assert told[0] == told[1]
    assert any_lake.store.staged_tables() == []
    if told[1] == "adopted":
        table = any_lake.table("t")
        table.history()
        assert table.snapshot().files().num_rows <= 1
        assert any_lake.check("t", full=True).ok
