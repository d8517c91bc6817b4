"""Actions to canonical JSON and back.

Canonical: one object a line, fields and map keys sorted, absent optional fields left out,
nulls inside maps and unknown fields kept, lines ordered by kind and then by their bytes.
So equal commits are equal bytes, whatever order they were put together in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec.actions import (
    Action,
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
# orjson reads integers beyond 64 bits as floats; the standard library keeps every digit.
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


# --- what a field may hold ------------------------------------------------------------


def _is_str(value: Any) -> bool:
    return type(value) is str


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_long(value: Any) -> bool:
    return type(value) is int and -INT64 <= value < INT64


def _is_int(value: Any) -> bool:
    return type(value) is int and -INT32 <= value < INT32


def _is_map(value: Any) -> bool:
    return type(value) is dict and all(type(key) is str for key in value)


def _is_text_map(value: Any) -> bool:
    return _is_map(value) and all(item is None or type(item) is str for item in value.values())


def _is_text_list(value: Any) -> bool:
    return type(value) in (tuple, list) and all(type(item) is str for item in value)


def _is_deletion_vector(value: Any) -> bool:
    return type(value) is DeletionVector


def _is_format(value: Any) -> bool:
    return type(value) is Format


_Check = Callable[[Any], bool]
_WORDS: dict[_Check, str] = {
    _is_str: "a string",
    _is_bool: "true or false",
    _is_long: "a 64-bit integer",
    _is_int: "a 32-bit integer",
    _is_map: "an object",
    _is_text_map: "an object of strings",
    _is_text_list: "a list of strings",
    _is_deletion_vector: "a deletion vector",
    _is_format: "a format",
}
_CHECKS: dict[str, _Check] = {
    "str": _is_str,
    "bool": _is_bool,
    "int": _is_long,
    "PartitionValues": _is_text_map,
    "Mapping[str, str]": _is_text_map,
    "Mapping[str, str | None]": _is_text_map,
    "Mapping[str, Any]": _is_map,
    "tuple[str, ...]": _is_text_list,
    "DeletionVector": _is_deletion_vector,
    "Format": _is_format,
}
_INT32_FIELDS = {"min_reader_version", "min_writer_version", "size_in_bytes", "offset"}
_ODD_WIRE_NAMES = {"path_or_inline_dv": "pathOrInlineDv"}


class _Field(NamedTuple):
    attr: str
    wire: str
    check: _Check
    required: bool


class _Shape(NamedTuple):
    fields: tuple[_Field, ...]
    # By the types of all values, once they were found right: the checks that types don't answer.
    known: dict[tuple[type, ...], tuple[tuple[int, _Check], ...]]
    wires: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    by_wire: dict[str, _Field]
    required: frozenset[str]


# Required on the wire although Python callers may leave them out.
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


def _shape(kind: type) -> _Shape:
    known = []
    for item in fields(kind):
        if item.name == "extra":
            continue
        base = str(item.type).removesuffix(" | None")
        # `Mapping[str, str | None] | None` keeps its inner None.
        check = _is_int if item.name in _INT32_FIELDS else _CHECKS[base]
        optional = item.default is not MISSING or item.default_factory is not MISSING
        required = not optional or item.name in _WIRE_REQUIRED.get(kind, set())
        known.append(_Field(item.name, _wire_name(item.name), check, required))
    return _Shape(
        fields=tuple(known),
        known={},
        wires=tuple(field.wire for field in known),
        values=attrgetter(*(field.attr for field in known)),
        by_wire={field.wire: field for field in known},
        required=frozenset(field.wire for field in known if field.required),
    )


_SHAPES = {kind: _shape(kind) for kind in (*KINDS.values(), DeletionVector, Format)}
_NAMES = {kind: name for name, kind in KINDS.items()}
_NESTED = {"deletionVector": DeletionVector, "format": Format}


# --- encoding -------------------------------------------------------------------------


def to_wire(action: Action) -> dict[str, Any]:
    """The action as the object its JSON line holds."""
    if type(action) is UnknownAction:
        return {action.name: action.value}
    return {_NAMES[type(action)]: wire_fields(action)}


def wire_fields(value: Any) -> dict[str, Any]:
    shape = _SHAPES[type(value)]
    wire = {
        name: item
        for name, item in zip(shape.wires, shape.values(value), strict=True)
        if item is not None
    }
    for name in _NESTED:
        if name in wire:
            wire[name] = wire_fields(wire[name])
    if value.extra:
        wire.update((k, v) for k, v in value.extra.items() if k not in shape.by_wire)
    return wire


def dumps(value: Any) -> bytes:
    """Canonical JSON of plain data."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return _dumps_exactly(value)


def _dumps_exactly(value: Any) -> bytes:
    """For what orjson can't write: integers beyond 64 bits."""
    try:
        text = json.dumps(
            value, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":")
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(
            "a value can't be written as JSON",
            cause=str(error) or type(error).__name__,
            remedy="use strings, finite numbers, booleans, lists and maps with string keys",
        ) from None


def encode(action: Action) -> bytes:
    """One canonical line, without its newline."""
    return dumps(to_wire(action))


