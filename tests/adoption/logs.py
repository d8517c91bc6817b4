"""Logs written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
    }
)
PROTOCOL: dict[str, Any] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA: dict[str, Any] = {
    "metaData": {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }
}


def add(path: str, **fields: Any) -> dict[str, Any]:
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": 1,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            **fields,
        }
    }


def remove(path: str, **fields: Any) -> dict[str, Any]:
    return {
        "remove": {
            "path": path,
            "deletionTimestamp": 1_700_000_000_001,
            "dataChange": True,
            **fields,
        }
    }


def vector(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "storageType": "u",
        "pathOrInlineDv": name.ljust(20, "0"),
        "sizeInBytes": 36,
        "cardinality": 1,
        **fields,
    }


def commit_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def write_log(root: Path, *commits: list[Any], first: int = 0) -> Path:
    """Write commits, each a list of actions or of ready lines; returns the table's root."""
    (root / "_delta_log").mkdir(parents=True, exist_ok=True)
    for version, actions in enumerate(commits, start=first):
        lines = [item if isinstance(item, str) else json.dumps(item) for item in actions]
        commit_file(root, version).write_text("".join(line + "\n" for line in lines))
    return root
