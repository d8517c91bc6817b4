"""A commit's rows in the forms that statements take: values, arrays and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from deltasql.store import rows
from deltasql.store.rows import CommitRows, Row

_BETWEEN_FIELDS = '}","{'


def json_rows(columns: Sequence[str], items: Sequence[Row]) -> str | None:
    """Rows as a JSON array of objects, None if there are none; bytes as PostgreSQL's hex text."""
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
    """Adds as the text of an array of `dl_added_file`, None if there are none.

    The server parses it before the function runs, and so before any lock; JSON would be parsed
    under the lock, and more slowly.
    """
    if not adds:
        return None
    return "{" + ",".join([_quoted(_record(row)) for row in adds]) + "}"


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


def _lists(lists: tuple[Sequence[float | None], ...], *, between: str) -> str:
    # Arrays look like JSON's except for the brackets; orjson prints numbers many times faster than
    # Python.
    text = orjson.dumps(lists)[2:-2].decode()
    return f"{{{text.replace('],[', between)}}}"
