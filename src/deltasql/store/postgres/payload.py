"""A commit's rows in the two forms PostgreSQL takes them: JSON for a function, COPY text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from deltasql.store import rows
from deltasql.store.rows import CommitRows, Row

_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_COPY_CHUNK = 2_000


def json_rows(columns: Sequence[str], items: Sequence[Row]) -> str | None:
    """Rows as a JSON array of objects, None for none; bytes as PostgreSQL's hex text."""
    if not items:
        return None
    objects = [
        {
            name: value if type(value) is not bytes else "\\x" + value.hex()
            for name, value in zip(columns, item, strict=True)
            if value is not None
        }
        for item in items
    ]
    return orjson.dumps(objects).decode()


def other_rows(commit: CommitRows) -> str | None:
    """Everything but adds, removes and txns, in one JSON object; None if there is nothing."""
    parts = {
        "partitions": json_rows(rows.PARTITION_COLUMNS, commit.partitions),
        "domains": json_rows(rows.DOMAIN_COLUMNS, commit.domains),
        "cdc": json_rows(rows.CDC_COLUMNS, commit.cdc),
        "metadata": json_rows(rows.METADATA_COLUMNS, commit.metadata),
        "protocol": json_rows(rows.PROTOCOL_COLUMNS, commit.protocol),
    }
    present = [f'"{name}":{text}' for name, text in parts.items() if text is not None]
    return "{" + ",".join(present) + "}" if present else None


def copy_chunks(table_id: int, version: int, adds: Iterable[Row]) -> Iterator[str]:
    """COPY text of `dl_active_files`, some thousand rows at a time."""
    start = f"{table_id}\t{version}\t"
    lines: list[str] = []
    for row in adds:
        lines.append(start + "\t".join([_field(value) for value in row]))
        if len(lines) == _COPY_CHUNK:
            yield "\n".join(lines) + "\n"
            lines.clear()
    if lines:
        yield "\n".join(lines) + "\n"


def _field(value: Any) -> str:
    kind = type(value)
    if value is None:
        return "\\N"
    if kind is str:
        text: str = value
        return _SPECIAL.sub(_escape, text) if _SPECIAL.search(text) else text
    if kind is int:
        return str(value)
    if kind is bytes:
        return "\\\\x" + bytes(value).hex()
    if kind is bool:
        return "t" if value else "f"
    items: list[str] = ["NULL" if item is None else repr(item) for item in value]
    return "{" + ",".join(items) + "}"


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]
