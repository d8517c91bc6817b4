"""Tables of many small files, ours and the same as a plain Delta table.

A few files are written, and all others are links to them: upkeep reads and lists files, and changes
none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pyarrow as pa

import deltasql
from deltasql.lake import writing
from deltasql.lake.table import Table
from deltasql.spec import codec
from deltasql.spec.actions import AddFile

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
# Rows of a file.
ROWS = 100
_WRITTEN = 16
_CREATED_MS = 1_770_000_000_000


def rows(number: int, count: int = ROWS) -> pa.Table:
    """The rows of one file."""
    ids = range(number * count, number * count + count)
    names = [f"customer {value % 97}" for value in ids]
    return pa.table([list(ids), names, [value / 3 for value in ids]], schema=SCHEMA)


def make(lake: deltasql.Lake, name: str, count: int) -> Table:
    """A table of so many files, in one commit."""
    table = lake.create_table(name, SCHEMA)
    metadata, place = table.snapshot().metadata, folder_of(table)
    written: list[AddFile] = []
    for number in range(min(count, _WRITTEN)):
        written += writing.write_rows(table.objects, metadata, rows(number))
    adds = [codec.to_wire(add) for add in written]
    for number in range(len(written), count):
        source = written[number % len(written)]
        path = f"part-{number:07d}.parquet"
        os.link(place / source.path, place / path)
        adds.append({"add": {**codec.to_wire(source)["add"], "path": path}})
    table.commit(adds)
    return table


def plain_copy(table: Table, folder: Path) -> Path:
    """The same files as a plain Delta table, which anybody may write."""
    shutil.copytree(
        folder_of(table), folder, ignore=lambda _d, _n: ["_delta_log"], copy_function=os.link
    )
    (folder / "_delta_log").mkdir()
    snapshot = table.snapshot()
    metadata = {
        "id": snapshot.metadata.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": snapshot.metadata.schema_string,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": _CREATED_MS,
    }
    first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    write_commit(folder, 0, first)
    write_commit(folder, 1, [codec.to_wire(add) for add in snapshot.adds()])
    return folder


def remove(table: Table, plain: Path, count: int) -> int:
    """Remove the first files of both; returns how many."""
    removes = [
        {"remove": {"path": add.path, "deletionTimestamp": _CREATED_MS, "dataChange": True}}
        for add in list(table.snapshot().adds())[:count]
    ]
    table.commit(removes)
    write_commit(plain, 2, removes)
    return len(removes)


def write_commit(folder: Path, version: int, actions: Sequence[Any]) -> None:
    """A commit of a plain Delta table."""
    lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
    (folder / "_delta_log" / f"{version:020d}.json").write_bytes(lines)


def folder_of(table: Table) -> Path:
    """Where a table's files are on the local disk."""
    return Path(urlsplit(table.location).path)
