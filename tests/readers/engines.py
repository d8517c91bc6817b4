"""Four readers of a mirror, and SQL, made to speak the same language.

A row is a line of JSON: dates, times and decimals as text (these without zeros at the end),
times of either kind without their zone (UTC), bytes as hexadecimal digits, structs as objects,
maps as sorted lists of pairs. Files are names below the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from duckdb_extensions import import_extension

from deltasql.lake.table import Table
from deltasql.spec.actions import AddFile

Root: TypeAlias = "Path | str"


class DeltaRs:
    """delta-rs; `options` are those of the object store."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = dict(options or {})

    def rows(self, root: Root, version: int | None) -> pa.Table:
        table = DeltaTable(root, version=version, storage_options=self._options)
        return pa.table(QueryBuilder().register("t", table).execute("select * from t"))

    def files(self, root: Root, version: int | None) -> list[str]:
        table = DeltaTable(root, version=version, storage_options=self._options)
        adds = pa.table(table.get_add_actions(flatten=True))
        return decoded(adds.column("path").to_pylist())


class DuckDb:
    """DuckDB's delta extension."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        for name in ("httpfs", "azure", "delta"):
            import_extension(name)
            self._connection.execute(f"LOAD {name}")
        self._connection.execute("SET TimeZone = 'UTC'")

    def reach(self, kind: str, **settings: str) -> None:
        """Make an object store known: a secret of DuckDB's."""
        given = ", ".join(f"{key} '{value}'" for key, value in settings.items())
        self._connection.execute(f"CREATE OR REPLACE SECRET {kind} (TYPE {kind}, {given})")

    def rows(self, root: Root, version: int | None) -> pa.Table:
        return self._ask("*", "delta_scan", root, version).to_arrow_table()

    def files(self, root: Root, version: int | None) -> list[str]:
        found = self._ask("data_file", "delta_list_files", root, version).fetchall()
        return sorted(path.removeprefix(f"{root}/") for (path,) in found)

    def _ask(self, what: str, function: str, root: Root, version: int | None) -> Any:
        at = "" if version is None else f", version={version}"
        return self._connection.execute(f"SELECT {what} FROM {function}(?{at})", [str(root)])


class Polars:
    """Polars; it does not tell files."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = dict(options or {})

    def rows(self, root: Root, version: int | None) -> pa.Table:
        found = pl.scan_delta(str(root), version=version, storage_options=self._options or None)
        return found.collect().to_arrow()


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
