"""The fields of every kind of action: their wire names and allowed values.

Derived from the dataclasses of `actions`, once, when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, NamedTuple

from deltasql.spec.actions import (
    AddFile,
    CdcFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
    UnknownAction,
)

# The order of kinds in a commit: commitInfo first, because in-commit timestamps need it there.
KINDS: dict[str, type] = {
    "commitInfo": CommitInfo,
    "protocol": Protocol,
    "metaData": Metadata,
    "domainMetadata": DomainMetadata,
    "txn": Txn,
    "add": AddFile,
    "remove": RemoveFile,
    "cdc": CdcFile,
}
RANK = {kind: rank for rank, kind in enumerate(KINDS.values())} | {UnknownAction: len(KINDS)}

INT64 = 2**63
INT32 = 2**31


def is_str(value: Any) -> bool:
    """Text."""
    return type(value) is str


def is_bool(value: Any) -> bool:
    """True or false, but not a number."""
    return type(value) is bool


def _is_long(value: Any) -> bool:
    return type(value) is int and -INT64 <= value < INT64


def _is_int(value: Any) -> bool:
    return type(value) is int and -INT32 <= value < INT32


def is_map(value: Any) -> bool:
    """A JSON object."""
    return type(value) is dict and (not value or all(type(key) is str for key in value))


def _is_text_map(value: Any) -> bool:
    if type(value) is not dict:
        return False
    # A loop: every file has such a map with few keys, and a generator would cost more.
    for key, item in value.items():
        if type(key) is not str or (item is not None and type(item) is not str):
            return False
    return True


def is_text_list(value: Any) -> bool:
    """A list of texts."""
    return type(value) in (tuple, list) and all(type(item) is str for item in value)


def _is_deletion_vector(value: Any) -> bool:
    return type(value) is DeletionVector


def _is_format(value: Any) -> bool:
    return type(value) is Format


Check = Callable[[Any], bool]
WORDS: dict[Check, str] = {
    is_str: "a string",
    is_bool: "true or false",
    _is_long: "a 64-bit integer",
    _is_int: "a 32-bit integer",
    is_map: "an object",
    _is_text_map: "an object of strings",
    is_text_list: "a list of strings",
    _is_deletion_vector: "a deletion vector",
    _is_format: "a format",
}
_CHECKS: dict[str, Check] = {
    "str": is_str,
    "bool": is_bool,
    "int": _is_long,
    "PartitionValues": _is_text_map,
    "Mapping[str, str]": _is_text_map,
    "Mapping[str, str | None]": _is_text_map,
    "Mapping[str, Any]": is_map,
    "tuple[str, ...]": is_text_list,
    "DeletionVector": _is_deletion_vector,
    "Format": _is_format,
}
_INT32_FIELDS = {"min_reader_version", "min_writer_version", "size_in_bytes", "offset"}
_ODD_WIRE_NAMES = {"path_or_inline_dv": "pathOrInlineDv"}


class Field(NamedTuple):
    """A field of an action, by its Python and its wire name."""

    attr: str
    wire: str
    check: Check
    required: bool


class Shape(NamedTuple):
    """The fields of a kind of action, laid out for fast lookup."""

    fields: tuple[Field, ...]
    # By the types of all values, once found right: the checks that types alone don't answer.
    known: dict[tuple[type, ...], tuple[tuple[int, Check], ...]]
    wires: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    by_wire: dict[str, Field]
    required: frozenset[str]


# Required on the wire although Python callers may omit them.
_WIRE_REQUIRED = {
    AddFile: {"partition_values", "data_change"},
    RemoveFile: {"data_change"},
    CdcFile: {"partition_values", "data_change"},
    Metadata: {"partition_columns", "format"},
    DomainMetadata: {"removed"},
}


def _wire_name(attr: str) -> str:
    head, *rest = attr.split("_")
    return _ODD_WIRE_NAMES.get(attr, head + "".join(word.capitalize() for word in rest))


def _shape(kind: type) -> Shape:
    known = []
    for item in fields(kind):
        if item.name == "extra":
            continue
        base = str(item.type).removesuffix(" | None")
        # `Mapping[str, str | None] | None` keeps its inner None.
        check = _is_int if item.name in _INT32_FIELDS else _CHECKS[base]
        optional = item.default is not MISSING or item.default_factory is not MISSING
        required = not optional or item.name in _WIRE_REQUIRED.get(kind, set())
        known.append(Field(item.name, _wire_name(item.name), check, required))
    return Shape(
        fields=tuple(known),
        known={},
        wires=tuple(field.wire for field in known),
        values=attrgetter(*(field.attr for field in known)),
        by_wire={field.wire: field for field in known},
        required=frozenset(field.wire for field in known if field.required),
    )


SHAPES = {kind: _shape(kind) for kind in (*KINDS.values(), DeletionVector, Format)}
NAMES = {kind: name for name, kind in KINDS.items()}
NESTED = {"deletionVector": DeletionVector, "format": Format}
