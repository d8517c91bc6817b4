"""The `_last_checkpoint` file: where readers start, with a checksum over its own fields."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from typing import Any
from urllib.parse import quote

import orjson

from deltasql.delta_log.checkpoint.writing import CheckpointSummary
from deltasql.spec import codec

_TOP_VERSION = 2**63 - 1


def render_last_checkpoint(summary: CheckpointSummary) -> bytes:
    """The content that points to a checkpoint; write it only when the checkpoint is visible.

    For V2 checkpoints it says no more than for others: the extra field that Delta Spark has for
    them is not in the spec, and readers find the file by listing from the version.
    """
    fields: dict[str, Any] = {
        "version": summary.version,
        "size": summary.size,
        "sizeInBytes": summary.size_in_bytes,
        "numOfAddFiles": summary.num_of_add_files,
    }
    return codec.dumps(fields | {"checksum": checksum(fields)})


def parse_last_checkpoint(content: bytes) -> int | None:
    """The version it points to; None if the file is corrupt, which readers have to survive.

    A wrong checksum makes it corrupt; a missing one proves nothing.
    """
    found = _parsed(content)
    stored = found.get("checksum")
    if stored is not None and stored != checksum(found):
        return None
    return _version(found)


def hinted_version(content: bytes) -> int | None:
    """The version that readers look for: most of them don't compare the checksum."""
    return _version(_parsed(content))


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(content)
    except ValueError:
        return {}
    return found if type(found) is dict else {}


def _version(found: dict[str, Any]) -> int | None:
    version = found.get("version")
    return version if type(version) is int and 0 <= version <= _TOP_VERSION else None


def is_newer(summary: CheckpointSummary, current: bytes | None) -> bool:
    """Whether `_last_checkpoint` should be replaced: never by an older version (rule 33)."""
    version = None if current is None else parse_last_checkpoint(current)
    return version is None or summary.version > version


# --- checksum -------------------------------------------------------------------------


def checksum(fields: dict[str, Any]) -> str:
    """The spec's MD5 of the canonical form; a top-level `checksum` is left out."""
    return md5(canonical(fields).encode(), usedforsecurity=False).hexdigest()


def canonical(fields: dict[str, Any]) -> str:
    """Every value with the path to it, `"a"+"b"+0=value`, sorted by the bytes of the paths."""
    pairs = [
        pair for name, value in fields.items() if name != "checksum" for pair in _walk(name, value)
    ]
    return ",".join(f"{path}={value}" for path, value in sorted(pairs))


def _walk(name: str | int, value: Any) -> Iterator[tuple[str, str]]:
    head = str(name) if isinstance(name, int) else _quoted(name)
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for inner, item in items:
            for path, leaf in _walk(inner, item):
                yield f"{head}+{path}", leaf
    elif isinstance(value, str):
        yield head, _quoted(value)
    else:
        yield head, codec.dumps(value).decode()


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'
