"""Columns as Unity Catalog describes them."""

from __future__ import annotations

import json
from typing import Any, Final

from deltasql.spec.actions import Metadata

# Delta's type names, as Unity names them and as SQL spells them.
_NAMES: Final = {
    "long": ("LONG", "bigint"),
    "integer": ("INT", "int"),
    "short": ("SHORT", "smallint"),
    "byte": ("BYTE", "tinyint"),
    "void": ("NULL", "void"),
}


def columns_of(metadata: Metadata) -> list[dict[str, Any]]:
    """The columns of a table, from the schema in its log."""
    partitions = {name: place for place, name in enumerate(metadata.partition_columns)}
    return [
        _column(field, place, partitions.get(field["name"]))
        for place, field in enumerate(json.loads(metadata.schema_string)["fields"])
    ]


def _column(field: dict[str, Any], place: int, partition: int | None) -> dict[str, Any]:
    kind = field["type"]
    name = kind["type"] if isinstance(kind, dict) else kind.partition("(")[0]
    unity, _ = _NAMES.get(name, (name.upper(), name))
    found = {
        "name": field["name"],
        "type_text": spelt(kind),
        "type_json": json.dumps(field),
        "type_name": unity,
        "position": place,
        "nullable": field["nullable"],
        "comment": field.get("metadata", {}).get("comment"),
    }
    if isinstance(kind, str) and (decimal := _decimal(kind)) is not None:
        found["type_precision"], found["type_scale"] = decimal
    if partition is not None:
        found["partition_index"] = partition
    return found


def _decimal(kind: str) -> tuple[int, int] | None:
    name, _, rest = kind.partition("(")
    if name != "decimal":
        return None
    precision, _, scale = rest.rstrip(")").partition(",")
    return int(precision), int(scale)


def spelt(kind: Any) -> str:
    """A type as SQL spells it."""
    if isinstance(kind, str):
        return _NAMES.get(kind, ("", kind))[1]
    if kind["type"] == "array":
        return f"array<{spelt(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{spelt(kind['keyType'])},{spelt(kind['valueType'])}>"
    inner = ",".join(f"{item['name']}:{spelt(item['type'])}" for item in kind["fields"])
    return f"struct<{inner}>"
