"""The PostgreSQL log store: its parts, and its schema brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from deltasql.store.claims import Ask
from deltasql.store.migrations import is_current, migrate
from deltasql.store.postgres.connections.pool import Connections
from deltasql.store.postgres.finding import must_see_a_schema
from deltasql.store.postgres.history import PostgresHistory, placing
from deltasql.store.postgres.reader import SQL, PostgresReader
from deltasql.store.postgres.rebuilding import PostgresRebuilding
from deltasql.store.postgres.writer import PostgresWriter
from deltasql.store.upkeep.queries import UpkeepQueries


class PostgresStore(
    PostgresReader, PostgresWriter, PostgresHistory, PostgresRebuilding, UpkeepQueries
):
    """A log in PostgreSQL."""

    locks_tables_apart = True
    # A commit that is still in a network buffer holds no lock yet.
    commits_arrive_late = True

    def __init__(self, connections: Connections) -> None:
        PostgresReader.__init__(self, connections)
        PostgresWriter.__init__(self, connections)

    @classmethod
    def open(cls, url: str, *, pool_size: int, timeout: float, schema: str) -> Self:
        """Connect, and create or migrate the schema (`create`) or only check it (`error`)."""
        connections = Connections(url, size=pool_size, timeout=timeout)
        connections.open()
        try:
            doing = "bringing the schema up to date"
            with connections.statement(doing) as connection:
                # Merely connecting should not wait: anyone may hold the lock below.
                is_done = is_current(connection, "postgres")
                if not is_done:
                    must_see_a_schema(connection, schema)
            if not is_done:
                _bring_up_to_date(connections, doing, schema)
        except BaseException:
            connections.close()
            raise
        return cls(connections)

    @contextmanager
    def _placing(self, doing: str) -> Iterator[Ask]:
        with self._connections.transaction(doing) as connection:
            yield placing(connection)

    def analyze(self) -> bool:
        with self._connections.statement("analyzing") as connection:
            connection.execute(SQL["analyze"])
        return True

    def close(self) -> None:
        self._wakeup.close()
        self._connections.close()


def _bring_up_to_date(connections: Connections, doing: str, schema: str) -> None:
    with connections.transaction(doing, is_long=True) as connection:
        # If two first connects race, the second waits, then finds it done.
        connection.execute(SQL["migration_lock"])
        migrate(connection, "postgres", schema)
