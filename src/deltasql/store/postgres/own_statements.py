"""The application's own statements inside a commit's transaction, which they must not end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import pq

from deltasql.store.embedded.committing import left_transaction
from deltasql.store.postgres.connections.connection import LogConnection

_INSIDE = pq.TransactionStatus.INTRANS
# DISCARD ALL, as far as it can be part of a transaction: behind a pooler, the next transaction may
# use another session, and anybody may get this one next.
_LEAVE = (
    "RESET ALL; RESET SESSION AUTHORIZATION; DISCARD TEMP; UNLISTEN *;"
    " SELECT pg_catalog.pg_advisory_unlock_all()"
)


class OwnStatements:
    """Runs them between two marks: ending the transaction loses the first mark."""

    def __init__(self, connection: LogConnection) -> None:
        self._connection = connection
        self._is_marked = False

    def execute(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one; returns its rows."""
        if not self._is_marked:
            # They may change the session in ways their text does not show, such as by a function.
            self._connection.is_spent = True
            self._connection.execute("SAVEPOINT before_own_statements")
            self._is_marked = True
        # Without parameters, a % in the statement stays a %.
        cursor = self._connection.execute(statement, parameters or None)
        found = cursor.fetchall() if cursor.description else []
        if self._connection.pgconn.transaction_status != _INSIDE:
            raise left_transaction(statement)
        return found

    def end(self) -> None:
        """Raise unless this is still the transaction that they began in."""
        if self._is_marked:
            self._connection.execute("RELEASE SAVEPOINT before_own_statements")

    @contextmanager
    def left_behind(self) -> Iterator[None]:
        """Undo, as the last step, what a session would keep after we have disconnected."""
        try:
            yield
        except BaseException:
            # The failure itself is the one to report.
            with suppress(psycopg.Error):
                # In one message, so that a pooler sends all of it to the same session.
                self._leave("ROLLBACK; " + _LEAVE)
            raise
        self._leave(_LEAVE)

    def _leave(self, statements: str) -> None:
        connection = self._connection
        if self._is_marked and connection.is_pooled and not connection.closed:
            connection.execute(statements, prepare=False)
