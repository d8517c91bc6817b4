"""Answers that many ask for at once: made by one of them, and given to all."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Answer = TypeVar("Answer")

# How many times longer than its making an answer is shared, and how much longer it is given while
# the next one is made: so at most a sixth of a thread's time goes into it, however many ask, nobody
# waits on a busy page, and that of a small lake is fresh.
_WORTH: Final = 5
_LONGEST: Final = 1.0
_STALE: Final = 4
_KEPT: Final = 128


@dataclass(frozen=True, slots=True)
class Page:
    """A page for all who ask for it, and the tag by which they learn whether it has changed."""

    body: bytes
    status: int = 200
    tag: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.body, digest_size=12).hexdigest()
        object.__setattr__(self, "tag", f'"{digest}"')


@dataclass(slots=True)
class _Made(Generic[Answer]):
    answer: Answer
    until: float
    stale_until: float


class Shared(Generic[Answer]):
    """Answers by what was asked for, each made once at a time. Used by one event loop alone."""

    def __init__(self) -> None:
        self._made: dict[Hashable, _Made[Answer]] = {}
        self._making: dict[Hashable, asyncio.Task[Answer]] = {}
        self._changes = 0

    def forget(self) -> None:
        """Give no answer whose making began before now: something has changed."""
        self._changes += 1
        self._made.clear()

    async def get(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """The answer for a key, by `make` in a thread unless there is a recent one."""
        key = (self._changes, key)
        made, now = self._made.get(key), time.monotonic()
        if made is not None and now < made.until:
            return made.answer
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(key, make))
            # Whoever waits for it is told; it may be that nobody does.
            task.add_done_callback(_heard)
        if made is not None and now < made.stale_until:
            return made.answer
        # One who hangs up must not take the answer from the others.
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        started = time.monotonic()
        try:
            answer = await run_in_threadpool(make)
            now = time.monotonic()
            self._keep(key, answer, now, min(_LONGEST, _WORTH * (now - started)))
            return answer
        finally:
            del self._making[key]

    def _keep(self, key: Hashable, answer: Answer, now: float, fresh: float) -> None:
        # The newest are last: who asks for ever new things takes the places of the oldest.
        self._made.pop(key, None)
        self._made[key] = _Made(answer, now + fresh, now + _STALE * fresh)
        if len(self._made) > _KEPT:
            left = {k: item for k, item in self._made.items() if item.stale_until > now}
            self._made = dict(list(left.items())[-_KEPT:])


def _heard(task: asyncio.Task[Answer]) -> None:
    if not task.cancelled():
        task.exception()
