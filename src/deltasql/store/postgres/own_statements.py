"""The application's own statements inside a commit's transaction, which must stay the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import pq

from deltasql.store.committing import left_transaction
from deltasql.store.postgres.connection import LogConnection

_INSIDE = pq.TransactionStatus.INTRANS


class OwnStatements:
    """Runs them between two marks: whoever ends the transaction loses the first one."""

    def __init__(self, connection: LogConnection) -> None:
        self._connection = connection
        self._is_marked = False

    def execute(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one; its rows."""
        if not self._is_marked:
            self._connection.execute("SAVEPOINT before_own_statements")
            self._is_marked = True
        # Without parameters a % in the statement is a %.
        cursor = self._connection.execute(statement, parameters or None)
        found = cursor.fetchall() if cursor.description else []
        if self._connection.pgconn.transaction_status != _INSIDE:
            raise left_transaction(statement)
        return found

    def end(self) -> None:
        """Fails unless it is still the transaction that they began in."""
        if self._is_marked:
            self._connection.execute("RELEASE SAVEPOINT before_own_statements")
