"""COPY text for added files, column by column: a commit may have a hundred thousand of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import orjson

from deltasql.store.rows import ADD_COLUMNS, Row

_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_NULL = "\\N"
# Few enough that the server has work while we prepare the next ones.
_CHUNK = 50


def copy_chunks(table_id: int, version: int, adds: Sequence[Row]) -> Iterator[bytes]:
    """The lines of `dl_active_files`, some at a time."""
    place = repeat(f"{table_id}\t{version}")
    for start in range(0, len(adds), _CHUNK):
        columns = zip(*adds[start : start + _CHUNK], strict=True)
        texts = [
            repeat(_NULL) if column.count(None) == len(column) else make(column)
            for make, column in zip(_MAKERS, columns, strict=True)
        ]
        # Not strict: a column with a single value repeats without end.
        lines = map("\t".join, zip(place, *texts, strict=False))
        yield ("\n".join(lines) + "\n").encode()


def _booleans(column: Sequence[bool]) -> Iterable[str]:
    return ["t" if value else "f" for value in column]


def _bytes(column: Sequence[bytes]) -> Iterable[str]:
    return [f"\\\\x{value.hex()}" for value in column] if any(column) else repeat("\\\\x")


def _numbers(column: Sequence[int | None]) -> Iterable[str]:
    if None not in column:
        return map(str, column)
    return [_NULL if value is None else str(value) for value in column]


def _lists(column: Sequence[Sequence[float | None]]) -> Iterable[str]:
    # Arrays look like JSON's except for the brackets; orjson prints numbers many times faster than
    # Python.
    text = orjson.dumps(column)[2:-2].decode()
    return f"{{{text.replace('],[', '}|{')}}}".split("|")


def _texts(column: Sequence[str | None]) -> Iterable[str]:
    present = [value for value in column if value is not None]
    if len(present) < len(column):
        return [_NULL if value is None else _escaped(value) for value in column]
    return present if _is_plain("".join(present)) else map(_escaped, present)


def _is_plain(text: str) -> bool:
    return not ("\\" in text or "\t" in text or "\n" in text or "\r" in text)


def _escaped(text: str) -> str:
    return text if _is_plain(text) else _SPECIAL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]


_Maker: TypeAlias = Callable[[Sequence[Any]], Iterable[str]]
_KINDS: dict[str, _Maker] = {
    "path_key": _bytes,
    "dv_key": _bytes,
    "partition_key": _numbers,
    "size_bytes": _numbers,
    "modification_time": _numbers,
    "num_records": _numbers,
    "base_row_id": _numbers,
    "default_row_commit_version": _numbers,
    "data_change": _booleans,
    "min_keys": _lists,
    "max_keys": _lists,
    "null_counts": _lists,
}
_MAKERS = [_KINDS.get(name, _texts) for name in ADD_COLUMNS]
