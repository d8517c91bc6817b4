"""What a log says, and actions to commit."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasql.lake.table import Table
from deltasql.spec.actions import AddFile, RemoveFile

SCHEMA = pa.schema([("id", pa.int64())])
DAY = 86_400_000


def add(path: str, **fields: Any) -> AddFile:
    given = {"size": 10, "modification_time": 1, "stats": '{"numRecords":10}', **fields}
    return AddFile(path=path, **given)


def remove(path: str, *, at: int) -> RemoveFile:
    return RemoveFile.of(add(path), deletion_timestamp=at)


def name(version: int, kind: str = "json") -> str:
    return f"_delta_log/{version:020}.{kind}"


def log_of(table: Table) -> list[str]:
    return [item.path.removeprefix("_delta_log/") for item in table.objects.list("_delta_log")]


def actions(table: Table, version: int) -> list[tuple[str, Any]]:
    lines = table.objects.read(name(version)).decode().removesuffix("\n").split("\n")
    return [next(iter(json.loads(line).items())) for line in lines]


def only(table: Table, version: int, kind: str) -> list[Any]:
    return [value for found, value in actions(table, version) if found == kind]


def checkpoint(table: Table, version: int) -> list[tuple[str, Any]]:
    content = table.objects.read(name(version, "checkpoint.parquet"))
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    return [(kind, value) for row in rows for kind, value in row.items() if value is not None]


def kept(table: Table, version: int, kind: str) -> list[Any]:
    return [value for found, value in checkpoint(table, version) if found == kind]


def file_of(table: Table, path: str) -> Path:
    return Path(table.location.removeprefix("file://")) / path
