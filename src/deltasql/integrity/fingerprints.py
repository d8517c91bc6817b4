"""What is compared of a row, the same whichever database it comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import orjson

from deltasql.log.file_sums import DIGEST_SIZE
from deltasql.store.rows import ADD_COLUMNS, Row

_VERSION: Final = 1
_CHANGE: Final = _VERSION + ADD_COLUMNS.index("data_change")
_FIRST_LIST: Final = _VERSION + ADD_COLUMNS.index("min_keys")
_AFTER_LISTS: Final = _VERSION + ADD_COLUMNS.index("null_counts") + 1
_ADDED: Final = _VERSION + len(ADD_COLUMNS)


def added_print(row: Row) -> bytes:
    """The fingerprint of a file's row: version and `ADD_COLUMNS`; what is behind does not count."""
    change = row[_CHANGE]
    return _print(
        (
            *row[:_CHANGE],
            None if change is None else int(change),
            *map(_numbers, row[_FIRST_LIST:_AFTER_LISTS]),
            *row[_AFTER_LISTS:_ADDED],
        )
    )


def removed_print(added: bytes, removal: Sequence[Any]) -> bytes:
    """The fingerprint of a dead file: its add, and when and how it ended."""
    version, timestamp, change, action = removal
    change = None if change is None else int(change)
    return _print((added, version, timestamp, change, action))


def unknown_row(remove: Row) -> Row:
    """The row of a remove, in the order of `REMOVE_COLUMNS`, whose add is unknown."""
    path_key, dv_key, path, _, _, vector, _ = remove
    known = {"path_key": path_key, "dv_key": dv_key, "path": path, "deletion_vector": vector}
    return (None, *(known.get(name) for name in ADD_COLUMNS))


def other_print(row: Row) -> bytes:
    """The fingerprint of a row that is no file's."""
    return _print(tuple(int(value) if isinstance(value, bool) else value for value in row))


def _numbers(values: Any) -> tuple[float | int | None, ...] | None:
    """A list of keys; SQLite has it as JSON, which knows no infinity and no minus zero."""
    if values is None:
        return None
    if isinstance(values, str):
        values = orjson.loads(values)
    return tuple(_number(value) for value in values)


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value) + 0.0


def _print(values: tuple[Any, ...]) -> bytes:
    return blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()
