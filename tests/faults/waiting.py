"""Calls in the background, and waiting for something to become true."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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


def blocked(url: str) -> int:
    """How many of PostgreSQL's backends wait for a lock."""
    ((count,),) = query(url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return int(count)


def end_leases(lake: deltasql.Lake) -> None:
    """As if half a minute had gone by since the death of whoever held the mirror's leases."""
    with lake.store.locked([]) as log:
        log.execute("UPDATE dl_mirror_leases SET expires_at = '2020-01-01 00:00:00'")
