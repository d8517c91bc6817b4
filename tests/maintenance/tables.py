"""Tables to keep up, and what there is of them on disk."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

import deltasql
from deltasql.lake.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
AT_ONCE = {"retention": 0, "enforce_retention_duration": False}


def rows(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids)}, schema=SCHEMA)


def ids(found: pa.Table) -> list[int]:
    return sorted(found.column("id").to_pylist())


def folder(table: Table) -> Path:
    return Path(urlsplit(table.location).path)


def files(table: Table) -> set[str]:
    """The files of a table on disk, but for its log."""
    root = folder(table)
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and "_delta_log" not in path.parts and not path.name.startswith(".")
    }


def live(table: Table) -> set[str]:
    return set(table.snapshot().files().column("path").to_pylist())


def make_old(path: Path, *, hours: float) -> None:
    found = path.stat().st_mtime - hours * 3600
    os.utime(path, (found, found))


def churned(lake: deltasql.Lake, name: str = "a.t", *, times: int = 3) -> Table:
    """A table that was overwritten a few times: one live file, the others dead."""
    table = lake.create_table(name, SCHEMA)
    for number in range(times):
        table.overwrite(rows(number))
    return table
