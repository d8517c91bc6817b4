"""Calls in the background, waiting for something to become true, and limits of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import deltasql
from tests.stress.database import query


class Background(threading.Thread):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._answer: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._call()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error

    def result(self, limit: float = 30) -> Any:
        """What the call returned or raised."""
        self.join(limit)
        assert not self.is_alive(), f"still running after {limit} s"
        if self._error is not None:
            raise self._error
        return self._answer


def until(condition: Callable[[], object], limit: float = 20) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.01)


_TICK = 0.01


class _Stalls(threading.Thread):
    """How long the machine was busy with others: what ticks come late by."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._is_over = threading.Event()
        self.seconds = 0.0
        self.start()

    def run(self) -> None:
        last = time.monotonic()
        while not self._is_over.wait(_TICK):
            now = time.monotonic()
            self.seconds += now - last - _TICK
            last = now

    def end(self) -> None:
        self._is_over.set()
        self.join()


@contextmanager
def within(limit: float) -> Iterator[None]:
    """No longer than the limit on a quiet machine.

    On a busy one the client and the server may each take longer by what it keeps them waiting.
    """
    stalls, started = _Stalls(), time.monotonic()
    try:
        yield
    finally:
        taken = time.monotonic() - started
        stalls.end()
    assert taken < limit + 2 * stalls.seconds


def blocked(url: str) -> int:
    """How many of PostgreSQL's backends wait for a lock."""
    ((count,),) = query(url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return int(count)


def end_leases(lake: deltasql.Lake) -> None:
    """As if half a minute had gone by since the death of whoever held the mirror's leases."""
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_mirror_leases SET expires_at = '2020-01-01 00:00:00'")
