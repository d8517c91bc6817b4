"""Rebuilds in PostgreSQL: under the lock of the head's row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deltasql.store.checking.rebuilding import TableRebuild, found_head
from deltasql.store.history import HistoryRows
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.history import write_history
from deltasql.store.postgres.reader import SQL
from deltasql.store.rows import Row


class PostgresRebuilding:
    """The part of the store that rebuilds rows."""

    _connections: Connections

    @contextmanager
    def rebuilding(self, table_id: int) -> Iterator[TableRebuild]:
        with self._connections.transaction("rebuilding a table", is_long=True) as connection:

            def run(name: str, /, **parameters: Any) -> list[Row]:
                cursor = connection.execute(SQL[name], parameters)
                return cursor.fetchall() if cursor.description else []

            def write_part(rows: HistoryRows) -> None:
                write_history(connection, table_id, rows)

            yield TableRebuild(found_head(run("heads_lock", table_ids=[table_id])), run, write_part)
