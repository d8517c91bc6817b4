"""The SQLite log store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, Self

import pyarrow as pa

from deltasql.store.embedded.committing import Session
from deltasql.store.embedded.failures import nested_write, turn_timeout
from deltasql.store.embedded.store import EmbeddedStore
from deltasql.store.history import HistoryRows
from deltasql.store.migrations import is_current, migrate
from deltasql.store.rows import CommitRows, Row
from deltasql.store.sqlite import session
from deltasql.store.sqlite.connections import Connections
from deltasql.store.sqlite.failures import translate, translated
from deltasql.store.sqlite.file_queue import FileQueue
from deltasql.store.sqlite.history import prepare_history, write_history
from deltasql.store.sqlite.session import SQL, SqliteSession

_BATCH = 8_192

_WHO: Final = "; `fuser` on the .lock file names the writers"


class SqliteStore(EmbeddedStore):
    """A log in a SQLite file."""

    sql = SQL
    dialect = "sqlite"
    _lists = False

    def __init__(self, connections: Connections, *, timeout: float) -> None:
        self._connections = connections
        self._path = connections.path
        self._timeout = timeout
        self._queue = FileQueue(f"{connections.path}.lock")

    @classmethod
    def open(cls, path: str, *, timeout: float, schema: str) -> Self:
        """Open a file, and create or migrate its schema (`create`) or only check it (`error`)."""
        connections = Connections(path, timeout=timeout, may_create=schema == "create")
        store = cls(connections, timeout=timeout)
        try:
            store._bring_up_to_date(schema)
        except BaseException:
            store.close()
            raise
        return store

    def _bring_up_to_date(self, schema: str) -> None:
        doing = "opening the database"
        with self._connections.reader(doing) as connection:
            if _is_wal(connection) and is_current(connection, "sqlite"):
                return
        with self._turn(), self._connections.reader(doing) as connection:
            # In turn, because SQLite does not wait if two change the mode at once.
            if schema == "create" and not _is_wal(connection):
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("BEGIN IMMEDIATE")
            try:
                migrate(connection, "sqlite", schema)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._await_turn()
        try:
            yield
        finally:
            self._queue.release()

    def _await_turn(self) -> None:
        if self._queue.is_mine():
            raise nested_write(self._path)
        try:
            has_come = self._queue.acquire(self._timeout)
        except OSError as error:
            raise translate(error, "waiting for the turn to write", self._path) from None
        if not has_come:
            raise turn_timeout(self._path, self._timeout, others="writers", advice=_WHO)

    @contextmanager
    def _writing(self, doing: str) -> Iterator[SqliteSession]:
        self._await_turn()
        try:
            connection = self._connections.take_writer()
            writer = SqliteSession(connection, self._path)
            try:
                writer.begin(doing)
                try:
                    yield writer
                    writer.commit()
                except BaseException:
                    writer.rollback()
                    raise
            finally:
                self._connections.give_back_writer(connection, is_spent=writer.is_spent)
        finally:
            self._queue.release()

    def _prepare(self, rows: CommitRows) -> session.PreparedRows:
        return session.prepare(rows)

    def _prepare_history(self, rows: HistoryRows) -> HistoryRows:
        return prepare_history(rows)

    def _write_history(self, writer: Session, table_id: int, prepared: HistoryRows) -> None:
        assert isinstance(writer, SqliteSession)
        write_history(writer, table_id, prepared)

    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        with self._connections.reader("reading") as connection:
            return connection.execute(SQL[name], parameters).fetchall()

    def _table_ids(self, table_ids: Collection[int]) -> str:
        return json.dumps(list(table_ids))

    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        batches = self._batches(query)
        # The first batch is fetched here: this raises the query's errors here, and nothing stays
        # open for a small table.
        first = list(next(batches, ()))
        return pa.RecordBatchReader.from_batches(
            schema, (_to_batch(rows, schema) for rows in chain([first], batches) if rows)
        )

    def _batches(self, query: str) -> Iterator[list[Row]]:
        """Batches of rows; the connection is given back with the last one."""
        connection = self._connections.take()
        try:
            with translated("reading files", self._path):
                cursor = connection.execute(query)
                rows = cursor.fetchmany(_BATCH)
            while len(rows) == _BATCH:
                yield rows
                with translated("reading files", self._path):
                    rows = cursor.fetchmany(_BATCH)
            cursor.close()
        finally:
            self._connections.give_back(connection)
        yield rows

    def describe(self) -> Mapping[str, str]:
        with self._connections.reader("reading settings") as connection:
            settings = {
                name: str(connection.execute(statement).fetchone()[0])
                for name, statement in (
                    ("journal_mode", "PRAGMA journal_mode"),
                    ("synchronous", "PRAGMA synchronous"),
                    ("page_size", "PRAGMA page_size"),
                )
            }
        settings["synchronous"] = {"2": "full", "3": "extra"}.get(settings["synchronous"], "weak")
        return {"dialect": "sqlite", "server_version": sqlite3.sqlite_version, **settings}

    def close(self) -> None:
        self._queue.close()
        self._connections.close()


def _is_wal(connection: sqlite3.Connection) -> bool:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return bool(mode == "wal")


def _to_batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array(map(bool, values), field.type)
        if pa.types.is_boolean(field.type)
        else pa.array(values, field.type)
        for field, values in zip(schema, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
