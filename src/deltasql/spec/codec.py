"""Actions to canonical JSON and back.

Canonical means: one object per line, fields and map keys sorted, absent optional fields left out,
nulls inside maps and unknown fields kept, lines ordered by kind and then by their bytes. So equal
commits have equal bytes, in whatever order they were assembled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec.actions import (
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    Format,
    UnknownAction,
)
from deltasql.spec.shapes import (
    KINDS,
    NAMES,
    NESTED,
    RANK,
    SHAPES,
    WORDS,
    Check,
    Shape,
    is_bool,
    is_map,
    is_str,
    is_text_list,
)

# orjson reads integers beyond 64 bits as floats; the standard library keeps every digit.
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
# How deeply JSON may be nested: what was read must be writable again.
DEEPEST = 200


# --- encoding -------------------------------------------------------------------------


def to_wire(action: Action) -> dict[str, Any]:
    """The action as the object of its JSON line."""
    if type(action) is UnknownAction:
        return {action.name: action.value}
    return {NAMES[type(action)]: wire_fields(action)}


def wire_fields(value: Any) -> dict[str, Any]:
    """The fields of an action, or of a part of one, as a JSON object."""
    shape = SHAPES[type(value)]
    wire = {
        name: item
        for name, item in zip(shape.wires, shape.values(value), strict=True)
        if item is not None
    }
    for name in NESTED:
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
    return _encode_plain(action) if type(action) is AddFile else dumps(to_wire(action))


def _encode_plain(add: AddFile) -> bytes:
    """An add with only the usual fields; commits have many of them."""
    rest = (
        add.tags, add.deletion_vector, add.base_row_id, add.default_row_commit_version,
        add.clustering_provider,
    )  # fmt: skip
    if rest != _NOTHING_ELSE or add.extra or add.stats is None:
        return dumps(to_wire(add))
    return dumps(
        {
            "add": {
                "dataChange": add.data_change,
                "modificationTime": add.modification_time,
                "partitionValues": add.partition_values,
                "path": add.path,
                "size": add.size,
                "stats": add.stats,
            }
        }
    )


_NOTHING_ELSE = (None,) * 5


def encode_lines(actions: Iterable[Action]) -> list[bytes]:
    """The canonical lines of a commit, in canonical order."""
    ranked: dict[int, list[bytes]] = {}
    for action in actions:
        ranked.setdefault(RANK[type(action)], []).append(encode(action))
    return [line for rank in sorted(ranked) for line in sorted(ranked[rank])]


def encode_commit(actions: Iterable[Action]) -> bytes:
    """The canonical content of a commit file."""
    return b"".join(line + b"\n" for line in encode_lines(actions))


# --- decoding -------------------------------------------------------------------------


def loads(line: bytes | str, *, source: str = "") -> Any:
    """Plain data from JSON, with every digit of its integers."""
    try:
        raw = line.encode() if isinstance(line, str) else line
        # The stricter parser first: the other one accepts half a character as text.
        value = orjson.loads(raw)
        if _LONG_NUMBER.search(raw):
            value = json.loads(raw, parse_constant=_no_constant)
        if raw.count(b"[") + raw.count(b"{") > DEEPEST:
            _must_be_flat(value)
        return value
    except (ValueError, RecursionError) as error:
        raise LogFormatError(
            _at(source, "not a JSON object"),
            cause=str(error) or type(error).__name__,
            remedy="restore the file from a copy, or repair the mirror",
        ) from None


def load_object(text: str, *, what: str) -> dict[str, Any]:
    """An object that a row of the log holds as JSON; somebody may have changed the row by hand."""
    found = loads(text, source=what)
    if not isinstance(found, dict):
        raise LogFormatError(
            f"{what}: {text:.80} is not a JSON object",
            cause="the row that holds it was changed by hand",
            remedy="lake.check() shows what is damaged, lake.rebuild() repairs it",
        )
    return found


def load_partition_values(text: str) -> dict[str, str | None]:
    """The partition values that a row of the log holds."""
    found = load_object(text, what="partition values")
    if not all(value is None or isinstance(value, str) for value in found.values()):
        raise LogFormatError(
            f"partition values: {text:.80} has values that are not strings",
            cause="the row that holds them was changed by hand",
            remedy="lake.check() shows what is damaged, lake.rebuild() repairs it",
        )
    return found


def _must_be_flat(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for item in level if type(item) in (dict, list)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        level = [
            inner for item in level for inner in (item.values() if type(item) is dict else item)
        ]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def decode(line: bytes | str, *, source: str = "") -> Action:
    """The action on one line; `LogFormatError` names `source` if it is malformed."""
    return from_wire(loads(line, source=source), source=source)


def decode_commit(body: bytes, *, source: str = "") -> list[Action]:
    """The actions of a commit file, in the file's order."""
    return [
        decode(line, source=f"{source}:{number}" if source else f"line {number}")
        for number, line in enumerate(body.split(b"\n"), start=1)
        if line and not line.isspace()
    ]


