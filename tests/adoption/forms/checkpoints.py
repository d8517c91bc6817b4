"""Checkpoints of every kind, written with pyarrow, and logs whose older commits are gone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.adoption.forms.writing import (
    FORMS,
    IDS,
    Form,
    Log,
    Rows,
    id_rows,
    ids,
    metadata,
    protocol,
    remove,
)

_TEXTS = pa.map_(pa.string(), pa.string())
_STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        *((name, pa.struct([("id", pa.int64())])) for name in ("minValues", "maxValues")),
        ("nullCount", pa.struct([("id", pa.int64())])),
    ]
)
_FILE = [("path", pa.string()), ("partitionValues", _TEXTS), ("size", pa.int64())]
KINDS: dict[str, pa.DataType] = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _TEXTS),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64())]),
    "add": pa.struct(
        [
            *_FILE,
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
        ]
    ),
    "remove": pa.struct(
        [("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]
    ),
}
_V2: dict[str, pa.DataType] = {
    "checkpointMetadata": pa.struct([("version", pa.int64())]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
    ),
}


def parquet(place: Path, actions: list[dict[str, Any]], kinds: Mapping[str, pa.DataType]) -> None:
    """Actions as rows, each in the column of its kind."""
    schema = pa.schema([(name, kind) for name, kind in kinds.items()])
    rows = [{name: _arrow(action.get(name)) for name in kinds} for action in actions]
    place.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), place)


def _arrow(value: Any) -> Any:
    """Maps as pyarrow takes them."""
    if not isinstance(value, dict):
        return value
    maps = {"partitionValues", "options", "configuration"}
    return {key: list(item.items()) if key in maps else _arrow(item) for key, item in value.items()}


def classic(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    parquet(log.name(version, "checkpoint.parquet"), actions, KINDS)


def multi_part(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    for number, part in enumerate((actions[:2], actions[2:]), start=1):
        parquet(log.name(version, f"checkpoint.{number:010}.{2:010}.parquet"), part, KINDS)
    # Of another set a part is missing: it is none.
    parquet(log.name(version + 1, f"checkpoint.{1:010}.{3:010}.parquet"), actions[:1], KINDS)


def typed_stats(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    """Stats as columns, and not as text."""
    fields = [item for item in KINDS["add"] if item.name != "stats"]
    kinds = {**KINDS, "add": pa.struct([*fields, pa.field("stats_parsed", _STATS)])}
    typed = [{name: _typed(fields) for name, fields in action.items()} for action in actions]
    parquet(log.name(version, "checkpoint.parquet"), typed, kinds)


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    plain = {key: item for key, item in fields.items() if key != "stats"}
    return {**plain, "stats_parsed": json.loads(fields["stats"])} if "stats" in fields else plain


def no_stats(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    fields = [item for item in KINDS["add"] if item.name != "stats"]
    kinds = {**KINDS, "add": pa.struct(fields)}
    parquet(log.name(version, "checkpoint.parquet"), actions, kinds)


def _sidecars(log: Log, version: int, actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write the files into two sidecars; returns what the top file has."""
    files = [action for action in actions if action.keys() & {"add", "remove"}]
    top = [action for action in actions if not action.keys() & {"add", "remove"}]
    kinds = {name: KINDS[name] for name in ("add", "remove")}
    for part in (files[:1], files[1:]):
        place = log.folder / "_sidecars" / f"{uuid.uuid4()}.parquet"
        parquet(place, part, kinds)
        about = {"path": place.name, "sizeInBytes": place.stat().st_size, "modificationTime": 1}
        top.append({"sidecar": about})
    return [{"checkpointMetadata": {"version": version}}, *top]


def v2_parquet(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    top = _sidecars(log, version, actions)
    parquet(log.name(version, f"checkpoint.{uuid.uuid4()}.parquet"), top, {**KINDS, **_V2})


def v2_json(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(action) + "\n" for action in _sidecars(log, version, actions))
    log.name(version, f"checkpoint.{uuid.uuid4()}.json").write_text(lines)


def v2_inline(log: Log, version: int, actions: list[dict[str, Any]]) -> None:
    lines = [{"checkpointMetadata": {"version": version}}, *actions]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    log.name(version, f"checkpoint.{uuid.uuid4()}.json").write_text(text)


_Write = Callable[[Log, int, list[dict[str, Any]]], None]


def truncated(write: _Write, *features: str) -> Form:
    """A log that begins at its checkpoint of version 3."""

    def make(root: Path) -> Mapping[int, Rows]:
        needed = protocol(3, 7, *features) if features else protocol()
        described = metadata(IDS)
        log = Log(root, needed, described)
        files = [log.add(f"{n}.parquet", ids(n), stats=_stats(n)) for n in range(4)]
        txn = {"txn": {"appId": "app", "version": 5}}
        log.commit(files[0], files[1])
        log.commit(remove(files[0]), files[2], txn)
        log.commit({"commitInfo": {"operation": "nothing"}})
        write(log, 3, [needed, described, txn, remove(files[0]), files[1], files[2]])
        log.commit(files[3])
        log.cut(3)
        return {3: id_rows(1, 2), 4: id_rows(1, 2, 3)}

    return make


def _stats(number: int) -> str:
    bound = {"id": number}
    found = {"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {"id": 0}}
    return json.dumps(found)


FORMS |= {
    "a classic checkpoint": truncated(classic),
    "a multi-part checkpoint": truncated(multi_part),
    "a checkpoint with typed stats only": truncated(typed_stats),
    "a checkpoint without stats": truncated(no_stats),
    "a V2 checkpoint, in Parquet": truncated(v2_parquet, "v2Checkpoint"),
    "a V2 checkpoint, in JSON": truncated(v2_json, "v2Checkpoint"),
    "a V2 checkpoint without sidecars": truncated(v2_inline, "v2Checkpoint"),
}
