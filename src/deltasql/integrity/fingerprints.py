"""Fingerprints of rows, the same whichever database a row comes from."""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any, Final

import orjson

from deltasql.log.file_sums import DIGEST_SIZE
from deltasql.store.checking.interface import Removal
from deltasql.store.rows import ADD_COLUMNS, AddRow, RemoveRow, Row

_CHANGE: Final = ADD_COLUMNS.index("data_change")
_FIRST_LIST: Final = ADD_COLUMNS.index("min_keys")
# What a remove says about a file whose add is unknown.
_KNOWN: Final = ("path_key", "dv_key", "path", "deletion_vector")
_AFTER_LISTS: Final = ADD_COLUMNS.index("null_counts") + 1


def added_print(version: int | None, add: AddRow) -> bytes:
    """The fingerprint of a file's row, with the version of its add."""
    return _print(
        (
            version,
            *add[:_CHANGE],
            None if add.data_change is None else int(add.data_change),
            *map(_numbers, add[_FIRST_LIST:_AFTER_LISTS]),
            *add[_AFTER_LISTS:],
        )
    )


def removed_print(added: bytes, removal: Removal) -> bytes:
    """The fingerprint of a dead file: its add, and when and how it was removed."""
    version, timestamp, change, action = removal
    return _print((added, version, timestamp, None if change is None else int(change), action))


def unknown_add(remove: RemoveRow) -> AddRow:
    """The row of a removed file whose add is unknown."""
    known: dict[str, Any] = dict.fromkeys(ADD_COLUMNS)
    known |= {name: getattr(remove, name) for name in _KNOWN}
    return AddRow(**known)


def other_print(row: Row) -> bytes:
    """The fingerprint of a row that does not belong to a file."""
    return _print(tuple(int(value) if isinstance(value, bool) else value for value in row))


def _numbers(values: Any) -> tuple[float | int | None, ...] | str | None:
    """A list of keys; in SQLite it is JSON, which has neither infinity nor minus zero.

    What somebody has made of it that is no such list differs from every list, and so is found.
    """
    if values is None:
        return None
    try:
        found = orjson.loads(values) if isinstance(values, str) else values
        return tuple(_number(value) for value in found)
    except (ValueError, TypeError):
        return str(values)


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value) + 0.0


def _print(values: tuple[Any, ...]) -> bytes:
    return blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()
