"""Checks that the objects of a `_delta_log` are as the Delta spec requires.

Written from the spec, independently of the code that writes them, so that a mistake in one shows in
the other. Each check raises `AssertionError` and returns what it read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from deltasql.testing.delta_actions import FIELDS, check_fields, check_protocol, file_key
from deltasql.testing.delta_checkpoint import CheckpointActions, check_checkpoint

__all__ = ["CheckpointActions", "check_checkpoint", "check_commit_file"]

_ORDER = {name: place for place, name in enumerate(FIELDS)}


def check_commit_file(
    content: bytes, version: int, *, in_commit_timestamp: bool = True, canonical: bool = True
) -> list[tuple[str, Any]]:
    """Check a commit file as deltasql writes it; returns the name and the object of each action.

    Adopted commits have their writer's form: check those with `canonical=False`, and tables without
    in-commit timestamps with `in_commit_timestamp=False`.
    """
    assert content.endswith(b"\n"), "the last line must end with a newline"
    lines = content.decode().removesuffix("\n").split("\n")
    actions = [_action(line, f"line {number}") for number, line in enumerate(lines, start=1)]
    for number, (name, value) in enumerate(actions, start=1):
        if name in FIELDS:
            check_fields(name, value, f"line {number}")
    if canonical:
        _check_canonical(lines, [name for name, _ in actions])
    if in_commit_timestamp:
        name, info = actions[0]
        assert name == "commitInfo", f"commitInfo must come first, not {name} (rule 45)"
        assert "inCommitTimestamp" in info, "commitInfo lacks inCommitTimestamp (rule 45)"
    _check_counts(Counter(name for name, _ in actions), version)
    _check_unique(actions)
    for name, value in actions:
        if name == "protocol":
            check_protocol(value)
    return actions


def _action(line: str, where: str) -> tuple[str, Any]:
    try:
        found = json.loads(line, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise AssertionError(f"{where} is not JSON: {error}") from None
    assert type(found) is dict, f"{where} must be an object"
    assert len(found) == 1, f"{where} must have one action, not {sorted(found)}"
    return next(iter(found.items()))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"a key is repeated among {[name for name, _ in pairs]}"
    return found


def _check_canonical(lines: list[str], names: list[str]) -> None:
    for number, line in enumerate(lines, start=1):
        parsed = json.loads(line, parse_float=_Verbatim, parse_int=_Verbatim)
        assert _render(parsed) == line, f"line {number} is not compact with sorted keys"
    ranks = [_ORDER.get(name, len(_ORDER)) for name in names]
    assert ranks == sorted(ranks), f"the kinds are out of order: {names}"


class _Verbatim(str):
    """The digits of a number, unchanged."""

    __slots__ = ()


def _render(value: Any) -> str:
    if isinstance(value, _Verbatim):
        return str(value)
    if isinstance(value, dict):
        items = (f"{_render(name)}:{_render(item)}" for name, item in sorted(value.items()))
        return f"{{{','.join(items)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_render, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _check_counts(counts: Counter[str], version: int) -> None:
    for name in ("protocol", "metaData"):
        least = 1 if version == 0 else 0
        assert least <= counts[name] <= 1, f"version {version} has {counts[name]} {name} (rule 4)"
    assert counts["commitInfo"] <= 1, "there may be one commitInfo"


def _check_unique(actions: Iterable[tuple[str, Any]]) -> None:
    """Rule 6: what may occur only once in a commit does."""
    keys = {"add": "path", "remove": "path", "txn": "appId", "domainMetadata": "domain"}
    seen = Counter((name, value[keys[name]]) for name, value in actions if name in keys)
    repeated = [key for key, count in seen.items() if count > 1]
    assert not repeated, f"said twice: {repeated[:3]} (rule 6)"
    added = {file_key(value) for name, value in actions if name == "add"}
    both = added & {file_key(value) for name, value in actions if name == "remove"}
    assert not both, f"added and removed at once: {sorted(both)[:3]} (rule 6)"
