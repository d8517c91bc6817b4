"""One connection to PostgreSQL: its patience with a silent server, and calls by libpq itself."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

import psycopg
from psycopg import errors, generators, pq
from psycopg.abc import PQGen
from psycopg.errors import Diagnostic

from deltasql.store.postgres.connections.forks import forked_in_use

Answer = TypeVar("Answer")
# Parameters as libpq takes them.
Values: TypeAlias = Sequence[bytes | None]

_PARAMETER = re.compile(r"%\((\w+)\)s")
_WAKE_EVERY = 0.1
_CANCEL_WITHIN = 5.0
# For the server's last word on what we told it to give up.
_AFTER_CANCEL = 1.0
# Looked up once: an enumeration's members are slow to reach.
_TEXT, _BINARY = pq.Format.TEXT, pq.Format.BINARY
_WENT_WELL = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


def encoded(values: Iterable[Any]) -> list[bytes | None]:
    """Values as libpq takes them; PostgreSQL reads numbers and booleans as Python prints them."""
    return [x if x is None or type(x) is bytes else f"{x}".encode() for x in values]


class Call:
    """A statement whose answer is one text, empty for none; `names` are its parameters in order,
    `binary` those that are given as bytes.

    It goes to libpq as it is: cursors, adapters and rows would be half of the client's time in
    a small commit.
    """

    _count: ClassVar[int] = 0

    def __init__(self, query: str, names: Sequence[str], *, binary: Collection[str]) -> None:
        places = {name: f"${place}" for place, name in enumerate(names, start=1)}
        self.formats = [_BINARY if name in binary else _TEXT for name in names]
        self.statement = _PARAMETER.sub(lambda match: places[match[1]], query).encode()
        Call._count += 1
        self.prepared_name = b"deltasql_%d" % Call._count


class LogConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that says nothing for `patience` seconds.

    TCP notices a peer that is gone, not one that hangs. The connection is closed then, and
    whether the statement was done is as unknown as after any lost connection. Before that,
    where `cancels`, the server is told to give up, and its answer says what became of it: for
    connections whose statements have no limit in the server itself. With `pulse` a server that
    is at work may take its time: it tells whether there is one.
    """

    patience: float | None = None
    cancels: bool = False
    pulse: Callable[[], bool] | None = None
    uses: int = 0
    # Closed, and kept only so that the pool counts it.
    is_place: bool = False
    # Behind a pooler: what a session keeps stays with the server when we disconnect.
    is_pooled: bool = False
    # Not to be used again: statements of the application's own ran on it.
    is_spent: bool = False
    # How often another server had taken over when it was made.
    takeovers: int = 0
    _calls: frozenset[bytes] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pid = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether it is that of the process that forked this one."""
        return self._pid != os.getpid()

    def wait(
        self, gen: PQGen[Answer], interval: float = _WAKE_EVERY, timeout: float | None = None
    ) -> Answer:
        """Run a conversation with the server."""
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
                # It may have stopped waiting for a replica instead: done here, and nowhere else.
                why = f"the server gave up, and warned: {warnings[0].message_primary}"
                raise self._given_up(why) from None
            answer: Answer = done.value
            return answer

    def _given_up(self, why: str) -> psycopg.OperationalError:
        self.close()
        return psycopg.OperationalError(why)

    def call(self, call: Call, values: Values) -> str:
        """Run a call as a transaction of its own; one round trip from the second time on."""
        try:
            return self._call(call, values, prepared=self.prepare_threshold is not None)
        except errors.InvalidSqlStatementName:
            # psycopg forgets all prepared statements of a connection now and then, ours with
            # its own. Nothing was run, so it may be sent again.
            self._calls -= {call.prepared_name}
            return self._call(call, values, prepared=True)

    def call_inside(self, call: Call, values: Values) -> str:
        """Run a call inside a transaction: not prepared, since a failure would end it."""
        return self._call(call, values, prepared=False)

    def _call(self, call: Call, values: Values, *, prepared: bool) -> str:
        if self._pid != os.getpid():
            raise forked_in_use()
        with self.lock:
            if not prepared:
                self.pgconn.send_query_params(
                    call.statement, values, param_formats=call.formats, result_format=_TEXT
                )
            else:
                if call.prepared_name not in self._calls:
                    self.pgconn.send_prepare(call.prepared_name, call.statement)
                    self._result()
                    self._calls |= {call.prepared_name}
                self.pgconn.send_query_prepared(call.prepared_name, values, call.formats, _TEXT)
            result = self._result()
        answer = result.get_value(0, 0) if result.ntuples else None
        return (answer or b"").decode()

    def _result(self) -> pq.abc.PGresult:
        result = self._quick_result() or self.wait(generators.execute(self.pgconn))[-1]
        if result.status in _WENT_WELL:
            return result
        error = errors.error_from_result(result, encoding="utf-8")
        if error.sqlstate is None:
            # It did not come from the server: the connection broke.
            raise psycopg.OperationalError(str(error))
        raise error

    def _quick_result(self) -> pq.abc.PGresult | None:
        """The result if the server answers soon; None leaves it to `wait`, which does the same.

        Nearly always it does, and then what `wait` does costs as much as asking the server.
        """
        pgconn = self.pgconn
        if pgconn.flush():
            return None
        try:
            if not self._readable.poll(1000 * _WAKE_EVERY):
                return None
        except BaseException:
            # Ctrl-C: nobody will read the answer.
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=_CANCEL_WITHIN)
            self.close()
            raise
        pgconn.consume_input()
        result = None
        # To the end: the server commits after the answer, and if that fails, says so after it.
        while not pgconn.is_busy():
            following = pgconn.get_result()
            if following is None:
                return result
            result = following
        rest: list[pq.abc.PGresult] = self.wait(generators.fetch_many(pgconn))
        return rest[-1] if rest else result

    @cached_property
    def _readable(self) -> select.poll:
        found = select.poll()
        found.register(self.pgconn.socket, select.POLLIN)
        return found
