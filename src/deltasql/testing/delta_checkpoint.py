"""Checks that a checkpoint is as the Delta spec requires: its Parquet schema and its content.

Written from the spec alone, like the rest of `delta_log`, which exports it.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow.parquet as pq

from deltasql.spec.properties import COLUMN_MAPPING_MODE, PHYSICAL_NAME
from deltasql.testing.delta_actions import check_fields, check_protocol, file_key

Content: TypeAlias = Path | bytes

# --- the schema -----------------------------------------------------------------------

_TEXT, _LONG, _INT, _FLAG = "BYTE_ARRAY String", "INT64", "INT32", "BOOLEAN"
_MAP, _LIST = "map", "list"
_VECTOR = {
    "storageType": _TEXT, "pathOrInlineDv": _TEXT, "offset": _INT, "sizeInBytes": _INT,
    "cardinality": _LONG, "maxRowIndex": _LONG,
}  # fmt: skip
_COLUMNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "txn": {"appId": _TEXT, "version": _LONG, "lastUpdated": _LONG},
    "add": {
        "path": _TEXT, "partitionValues": _MAP, "size": _LONG, "modificationTime": _LONG,
        "dataChange": _FLAG, "tags": _MAP, "deletionVector": _VECTOR, "baseRowId": _LONG,
        "defaultRowCommitVersion": _LONG, "clusteringProvider": _TEXT, "stats": _TEXT,
    },
    "remove": {
        "path": _TEXT, "deletionTimestamp": _LONG, "dataChange": _FLAG,
        "extendedFileMetadata": _FLAG, "partitionValues": _MAP, "size": _LONG,
        "deletionVector": _VECTOR, "baseRowId": _LONG, "defaultRowCommitVersion": _LONG,
    },
    "metaData": {
        "id": _TEXT, "name": _TEXT, "description": _TEXT,
        "format": {"provider": _TEXT, "options": _MAP}, "schemaString": _TEXT,
        "partitionColumns": _LIST, "configuration": _MAP, "createdTime": _LONG,
    },
    "protocol": {
        "minReaderVersion": _INT, "minWriterVersion": _INT,
        "readerFeatures": _LIST, "writerFeatures": _LIST,
    },
    "domainMetadata": {"domain": _TEXT, "configuration": _TEXT, "removed": _FLAG},
    "checkpointMetadata": {"version": _LONG, "tags": _MAP},
    "sidecar": {"path": _TEXT, "sizeInBytes": _LONG, "modificationTime": _LONG, "tags": _MAP},
}  # fmt: skip
_TYPED = ("add.stats_parsed.", "add.partitionValues_parsed.")
_CLASSIC = {"txn", "add", "remove", "metaData", "protocol", "domainMetadata"}
_PHYSICAL = {
    "string": _TEXT, "long": _LONG, "integer": _INT, "short": "INT32 Int(bitWidth=16",
    "byte": "INT32 Int(bitWidth=8", "float": "FLOAT", "double": "DOUBLE", "boolean": _FLAG,
    "binary": "BYTE_ARRAY", "date": "INT32 Date",
    "timestamp": "INT64 Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
    "timestamp_ntz": "INT64 Timestamp(isAdjustedToUTC=false, timeUnit=microseconds",
}  # fmt: skip


def _expected(fields: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Path, then type with definition and repetition level: all are optional except map keys."""
    for name, kind in fields.items():
        here = f"{path}.{name}"
        if isinstance(kind, Mapping):
            yield from _expected(kind, here, depth + 1)
        elif kind == _MAP:
            yield f"{here}.key_value.key", (_TEXT, depth + 2, 1)
            yield f"{here}.key_value.value", (_TEXT, depth + 3, 1)
        elif kind == _LIST:
            yield f"{here}.list.element", (_TEXT, depth + 3, 1)
        else:
            yield here, (kind, depth + 1, 0)


def _check_schema(file: pq.ParquetFile, columns: set[str]) -> None:
    expected = dict(item for name in columns for item in _expected(_COLUMNS[name], name, depth=1))
    found = {}
    for place in range(len(file.schema)):
        column = file.schema.column(place)
        if not column.path.startswith(_TYPED):
            levels = column.max_definition_level, column.max_repetition_level
            found[column.path] = (_type(column), *levels)
    if "add.stats" not in found:
        expected.pop("add.stats", None)
    assert found == expected, f"these columns differ: {set(found.items()) ^ set(expected.items())}"
    for group in range(file.metadata.num_row_groups):
        chunk = file.metadata.row_group(group).column(0)
        assert chunk.compression == "SNAPPY", f"row group {group} is {chunk.compression}"


def _type(column: Any) -> str:
    logical = str(column.logical_type)
    return column.physical_type if logical == "None" else f"{column.physical_type} {logical}"


def _check_typed(file: pq.ParquetFile, metadata: Mapping[str, Any]) -> None:
    """Check that typed stats and partition values have the schema's physical names and types."""
    mapped = metadata["configuration"].get(COLUMN_MAPPING_MODE, "none") != "none"
    types = dict(_leaf_types(json.loads(metadata["schemaString"]), (), mapped=mapped))
    for place in range(len(file.schema)):
        column = file.schema.column(place)
        if not column.path.startswith(_TYPED):
            continue
        _, what, *path = column.path.split(".")
        if what == "partitionValues_parsed":
            expected = types[".".join(path)]
        elif path[0] in ("minValues", "maxValues"):
            expected = types[".".join(path[1:])]
        else:
            expected = {"tightBounds": _FLAG}.get(path[0], _LONG)
        assert _type(column).startswith(expected), f"{column.path} is {_type(column)}"
        assert column.max_repetition_level == 0, f"{column.path} is repeated"


