"""The connection for writing to SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from deltasql.store import queries
from deltasql.store.embedded.committing import added_twice, doubled_path
from deltasql.store.rows import AddRow, CommitRows, Row
from deltasql.store.sqlite.failures import translate

SQL = queries.load("sqlite")


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """A commit's rows with their lists as JSON; the rest is unchanged."""

    adds: Sequence[AddRow]
    removes: Sequence[Row]
    others: Sequence[tuple[str, Sequence[Row]]]


class SqliteSession:
    """Transactions, named queries and bulk rows over the connection for writing."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._doing = ""
        self.is_spent = False

    def begin(self, doing: str) -> None:
        """Take SQLite's write lock; `doing` is for messages."""
        self._doing = doing
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End the transaction; if anything goes wrong here, it may still have been committed."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translate(error, self._doing, self._path, at_commit=True) from None

    def rollback(self) -> None:
        # Some failures, such as a full disk, have already rolled back.
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                # The outcome of a COMMIT before it is unknown, too.
                raise translate(error, self._doing, self._path, at_commit=True) from None

    def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        return self.execute(SQL[name], parameters)

    def execute(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Row]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise translate(error, self._doing, self._path) from None

    def transaction(self) -> bool:
        # One statement can't end a transaction and begin the next.
        return self._connection.in_transaction

    def key_list(self, keys: Collection[bytes]) -> bytes:
        return b"".join(keys)

    def text_list(self, texts: Collection[str]) -> str:
        return orjson.dumps(list(texts)).decode()

    def prepare(self, rows: CommitRows) -> PreparedRows:
        return prepare(rows)

    def write_rows(self, table_id: int, version: int, prepared: PreparedRows) -> None:
        place = (table_id, version)
        # Removes first: a file may be removed under one deletion vector and added under another.
        if prepared.removes:
            self._write_removes(table_id, version, prepared.removes)
        if prepared.adds:
            written = self._many("adds_insert", (place + row for row in prepared.adds))
            if written < len(prepared.adds):
                self._restate(table_id, version, prepared.adds, written)
        for name, rows in prepared.others:
            self._many(name, (place + row for row in rows))

    def _write_removes(self, table_id: int, version: int, removes: Sequence[Row]) -> None:
        place = (table_id, version)
        placed = [place + row for row in removes]
        if self._many("removed_keep", placed) < len(removes):
            self._many("removed_unknown", placed)
        self._many("removed_delete", ((table_id, *row[:2]) for row in removes))

    def _restate(self, table_id: int, version: int, adds: Sequence[AddRow], written: int) -> None:
        """Adds of files that are already live: the old rows become history."""
        keys = [(table_id, row.path_key, row.dv_key) for row in adds]
        for key in keys:
            clash = self.execute(SQL["restated_clash"], key)
            if clash:
                raise doubled_path(clash[0][0])
        keyed = [(*key, version) for key in keys]
        self._many("restated_keep", keyed)
        self._many("restated_delete", keyed)
        written += self._many("adds_insert", ((table_id, version, *row) for row in adds))
        if written < len(adds):
            paths = [row.path for row in adds]
            raise added_twice(next(path for path in paths if paths.count(path) > 1))

    def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row."""
        self._many(name, rows)

    def _many(self, name: str, rows: Iterable[Row]) -> int:
        """Run a statement for each row; returns how many rows it touched in all."""
        try:
            return self._connection.executemany(SQL[name], rows).rowcount
        except (sqlite3.Error, OverflowError) as error:
            raise translate(error, self._doing, self._path) from None


def prepare(rows: CommitRows) -> PreparedRows:
    """The rows in the form that SQLite takes."""
    others = (
        ("partitions_insert", rows.partitions),
        ("txns_insert", rows.txns),
        ("domains_insert", rows.domains),
        ("cdc_insert", rows.cdc),
        ("metadata_insert", rows.metadata),
        ("protocol_insert", rows.protocol),
    )
    return PreparedRows(
        adds=[_with_json_lists(row) for row in rows.adds],
        removes=rows.removes,
        others=[(name, found) for name, found in others if found],
    )


def _with_json_lists(row: AddRow) -> AddRow:
    return row._replace(
        min_keys=_json_list(row.min_keys),
        max_keys=_json_list(row.max_keys),
        null_counts=_json_list(row.null_counts),
    )


def _json_list(items: Sequence[float | None] | None) -> str | None:
    """A JSON array with whole numbers as integers, which SQLite reads exactly."""
    if items is None:
        return None
    return orjson.dumps(items).replace(b".0,", b",").replace(b".0]", b"]").decode()
