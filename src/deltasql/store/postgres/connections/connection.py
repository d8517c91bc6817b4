"""One connection to PostgreSQL, and its patience with a silent server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import Diagnostic

from deltasql.secrecy import raise_alone
from deltasql.store.postgres.connections.forks import forked_in_use
from deltasql.telemetry import metrics

Answer = TypeVar("Answer")

_WAKE_EVERY = 0.1
# How long to wait for the server's last answer after a cancel.
_AFTER_CANCEL = 1.0


class LogConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that is silent for `patience` seconds.

    TCP notices a peer that is gone, but not one that hangs. The connection is then closed, and
    whether the statement was executed is as unknown as after any lost connection. If `cancels` is
    set, the server is first told to give up, and its answer says what happened: for connections
    whose statements have no limit in the server itself. With `pulse`, which tells whether the
    server is alive, a busy server may take its time.
    """

    patience: float | None = None
    cancels: bool = False
    pulse: Callable[[], bool] | None = None
    # Closed, and kept only so that the pool counts it.
    is_place: bool = False
    # Behind a pooler: session state stays with the server after we disconnect.
    is_pooled: bool = False
    # Not to be used again: the application's own statements ran on it.
    is_spent: bool = False
    # How often another server had taken over when it was made.
    takeovers: int = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pid = os.getpid()

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """A new connection; the pool logs its failures, with all that they hold."""
        try:
            return super().connect(*args, **kwargs)
        except psycopg.Error as error:
            # The options of the connection, with the password.
            error._pgconn = None
            raise_alone(error.with_traceback(None))

    @property
    def is_inherited(self) -> bool:
        """Whether it belongs to the process that forked this one."""
        return self._pid != os.getpid()

    def wait(
        self, gen: PQGen[Answer], interval: float = _WAKE_EVERY, timeout: float | None = None
    ) -> Answer:
        """Run a conversation with the server."""
        metrics.SQL_ROUND_TRIPS.inc()
        if self._pid != os.getpid():
            raise forked_in_use()
        if self.patience is not None and timeout is None:
            gen = self._impatient(gen, self.patience)
        return super().wait(gen, interval, timeout)

    def _impatient(self, gen: PQGen[Answer], patience: float) -> PQGen[Answer]:
        warnings: list[Diagnostic] = []
        is_cancelled = False
        try:
            wanted = next(gen)
            deadline = time.monotonic() + patience
            while True:
                ready = yield wanted
                if ready:
                    deadline = time.monotonic() + patience
                elif time.monotonic() > deadline:
                    if self.pulse is not None and self.pulse():
                        deadline = time.monotonic() + patience
                    elif self.cancels and not is_cancelled:
                        is_cancelled = True
                        self.add_notice_handler(warnings.append)
                        with suppress(psycopg.Error):
                            self.cancel_safe(timeout=_AFTER_CANCEL)
                        deadline = time.monotonic() + _AFTER_CANCEL
                    else:
                        raise self._given_up(f"the server did not answer for {patience:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            if is_cancelled:
                self.remove_notice_handler(warnings.append)
            if warnings:
                # It may only have stopped waiting for a replica: then it is committed here, and
                # nowhere else.
                why = f"the server gave up, and warned: {warnings[0].message_primary}"
                raise self._given_up(why) from None
            answer: Answer = done.value
            return answer

    def _given_up(self, why: str) -> psycopg.OperationalError:
        self.close()
        return psycopg.OperationalError(why)

    def answer(self, query: str, parameters: Mapping[str, Any]) -> str:
        """The single text that a statement returns, empty if there is none."""
        row = self._asking.execute(query, parameters).fetchone()
        return "" if row is None or row[0] is None else str(row[0])

    @cached_property
    def _asking(self) -> psycopg.Cursor[tuple[Any, ...]]:
        # Kept, because making a cursor takes as long as using it.
        return self.cursor()
