"""Tells the workers that there is something to mirror, by NOTIFY and LISTEN.

It only saves the wait for the next poll, so every failure here is silent, and costs no more than
that wait.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import psycopg

from deltasql.errors import StoreError
from deltasql.store import queries
from deltasql.store.postgres.connections.connection import LogConnection
from deltasql.store.postgres.connections.forks import forget_after_fork, keep_untouched
from deltasql.store.postgres.connections.pool import Connections, is_pooled

_SQL = queries.load("postgres")

# Every NOTIFY briefly takes a lock of the whole server, so one stands for many commits.
_SEND_EVERY: Final = 0.1
# How long a listener may ignore `stop`.
_LOOK_EVERY: Final = 0.2
_RECONNECT_AFTER: Final = 30.0


class WakeUp:
    """Sends and waits; each store has one."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._begin()
        forget_after_fork(self)

    def _begin(self) -> None:
        self._sent = -_SEND_EVERY
        self._sending = threading.Lock()
        self._listening = threading.Lock()
        self._listener: LogConnection | None = None
        self._not_before = 0.0

    def forget(self) -> None:
        """In a forked child: leave the parent's connection to the parent."""
        keep_untouched(self._listener)
        self._begin()

    def send(self) -> None:
        """Tell listeners, unless they were told a moment ago."""
        with self._sending:
            now = time.monotonic()
            if now - self._sent < _SEND_EVERY:
                return
            self._sent = now
        try:
            with self._connections.statement("waking the mirror") as connection:
                connection.execute(_SQL["mirror_notify"], prepare=False)
        except StoreError:
            return

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Sleep until a notification comes, at most this long, or until `stop` is set."""
        # A second waiter in the same process just sleeps: it needs no connection of its own.
        if not self._listening.acquire(blocking=False):
            stop.wait(seconds)
            return
        try:
            listener = self._connected()
            if listener is None:
                stop.wait(seconds)
            else:
                self._listen(listener, seconds, stop)
        finally:
            self._listening.release()

    def _listen(self, listener: LogConnection, seconds: float, stop: threading.Event) -> None:
        deadline = time.monotonic() + seconds
        try:
            while not stop.is_set() and (left := deadline - time.monotonic()) > 0:
                for _ in listener.notifies(timeout=min(left, _LOOK_EVERY), stop_after=1):
                    return
        except psycopg.Error:
            self._disconnect()
            stop.wait(max(0.0, deadline - time.monotonic()))

    def _connected(self) -> LogConnection | None:
        """The listening connection; None through a pooler, which forgets who listens."""
        if self._listener is not None and not self._listener.closed:
            return self._listener
        if time.monotonic() < self._not_before:
            return None
        # Whatever happens, don't keep asking a pooler or a server that is down.
        self._not_before = time.monotonic() + _RECONNECT_AFTER
        try:
            self._listener = self._connections.connect_alone()
            if is_pooled(self._listener):
                self._disconnect()
                return None
            self._listener.execute(_SQL["mirror_listen"], prepare=False)
        except psycopg.Error:
            self._disconnect()
        return self._listener

    def _disconnect(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """Stop listening."""
        with self._listening:
            self._disconnect()