def from_wire(value: Any, *, source: str = "") -> Action:
    """An action from its JSON object.

    Keys beside the action that the spec does not know are somebody else's, as in Delta Spark; code
    that keeps the line keeps them.
    """
    if type(value) is not dict or len(value) != 1:
        value = _alone(value, source)
    ((name, content),) = value.items()
    kind = KINDS.get(name)
    if kind is None:
        return UnknownAction(name, content)
    action: Action = _from_fields(kind, content, name=name, source=source)
    return action


def _alone(value: Any, source: str) -> dict[str, Any]:
    """The single action of a line with several keys; if all are unknown, the first.

    A known one that is null does not count.
    """
    if type(value) is dict:
        known = {name: item for name, item in value.items() if name in KINDS and item is not None}
        found = known or {name: item for name, item in value.items() if name not in KINDS}
        if len(known) <= 1 and found:
            name = next(iter(found))
            return {name: found[name]}
    raise LogFormatError(
        _at(source, "an action must be an object with exactly one action in it"),
        cause=f"found {_brief(value)}",
        remedy='write it as {"add": {…}}, one action per line',
    )


def vector_from_wire(value: Any, *, source: str = "") -> DeletionVector:
    """A deletion vector from its JSON object."""
    vector: DeletionVector = _from_fields(
        DeletionVector, value, name="deletionVector", source=source
    )
    return vector


def _from_fields(kind: type, content: Any, *, name: str, source: str) -> Any:
    if type(content) is not dict:
        raise LogFormatError(_at(source, f"{name} must be an object, not {_brief(content)}"))
    shape = SHAPES[kind]
    found: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for wire, item in content.items():
        field = shape.by_wire.get(wire)
        if field is None:
            extra[wire] = item
            continue
        if item is None:
            continue
        value, inner = item, NESTED.get(wire)
        if inner is not None:
            value = _from_fields(inner, item, name=f"{name}.{wire}", source=source)
        if not field.check(value):
            if kind is CommitInfo:
                # The spec allows any form of provenance: whatever is there is kept.
                extra[wire] = item
                continue
            raise _wrong_type(f"{name}.{wire}", field.check, value, source)
        found[field.attr] = tuple(value) if field.check is is_text_list else value
    missing = [wire for wire in shape.required if content.get(wire) is None]
    if missing:
        raise LogFormatError(
            _at(source, f"{name} lacks {', '.join(sorted(missing))}"),
            cause="the Delta spec requires it, even when empty",
            remedy="add the field",
        )
    return kind(**found, extra=extra)


def _wrong_type(where: str, check: Check, item: Any, source: str) -> LogFormatError:
    return LogFormatError(
        _at(source, f"{where} must be {WORDS[check]}"),
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
    if kind not in NAMES:
        raise ValidationError(
            f"{_brief(action)} is not an action",
            remedy='pass actions of deltasql, or Delta\'s JSON objects such as {"add": {…}}',
        )
    _check_fields(action, NAMES[kind])


def _check_fields(value: Any, name: str) -> None:
    shape = SHAPES[type(value)]
    values = shape.values(value)
    kinds = tuple(map(type, values))
    for index, check in shape.known.get(kinds, _NEVER_SEEN):
        if not check(values[index]):
            _check_each(shape, values, name)
            shape.known[kinds] = _checks_of_values(shape, values)
            break
    if type(value.extra) is not dict or (value.extra and not is_map(value.extra)):
        raise ValidationError(f"{name}.extra must be an object")


_NEVER_SEEN: tuple[tuple[int, Check], ...] = ((0, lambda _: False),)


def _checks_of_values(shape: Shape, values: tuple[Any, ...]) -> tuple[tuple[int, Check], ...]:
    if any(type(item) in (DeletionVector, Format) for item in values):
        return _NEVER_SEEN
    return tuple(
        (index, field.check)
        for index, field in enumerate(shape.fields)
        if values[index] is not None and field.check not in (is_str, is_bool)
    )


def _check_each(shape: Shape, values: tuple[Any, ...], name: str) -> None:
    for field, item in zip(shape.fields, values, strict=True):
        if item is None:
            if field.required:
                raise ValidationError(f"{name}.{field.wire} is missing", remedy="give it a value")
        elif not field.check(item):
            raise ValidationError(
                f"{name}.{field.wire} must be {WORDS[field.check]}",
                cause=f"found {_brief(item)}",
                remedy="correct the value",
            )
        elif field.wire in NESTED:
            _check_fields(item, f"{name}.{field.wire}")


def parse_action(value: Action | Mapping[str, Any]) -> Action:
    """An action from what a caller may pass: one of ours, or Delta's JSON object."""
    if isinstance(value, Mapping):
        if len(value) != 1:
            # The bytes of foreign logs are kept; here, a second key would be lost.
            raise ValidationError(
                "an action must be an object with exactly one key",
                cause=f"found {_brief(dict(value))}",
                remedy='pass it as {"add": {…}}, and what goes beside it as an action of its own',
            )
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