def _leaf_types(
    struct: Mapping[str, Any], above: tuple[str, ...], *, mapped: bool
) -> Iterator[tuple[str, str]]:
    for item in struct["fields"]:
        physical = item["metadata"].get(PHYSICAL_NAME) if mapped else None
        path, kind = (*above, physical or item["name"]), item["type"]
        if isinstance(kind, str):
            # Decimals are integers or bytes, depending on their precision.
            yield ".".join(path), _PHYSICAL.get(kind, "")
        elif kind["type"] == "struct":
            yield from _leaf_types(kind, path, mapped=mapped)


# --- the content ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointActions:
    """The content of a checkpoint, each action as its JSON object would be."""

    protocol: dict[str, Any]
    metadata: dict[str, Any]
    adds: list[dict[str, Any]] = field(default_factory=list)
    removes: list[dict[str, Any]] = field(default_factory=list)
    txns: list[dict[str, Any]] = field(default_factory=list)
    domains: list[dict[str, Any]] = field(default_factory=list)
    sidecars: list[dict[str, Any]] = field(default_factory=list)


def check_checkpoint(
    content: Content, *, sidecars: Callable[[str], Content] | None = None
) -> CheckpointActions:
    """Check a classic checkpoint or, with `sidecars` to get them by name, a V2 one."""
    extra = {"checkpointMetadata", "sidecar"} if sidecars is not None else set()
    file = _open(content)
    _check_schema(file, _CLASSIC | extra)
    rows = _rows(file)
    if sidecars is not None:
        rows = _with_sidecars(rows, sidecars)
    found = _collect(rows)
    _check_typed(file, found.metadata)
    _check_content(found)
    return found


def _open(content: Content) -> pq.ParquetFile:
    return pq.ParquetFile(content if isinstance(content, Path) else io.BytesIO(content))


def _rows(file: pq.ParquetFile) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for number, row in enumerate(file.read().to_pylist()):
        actions = [(name, value) for name, value in row.items() if value is not None]
        assert len(actions) == 1, f"row {number} has {len(actions)} actions (rule 23)"
        found.append(actions[0])
    return found


def _with_sidecars(
    rows: list[tuple[str, dict[str, Any]]], sidecars: Callable[[str], Content]
) -> list[tuple[str, dict[str, Any]]]:
    counts = Counter(name for name, _ in rows)
    assert counts["checkpointMetadata"] == 1, "V2 has exactly one checkpointMetadata (rule 31)"
    inline = counts["add"] + counts["remove"]
    assert not (inline and counts["sidecar"]), "file actions are here and in sidecars (rule 31)"
    found = list(rows)
    for name, action in rows:
        if name == "sidecar":
            assert "/" not in action["path"], f"{action['path']} is not a bare name (rule 31)"
            content = sidecars(action["path"])
            size = content.stat().st_size if isinstance(content, Path) else len(content)
            assert action["sizeInBytes"] == size, f"{action['path']} has {size} bytes"
            file = _open(content)
            _check_schema(file, {"add", "remove"})
            found += _rows(file)
    return found


def _collect(rows: list[tuple[str, dict[str, Any]]]) -> CheckpointActions:
    by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in _COLUMNS}
    for name, value in rows:
        by_name[name].append(_as_json(value))
    for name in ("protocol", "metaData"):
        assert len(by_name[name]) == 1, f"there are {len(by_name[name])} {name} (rule 23)"
    return CheckpointActions(
        protocol=by_name["protocol"][0],
        metadata=by_name["metaData"][0],
        adds=by_name["add"],
        removes=by_name["remove"],
        txns=by_name["txn"],
        domains=by_name["domainMetadata"],
        sidecars=by_name["sidecar"],
    )


_MAPS = ("partitionValues", "tags", "options", "configuration")


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, dict) and not name.endswith("_parsed"):
            found[name] = _as_json(item)
        elif item is not None:
            found[name] = dict(item) if name in _MAPS and isinstance(item, list) else item
    return found


def _check_content(found: CheckpointActions) -> None:
    for name, actions in (
        ("protocol", [found.protocol]),
        ("metaData", [found.metadata]),
        ("add", found.adds),
        ("remove", found.removes),
        ("txn", found.txns),
        ("domainMetadata", found.domains),
    ):
        for action in actions:
            check_fields(name, action, "checkpoint")
    check_protocol(found.protocol)
    assert not any(add["dataChange"] for add in found.adds), "dataChange is true (rule 29)"
    assert not any(item["removed"] for item in found.domains), "a removed domain (rule 14)"
    keys = Counter(file_key(action) for action in (*found.adds, *found.removes))
    repeated = [key for key, count in keys.items() if count > 1]
    assert not repeated, f"files that are said twice: {repeated[:3]} (rule 12)"
    for what, names in (
        ("appId", [item["appId"] for item in found.txns]),
        ("domain", [item["domain"] for item in found.domains]),
    ):
        assert len(names) == len(set(names)), f"a {what} is said twice"
