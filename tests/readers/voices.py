"""Four readers of a mirror, and SQL, made to speak the same language.

A row is a line of JSON: dates, times and decimals as text (these without zeros at the end),
times of either kind without their zone (UTC), bytes as hexadecimal digits, structs as objects,
maps as sorted lists of pairs. Files are names below the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from duckdb_extensions import import_extension

from deltasql.spec.actions import AddFile
from deltasql.table import Table


class DeltaRs:
    """delta-rs."""

    def rows(self, root: Path, version: int | None) -> pa.Table:
        table = DeltaTable(root, version=version)
        return pa.table(QueryBuilder().register("t", table).execute("select * from t"))

    def files(self, root: Path, version: int | None) -> list[str]:
        adds = pa.table(DeltaTable(root, version=version).get_add_actions(flatten=True))
        return decoded(adds.column("path").to_pylist())


class DuckDb:
    """DuckDB's delta extension."""

    def __init__(self) -> None:
        import_extension("delta")
        self._connection = duckdb.connect()
        self._connection.execute("LOAD delta")
        self._connection.execute("SET TimeZone = 'UTC'")

    def rows(self, root: Path, version: int | None) -> pa.Table:
        return self._ask("*", "delta_scan", root, version).to_arrow_table()

    def files(self, root: Path, version: int | None) -> list[str]:
        found = self._ask("data_file", "delta_list_files", root, version).fetchall()
        return sorted(path.removeprefix(f"{root}/") for (path,) in found)

    def _ask(self, what: str, function: str, root: Path, version: int | None) -> Any:
        at = "" if version is None else f", version={version}"
        return self._connection.execute(f"SELECT {what} FROM {function}(?{at})", [str(root)])


class Polars:
    """Polars; it does not tell files."""

    def rows(self, root: Path, version: int | None) -> pa.Table:
        return pl.scan_delta(str(root), version=version).collect().to_arrow()


def place(table: Table) -> Path:
    """The table's folder."""
    return Path(unquote(urlsplit(table.location).path))


def decoded(paths: Iterable[str]) -> list[str]:
    """Paths of a log as names of files, sorted: which characters were encoded is taste."""
    return sorted(map(unquote, paths))


def files_of(adds: Iterable[AddFile]) -> list[str]:
    return decoded(add.path for add in adds)


def lines(table: pa.Table, names: Sequence[str], *, without: Sequence[str] = ()) -> list[str]:
    """The rows of an Arrow table, sorted, with null in place of the columns `without`."""
    found = table.select(list(names)).to_pylist()
    return as_lines(
        [[None if name in without else plain(row[name]) for name in names] for row in found]
    )


def as_lines(rows: Iterable[Sequence[Any]]) -> list[str]:
    return sorted(json.dumps(row) for row in rows)


def plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case [tuple(), *_]:  # a map, in whatever order
            return sorted(([plain(key), plain(item)] for key, item in value), key=repr)
        case list():
            return [plain(item) for item in value]
        case bytes():
            return value.hex()
        case Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None).isoformat()
        case date():
            return value.isoformat()
    return value
