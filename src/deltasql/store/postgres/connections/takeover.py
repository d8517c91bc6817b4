"""Detects that another server answers: after a failover, or a restore beside the old one.

If the standby was not synchronous, it may lack commits that the old server had acknowledged. Code
that relies on earlier commits must check again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import psycopg

from deltasql.store import queries

if TYPE_CHECKING:
    from deltasql.store.postgres.connections.connection import LogConnection

_IDENTITY: Final = queries.load("postgres")["server_identity"]


class TakenOverError(psycopg.OperationalError):
    """Work that began before another server took over must not go on there unawares.

    Without a state, so that it counts as a lost connection.
    """

    def __init__(self) -> None:
        super().__init__("another server has taken over the database")


class ServerWatch:
    """Asks every new connection which server it leads to, and counts the changes."""

    def __init__(self) -> None:
        self.takeovers = 0
        self._known: tuple[object, ...] | None = None
        self._lock = threading.Lock()

    def meet(self, connection: LogConnection) -> None:
        """Check a connection before anybody uses it."""
        identity = _identity(connection)
        with self._lock:
            if identity is not None:
                if self._known not in (None, identity):
                    self.takeovers += 1
                self._known = identity
            connection.takeovers = self.takeovers


def _identity(connection: LogConnection) -> tuple[object, ...] | None:
    """The cluster, its timeline, which every promotion changes, and the database.

    None if we may not ask, or if the server is a standby: nothing is committed there.
    """
    try:
        row = connection.execute(_IDENTITY, prepare=False).fetchone()
    except psycopg.Error:
        if connection.closed:
            raise
        return None
    return None if row is None or row[1] is None else row
