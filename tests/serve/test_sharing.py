"""Answers that are shared: made once, given to all, and to nobody too late."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from deltasql.serve import sharing
from deltasql.serve.sharing import Shared


class Slow:
    """Makes answers that tell their number, each in a tenth of a second."""

    def __init__(self) -> None:
        self.made = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        time.sleep(0.1)
        with self._lock:
            self.made += 1
            return self.made


def test_one_is_made_for_all_who_ask():
    slow = Slow()

    async def run() -> list[int]:
        shared: Shared[int] = Shared()
        return list(await asyncio.gather(*(shared.get("key", slow) for _ in range(100))))

    assert asyncio.run(run()) == [1] * 100
    assert slow.made == 1


def test_nobody_waits_while_the_next_one_is_made(monkeypatch):
    monkeypatch.setattr(sharing, "_WORTH", 0.5)
    monkeypatch.setattr(sharing, "_STALE", 100)
    slow = Slow()

    async def run() -> None:
        shared: Shared[int] = Shared()
        assert await shared.get("key", slow) == 1
        await asyncio.sleep(0.1)
        started = time.monotonic()
        # It is due, and made for the next one who asks.
        assert await shared.get("key", slow) == 1
        assert time.monotonic() - started < 0.09
        deadline = time.monotonic() + 10
        while await shared.get("key", slow) == 1:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    asyncio.run(run())


def test_an_answer_that_is_too_old_is_waited_for(monkeypatch):
    monkeypatch.setattr(sharing, "_WORTH", 0.1)
    slow = Slow()

    async def run() -> None:
        shared: Shared[int] = Shared()
        assert await shared.get("key", slow) == 1
        await asyncio.sleep(0.3)
        assert await shared.get("key", slow) == 2

    asyncio.run(run())


def test_a_failure_is_told_to_who_waits_and_not_kept():
    calls = iter([ValueError("away"), None])

    def make() -> str:
        if (error := next(calls)) is not None:
            raise error
        return "there"

    async def run() -> str:
        shared: Shared[str] = Shared()
        with pytest.raises(ValueError, match="away"):
            await shared.get("key", make)
        return await shared.get("key", make)

    assert asyncio.run(run()) == "there"
