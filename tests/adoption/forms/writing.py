"""Logs and files by hand, and the list of forms."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

Rows = list[dict[str, Any]]
# The rows of versions; those that are not named were cut off the log.
Form = Callable[[Path], Mapping[int, Rows]]
FORMS: dict[str, Form] = {}
REFUSED: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {}
# What delta-rs 1.6.6 does not read, or reads in another way.
NOT_BY_DELTA_RS = {"stats that say null", "a compaction that is wrong"}

IDS = pa.schema([("id", pa.int64())])
TIME = 1_700_000_000_000


def form(name: str) -> Callable[[Form], Form]:
    def register(make: Form) -> Form:
        FORMS[name] = make
        return make

    return register


def refused(name: str, why: type[Exception]) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        REFUSED[name] = (make, why)
        return make

    return register


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def protocol(reader: int = 1, writer: int = 2, *features: str) -> dict[str, Any]:
    lists: dict[str, Any] = {"readerFeatures": list(features)} if reader == 3 else {}
    if writer == 7:
        lists["writerFeatures"] = list(features)
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}


def metadata(schema: pa.Schema | str, *by: str, **configuration: str) -> dict[str, Any]:
    text = schema if isinstance(schema, str) else Schema.from_arrow(schema).to_json()
    return {
        "metaData": {
            "id": str(uuid.UUID(int=7)),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": text,
            "partitionColumns": list(by),
            "configuration": configuration,
            "createdTime": TIME,
        }
    }


def remove(added: dict[str, Any], **fields: Any) -> dict[str, Any]:
    kept = {key: added["add"][key] for key in ("path", "deletionVector") if key in added["add"]}
    return {"remove": {**kept, "deletionTimestamp": TIME, "dataChange": True, **fields}}


class Log:
    """A table that is written by hand."""

    def __init__(self, root: Path, *first: dict[str, Any]) -> None:
        self.root = root
        self.folder = root / "_delta_log"
        self.folder.mkdir(parents=True)
        self.commits: list[list[dict[str, Any]]] = []
        if first:
            self.commit(*first)

    def name(self, version: int, kind: str = "json") -> Path:
        return self.folder / f"{version:020}.{kind}"

    def commit(self, *actions: dict[str, Any]) -> int:
        version = len(self.commits)
        self.commits.append(list(actions))
        text = "".join(json.dumps(action) + "\n" for action in actions)
        self.name(version).write_text(text)
        return version

    def add(self, path: str, rows: pa.Table, values: Any = None, **fields: Any) -> dict[str, Any]:
        """Write a file, and return the action that adds it."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, place)
        return added(path, place, rows.num_rows, values, **fields)

    def cut(self, version: int) -> None:
        """Take away the commits before a version."""
        for older in range(version):
            self.name(older).unlink()


def added(path: str, place: Path, rows: int, values: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "add": {
            "path": path,
            "partitionValues": values or {},
            "size": place.stat().st_size,
            "modificationTime": TIME,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows}),
            **fields,
        }
    }


def id_rows(*values: int) -> Rows:
    return [{"id": value} for value in values]
