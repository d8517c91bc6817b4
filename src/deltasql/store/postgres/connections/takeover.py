"""Whether another server answers than before: after a failover, or a restore beside the old one.

It may lack commits that the other one had acknowledged, where the standby was not a synchronous
one. Whoever counts on what was committed before has to look again.
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
    """Who began before another server took over must not go on there unawares.

    Without a state, so that it counts as a connection that was lost.
    """

    def __init__(self) -> None:
        super().__init__("another server has taken over the database")


class ServerWatch:
    """Asks every new connection who it leads to, and counts how often that has changed."""

    def __init__(self) -> None:
        self.takeovers = 0
        self._known: tuple[object, ...] | None = None
        self._lock = threading.Lock()

    def meet(self, connection: LogConnection) -> None:
        """Look at a connection before anybody uses it."""
        identity = _identity(connection)
        with self._lock:
            if identity is not None:
                if self._known not in (None, identity):
                    self.takeovers += 1
                self._known = identity
            connection.takeovers = self.takeovers


def _identity(connection: LogConnection) -> tuple[object, ...] | None:
    """The cluster, its timeline, which every promotion changes, and the database.

    None where nobody may ask, or where the server is a standby: nothing is committed there.
    """
    try:
        row = connection.execute(_IDENTITY, prepare=False).fetchone()
    except psycopg.Error:
        if connection.closed:
            raise
        return None
    return None if row is None or row[1] is None else row