def encode_lines(actions: Iterable[Action]) -> list[bytes]:
    """The canonical lines of a commit, in canonical order."""
    ranked = [(RANK[type(action)], encode(action)) for action in actions]
    ranked.sort()
    return [line for _, line in ranked]


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The canonical content of a commit file."""
    return b"".join(line + b"\n" for line in encode_lines(actions))


# --- decoding -------------------------------------------------------------------------


def loads(line: bytes | str, *, source: str = "") -> Any:
    """Plain data from JSON, with every digit of its integers."""
    try:
        raw = line.encode() if isinstance(line, str) else line
        if _LONG_NUMBER.search(raw):
            return json.loads(raw, parse_constant=_no_constant)
        return orjson.loads(raw)
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            _at(source, "not a JSON object"),
            cause=str(error) or type(error).__name__,
            remedy="restore the file from a copy, or repair the mirror",
        ) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def decode(line: bytes | str, *, source: str = "") -> Action:
    """The action on one line; `LogFormatError` names `source` when it is malformed."""
    return from_wire(loads(line, source=source), source=source)


def decode_commit(body: bytes, *, source: str = "") -> list[Action]:
    """The actions of a commit file, in the file's order."""
    return [
        decode(line, source=f"{source}:{number}" if source else f"line {number}")
        for number, line in enumerate(body.split(b"\n"), start=1)
        if line and not line.isspace()
    ]


def from_wire(value: Any, *, source: str = "") -> Action:
    """An action from its JSON object."""
    if type(value) is not dict or len(value) != 1:
        raise LogFormatError(
            _at(source, "an action must be an object with exactly one key"),
            cause=f"found {_brief(value)}",
            remedy='write it as {"add": {…}}, one action a line',
        )
    ((name, content),) = value.items()
    kind = KINDS.get(name)
    if kind is None:
        return UnknownAction(name, content)
    action: Action = _from_fields(kind, content, name=name, source=source)
    return action


def vector_from_wire(value: Any, *, source: str = "") -> DeletionVector:
    """A deletion vector from its JSON object."""
    vector: DeletionVector = _from_fields(
        DeletionVector, value, name="deletionVector", source=source
    )
    return vector


def _from_fields(kind: type, content: Any, *, name: str, source: str) -> Any:
    if type(content) is not dict:
        raise LogFormatError(_at(source, f"{name} must be an object, not {_brief(content)}"))
    shape = _SHAPES[kind]
    found: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for wire, item in content.items():
        field = shape.by_wire.get(wire)
        if field is None:
            extra[wire] = item
            continue
        if item is None:
            continue
        if wire in _NESTED:
            item = _from_fields(_NESTED[wire], item, name=f"{name}.{wire}", source=source)
        if not field.check(item):
            raise _wrong_type(f"{name}.{wire}", field.check, item, source)
        found[field.attr] = tuple(item) if field.check is _is_text_list else item
    missing = [wire for wire in shape.required if content.get(wire) is None]
    if missing:
        raise LogFormatError(
            _at(source, f"{name} lacks {', '.join(sorted(missing))}"),
            cause="the Delta spec requires it, even when empty",
            remedy="add the field",
        )
    return kind(**found, extra=extra)


def _wrong_type(where: str, check: _Check, item: Any, source: str) -> LogFormatError:
    return LogFormatError(
        _at(source, f"{where} must be {_WORDS[check]}"),
        cause=f"found {_brief(item)}",
        remedy="correct the value",
    )


# --- checking what a caller built -----------------------------------------------------


def check_types(action: Action) -> None:
    """Raise `ValidationError` unless every field has the type that the spec gives it."""
    kind = type(action)
    if kind is UnknownAction:
        if type(action.name) is not str or not action.name or action.name in KINDS:  # type: ignore[union-attr]
            raise ValidationError("an unknown action needs a name that is not Delta's own")
        return
    if kind not in _NAMES:
        raise ValidationError(
            f"{_brief(action)} is not an action",
            remedy='pass actions of deltasql, or Delta\'s JSON objects such as {"add": {…}}',
        )
    _check_fields(action, _NAMES[kind])


def _check_fields(value: Any, name: str) -> None:
    shape = _SHAPES[type(value)]
    values = shape.values(value)
    kinds = tuple(map(type, values))
    for index, check in shape.known.get(kinds, _NEVER_SEEN):
        if not check(values[index]):
            _check_each(shape, values, name)
            shape.known[kinds] = _checks_of_values(shape, values)
            break
    if not _is_map(value.extra):
        raise ValidationError(f"{name}.extra must be an object")


_NEVER_SEEN: tuple[tuple[int, _Check], ...] = ((0, lambda _: False),)


def _checks_of_values(shape: _Shape, values: tuple[Any, ...]) -> tuple[tuple[int, _Check], ...]:
    if any(type(item) in (DeletionVector, Format) for item in values):
        return _NEVER_SEEN
    return tuple(
        (index, field.check)
        for index, field in enumerate(shape.fields)
        if values[index] is not None and field.check not in (_is_str, _is_bool)
    )


def _check_each(shape: _Shape, values: tuple[Any, ...], name: str) -> None:
    for field, item in zip(shape.fields, values, strict=True):
        if item is None:
            if field.required:
                raise ValidationError(f"{name}.{field.wire} is missing", remedy="give it a value")
        elif not field.check(item):
            raise ValidationError(
                f"{name}.{field.wire} must be {_WORDS[field.check]}",
                cause=f"found {_brief(item)}",
                remedy="correct the value",
            )
        elif field.wire in _NESTED:
            _check_fields(item, f"{name}.{field.wire}")


def parse_action(value: Action | Mapping[str, Any]) -> Action:
    """An action from what a caller may pass: one of ours, or Delta's JSON object."""
    if isinstance(value, Mapping):
        try:
            return from_wire(dict(value))
        except LogFormatError as error:
            raise ValidationError(error.problem, cause=error.cause, remedy=error.remedy) from None
    check_types(value)
    return value


def _at(source: str, problem: str) -> str:
    return f"{source}: {problem}" if source else problem


def _brief(value: Any) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer too long to print
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "…"
