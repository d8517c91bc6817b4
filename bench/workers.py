"""Many processes that do the same work at the same time.

Each opens its own connection, warms up, waits until all are ready, and then repeats its
operation for some seconds. An operation that raises counts as failed, and the process goes on.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

# Called with the number of the turn; what it raises is a failure.
Operation = Callable[[int], Any]
# Must be picklable: a function of a module, or a `functools.partial` of one.
Opener = Callable[[], AbstractContextManager[Operation]]

Given = TypeVar("Given")

_READY_TIMEOUT = 120
_SLACK = 120


@dataclass(frozen=True, slots=True)
class Tally:
    """What one process, or all of them together, did; `warmed` succeeded before the start."""

    done: int
    failed: int
    longest: float
    started: float
    ended: float
    warmed: int = 0
    problem: str | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def rate(self) -> float:
        """Operations a second that succeeded."""
        return self.done / self.seconds


def run(openers: Sequence[Opener], *, seconds: float, warmup: int = 10) -> Tally:
    """Run one process for each opener; `warmup` operations of each are not counted."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(openers))
    answers = context.Queue()
    processes = [
        context.Process(target=_work, args=(opener, barrier, answers, seconds, warmup), daemon=True)
        for opener in openers
    ]
    try:
        for process in processes:
            process.start()
        deadline = time.monotonic() + _READY_TIMEOUT + seconds + _SLACK
        return _together([_answer(answers, deadline) for _ in processes])
    finally:
        for process in processes:
            if process.pid is not None:
                process.join(timeout=5)
                process.kill()
                process.join()


def prepared(make: Callable[[int], Given], *, turns: int) -> Callable[[int], Given]:
    """What an operation is given, made for as many turns before the clock starts.

    A process that gets further makes the rest as it goes.
    """
    ready = [make(turn) for turn in range(turns)]
    return lambda turn: ready[turn] if turn < turns else make(turn)


def combined(tallies: Sequence[Tally]) -> Tally:
    """Several runs, one after the other, as if they had been one."""
    seconds = sum(tally.seconds for tally in tallies)
    return Tally(
        done=sum(tally.done for tally in tallies),
        failed=sum(tally.failed for tally in tallies),
        longest=max(tally.longest for tally in tallies),
        started=0.0,
        ended=seconds,
        warmed=sum(tally.warmed for tally in tallies),
        problem=next((tally.problem for tally in tallies if tally.problem), None),
    )


def _answer(answers: Any, deadline: float) -> Tally:
    try:
        answer = answers.get(timeout=max(1.0, deadline - time.monotonic()))
    except queue.Empty:
        raise RuntimeError("a worker did not answer in time") from None
    if isinstance(answer, str):
        raise RuntimeError(f"a worker could not begin:\n{answer}")
    return answer


def _together(tallies: Sequence[Tally]) -> Tally:
    # The monotonic clock is one for all processes of a machine.
    return Tally(
        done=sum(tally.done for tally in tallies),
        failed=sum(tally.failed for tally in tallies),
        longest=max(tally.longest for tally in tallies),
        started=min(tally.started for tally in tallies),
        ended=max(tally.ended for tally in tallies),
        warmed=sum(tally.warmed for tally in tallies),
        problem=next((tally.problem for tally in tallies if tally.problem), None),
    )


def _work(opener: Opener, barrier: Barrier, answers: Any, seconds: float, warmup: int) -> None:
    # Ctrl-C is the parent's to handle: it ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with opener() as operation:
            warmed = sum(_try(operation, turn) is None for turn in range(warmup))
            barrier.wait(_READY_TIMEOUT)
            answers.put(replace(_repeat(operation, warmup, seconds), warmed=warmed))
    except BaseException:  # noqa: BLE001 - the parent shows it
        barrier.abort()
        answers.put(traceback.format_exc())


def _repeat(operation: Operation, turn: int, seconds: float) -> Tally:
    done = failed = 0
    longest = 0.0
    problem = None
    started = before = time.monotonic()
    while before - started < seconds:
        failure = _try(operation, turn)
        now = time.monotonic()
        longest = max(longest, now - before)
        before = now
        turn += 1
        if failure is None:
            done += 1
        else:
            failed += 1
            problem = failure
    return Tally(done, failed, longest, started, before, problem=problem)


def _try(operation: Operation, turn: int) -> str | None:
    try:
        operation(turn)
    except Exception as error:  # noqa: BLE001 - counted, and the last one told
        return f"{type(error).__name__}: {error}"[:300]
    return None
