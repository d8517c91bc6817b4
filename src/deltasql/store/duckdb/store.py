"""The DuckDB log store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import duckdb
import pyarrow as pa

from deltasql.store.duckdb import session
from deltasql.store.duckdb.database import Database, close_database, open_database
from deltasql.store.duckdb.failures import translated
from deltasql.store.duckdb.history import PreparedHistory, prepare_history, write_history
from deltasql.store.duckdb.session import SQL, DuckdbSession
from deltasql.store.embedded.committing import Session
from deltasql.store.embedded.failures import closed, nested_write, turn_timeout
from deltasql.store.embedded.store import EmbeddedStore
from deltasql.store.history import HistoryRows
from deltasql.store.migrations import is_current, migrate
from deltasql.store.rows import CommitRows, Row

_BATCH = 8_192


class DuckdbStore(EmbeddedStore):
    """A log in a DuckDB file, which only one process can open."""

    # A unique key that a transaction frees counts as taken until the transaction ends.
    _frees_names_at_once = False
    sql = SQL
    dialect = "duckdb"

    def __init__(self, database: Database, *, timeout: float) -> None:
        self._database = database
        self._timeout = timeout
        self._is_closed = False

    @classmethod
    def open(cls, path: str, *, timeout: float, schema: str) -> Self:
        """Open a file, and create or migrate its schema (`create`) or only check it (`error`)."""
        store = cls(open_database(path, may_create=schema == "create"), timeout=timeout)
        try:
            store._bring_up_to_date(schema)
        except BaseException:
            store.close()
            raise
        return store

    def _bring_up_to_date(self, schema: str) -> None:
        doing = "opening the database"
        with self._database.reader(doing) as connection:
            if is_current(connection, "duckdb"):
                return
        with self._turn(), translated(doing, self._database.path):
            connection = self._database.writer
            connection.execute("BEGIN")
            try:
                migrate(connection, "duckdb", schema)
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
            # Empties the write-ahead log, which could not be replayed as it is (see `database`).
            # With FORCE it waits for other threads that are just connecting, instead of failing.
            connection.execute("FORCE CHECKPOINT")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        database = self._opened()
        if database.turns.is_mine():
            raise nested_write(database.path)
        if not database.turns.acquire(self._timeout):
            raise turn_timeout(database.path, self._timeout, others="threads")
        try:
            yield
        finally:
            database.turns.release()

    @contextmanager
    def _writing(self, doing: str) -> Iterator[DuckdbSession]:
        with self._turn():
            writer = DuckdbSession(self._database.writer, self._database.path)
            writer.begin(doing)
            try:
                yield writer
                writer.commit()
            except BaseException:
                writer.rollback()
                raise
            finally:
                if writer.is_spent:
                    self._database.discard_writer()

    def _opened(self) -> Database:
        if self._is_closed:
            raise closed(self._database.path)
        self._database.check_process()
        return self._database

    def _prepare(self, rows: CommitRows) -> session.PreparedRows:
        return session.prepare(rows)

    def _prepare_history(self, rows: HistoryRows) -> PreparedHistory:
        return prepare_history(rows)

    def _write_history(self, writer: Session, table_id: int, prepared: PreparedHistory) -> None:
        assert isinstance(writer, DuckdbSession)
        write_history(writer, table_id, prepared)

    def _rows(self, name: str, /, **parameters: Any) -> list[Row]:
        with self._opened().reader("reading") as connection:
            return connection.execute(SQL[name], parameters or None).fetchall()

    def _table_ids(self, table_ids: Collection[int]) -> list[int]:
        return list(table_ids)

    def _stream(self, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
        batches = self._batches(query, schema)
        # The first batch is empty: taking it here raises the query's errors here.
        next(batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _batches(self, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        database = self._opened()
        connection = database.take()
        try:
            with translated("reading files", database.path):
                reader = connection.execute(query).to_arrow_reader(_BATCH)
            yield pa.RecordBatch.from_pylist([], schema=schema)
            while True:
                with translated("reading files", database.path):
                    batch = next(reader, None)
                if batch is None:
                    return
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        finally:
            database.give_back(connection)

    def describe(self) -> Mapping[str, str]:
        settings = {name: str(value) for name, value in self._rows("settings")}
        return {"dialect": "duckdb", "server_version": duckdb.__version__, **settings}

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            close_database(self._database)
