"""What the Delta spec says about each action's fields, for the checks in `delta_log`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

# --- what fields are ------------------------------------------------------------------


def _text(value: Any) -> bool:
    return type(value) is str


def _flag(value: Any) -> bool:
    return type(value) is bool


def _long(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _int(value: Any) -> bool:
    return type(value) is int and -(2**31) <= value < 2**31


def _texts(value: Any) -> bool:
    return type(value) is list and all(map(_text, value))


def _text_map(value: Any) -> bool:
    return type(value) is dict and all(map(_text, value.values()))


def _nullable_map(value: Any) -> bool:
    return type(value) is dict and all(item is None or _text(item) for item in value.values())


def _object(value: Any) -> bool:
    return type(value) is dict


def _stats(value: Any) -> bool:
    return type(_inside(value)) is dict


def _schema(value: Any) -> bool:
    found = _inside(value)
    return type(found) is dict and found.get("type") == "struct"


def _inside(value: Any) -> Any:
    """The JSON inside a text."""
    try:
        return json.loads(value) if _text(value) else None
    except ValueError:
        return None


_VECTOR = {
    "storageType!": lambda value: value in ("u", "i", "p"),
    "pathOrInlineDv!": _text,
    "offset": _int,
    "sizeInBytes!": _int,
    "cardinality!": _long,
    "maxRowIndex": _long,
}
_FORMAT = {"provider!": _text, "options!": _text_map}
# Fields by action; `!` marks the required ones.
FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "commitInfo": {
        "inCommitTimestamp": _long, "timestamp": _long, "operation": _text,
        "operationParameters": _object, "engineInfo": _text, "isBlindAppend": _flag,
        "readVersion": _long, "isolationLevel": _text, "txnId": _text, "userName": _text,
    },
    "protocol": {
        "minReaderVersion!": _int, "minWriterVersion!": _int,
        "readerFeatures": _texts, "writerFeatures": _texts,
    },
    "metaData": {
        "id!": _text, "name": _text, "description": _text, "format!": _FORMAT,
        "schemaString!": _schema, "partitionColumns!": _texts, "createdTime": _long,
        "configuration!": _text_map,
    },
    "domainMetadata": {"domain!": _text, "configuration!": _text, "removed!": _flag},
    "txn": {"appId!": _text, "version!": _long, "lastUpdated": _long},
    "add": {
        "path!": _text, "partitionValues!": _nullable_map, "size!": _long,
        "modificationTime!": _long, "dataChange!": _flag, "stats": _stats,
        "tags": _nullable_map, "deletionVector": _VECTOR, "baseRowId": _long,
        "defaultRowCommitVersion": _long, "clusteringProvider": _text,
    },
    "remove": {
        "path!": _text, "deletionTimestamp": _long, "dataChange!": _flag,
        "extendedFileMetadata": _flag, "partitionValues": _nullable_map, "size": _long,
        "stats": _stats, "tags": _nullable_map, "deletionVector": _VECTOR, "baseRowId": _long,
        "defaultRowCommitVersion": _long,
    },
    "cdc": {
        "path!": _text, "partitionValues!": _nullable_map, "size!": _long,
        "dataChange!": lambda value: value is False, "tags": _nullable_map,
    },
}  # fmt: skip


def check_fields(name: str, value: Any, where: str) -> None:
    """Check that the fields of an action have the spec's types; unknown ones may be anything."""
    _check_object(FIELDS[name], value, f"{where}: {name}")


def _check_object(fields: Mapping[str, Any], value: Any, where: str) -> None:
    assert type(value) is dict, f"{where} must be an object, not {value!r:.80}"
    for marked, kind in fields.items():
        name = marked.rstrip("!")
        if name not in value:
            assert name == marked, f"{where} lacks {name}"
        elif isinstance(kind, Mapping):
            _check_object(kind, value[name], f"{where}.{name}")
        else:
            assert kind(value[name]), f"{where}.{name} has a wrong value: {value[name]!r:.80}"


def file_key(action: Mapping[str, Any]) -> tuple[str, str]:
    """Path and vector id of an add or a remove (rule 11)."""
    vector = action.get("deletionVector")
    if vector is None:
        return action["path"], ""
    place = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return action["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{place}"


def check_protocol(protocol: Mapping[str, Any]) -> None:
    """Rule 38: only versions 3 and 7 list features."""
    read, written = protocol.get("readerFeatures"), protocol.get("writerFeatures")
    reader, writer = protocol["minReaderVersion"], protocol["minWriterVersion"]
    assert (read is not None) == (reader == 3), f"reader version {reader} with {read} (rule 38)"
    assert (written is not None) == (writer == 7), f"writer version {writer} with {written}"
    assert set(read or ()) <= set(written or ()), f"{read} is not within {written} (rule 38)"
