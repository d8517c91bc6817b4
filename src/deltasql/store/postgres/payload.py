"""A commit's rows in the forms PostgreSQL takes them: arrays and JSON for a function, COPY text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from deltasql.store import rows
from deltasql.store.rows import CommitRows, Row

_SPECIAL = re.compile(r"[\\\t\n\r]")
_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_NULL = "\\N"
_BETWEEN_COLUMNS, _BETWEEN_FIELDS = "}\t{", '}","{'
_COPY_CHUNK = 500


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


def added_files(adds: Sequence[Row]) -> str | None:
    """Adds as the text of an array of `dl_added_file`, None for none.

    The server reads it before the function runs, and so before any lock; JSON would be read
    under the lock, and slower.
    """
    if not adds:
        return None
    return "{" + ",".join([_quoted(_record(row)) for row in adds]) + "}"


def added_file(row: Row) -> dict[str, Any]:
    """An add as values by the names of its columns."""
    values = dict(zip(rows.ADD_COLUMNS, row, strict=True))
    lists = values["min_keys"], values["max_keys"], values["null_counts"]
    low, high, nulls = _lists(lists, between="}\0{").split("\0")
    return {**values, "min_keys": low, "max_keys": high, "null_counts": nulls}


def _record(row: Row) -> str:
    path_key, dv_key, partition_key, size, modified, records, base_row, row_version = row[:8]
    changes, low, high, nulls = row[8:12]
    texts = ",".join(["" if value is None else _quoted(value) for value in row[12:]])
    return (
        f'("\\\\x{path_key.hex()}","\\\\x{dv_key.hex()}",{partition_key},{size},{modified}'
        f",{'' if records is None else records},{'' if base_row is None else base_row}"
        f",{'' if row_version is None else row_version},{'t' if changes else 'f'}"
        f',"{_lists((low, high, nulls), between=_BETWEEN_FIELDS)}",{texts})'
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def other_rows(commit: CommitRows) -> str | None:
    """Everything but adds, removes and txns, in one JSON object; None if there is nothing."""
    if not (
        commit.partitions or commit.domains or commit.cdc or commit.metadata or commit.protocol
    ):
        return None
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
    """COPY text of `dl_active_files`, some hundred rows at a time."""
    start = f"{table_id}\t{version}\t"
    lines: list[str] = []
    for row in adds:
        lines.append(start + _copy_line(row))
        if len(lines) == _COPY_CHUNK:
            yield "".join(lines)
            lines.clear()
    if lines:
        yield "".join(lines)


def _copy_line(row: Row) -> str:
    """A row in the order of `ADD_COLUMNS`, written out because a commit may have many."""
    (
        path_key, dv_key, partition_key, size, modified, records, base_row, row_version, changes,
        low, high, nulls, path, partition, stats, tags, vector, clustering, extra,
    ) = row  # fmt: skip
    return (
        f"\\\\x{path_key.hex()}\t\\\\x{dv_key.hex()}\t{partition_key}\t{size}\t{modified}"
        f"\t{_NULL if records is None else records}\t{_NULL if base_row is None else base_row}"
        f"\t{_NULL if row_version is None else row_version}\t{'t' if changes else 'f'}"
        f"\t{_lists((low, high, nulls), between=_BETWEEN_COLUMNS)}"
        f"\t{_text(path)}\t{_text(partition)}"
        f"\t{_NULL if stats is None else _text(stats)}"
        f"\t{_NULL if tags is None else _text(tags)}"
        f"\t{_NULL if vector is None else _text(vector)}"
        f"\t{_NULL if clustering is None else _text(clustering)}"
        f"\t{_NULL if extra is None else _text(extra)}\n"
    )


def _lists(lists: tuple[Sequence[float | None], ...], *, between: str) -> str:
    # Arrays are JSON's but for the brackets; orjson prints numbers many times faster than Python.
    text = orjson.dumps(lists)[2:-2].decode()
    return f"{{{text.replace('],[', between)}}}"


def _text(value: str) -> str:
    if "\\" in value or "\t" in value or "\n" in value or "\r" in value:
        return _SPECIAL.sub(_escape, value)
    return value


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]
