"""The one loop that sends a commit, and asks about it, until its outcome is known.

An attempt ends in an answer, in a refusal, or in a failure that leaves its outcome unknown: then
the same commit id is looked up, under the lock of its table, before anything else is done. Every
failure that is not listed as a refusal is of that kind.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from deltasql.commit.commit_logging import tell, told
from deltasql.commit.request import CommitRequest
from deltasql.errors import CommitError, CommitStateUnknownError, DeltaSqlError, StoreError
from deltasql.telemetry import metrics, tracing

Answer = TypeVar("Answer")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Known(Generic[Answer]):
    """The outcome, and how many attempts it took to learn it."""

    answer: Answer
    attempts: int


@dataclass(slots=True, kw_only=True)
class Sending(Generic[Answer]):
    """How a commit is sent, and how it is looked up.

    `attempt` is told whether an earlier attempt may have been committed. `find` says, under the
    lock, what those became, or None if they are not there; that is final, unless an attempt
    `arrives_late`.
    """

    requests: Sequence[CommitRequest]
    attempt: Callable[[bool], Answer]
    find: Callable[[], Answer | None]
    arrives_late: bool
    # Whether the outcome of an attempt is unknown, perhaps of one by a process that is gone.
    is_open: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_open = any(request.may_arrive for request in self.requests)

    def ask(self) -> Answer | None:
        """What earlier attempts became, if one of them was committed."""
        if not self.is_open:
            return None
        found = self.find()
        if found is None and not self.arrives_late:
            self._mark(is_open=False)
        return found

    def answer_is_lost(self) -> None:
        """Remember that an attempt may have been committed, or may yet be."""
        self._mark(is_open=True)

    def _mark(self, *, is_open: bool) -> None:
        self.is_open = is_open
        for request in self.requests:
            request.may_arrive = is_open


def until_known(sending: Sending[Answer], *, timeout: float) -> Known[Answer]:
    """Send a commit until its outcome is known, for as long as `timeout` allows."""
    with tracing.span("sql.commit", **told(sending.requests)):
        known = _until_known(sending, timeout)
        tracing.note(attempt=known.attempts)
        return known


def _until_known(sending: Sending[Answer], timeout: float) -> Known[Answer]:
    patience = _Patience(timeout)
    failure: StoreError | None = None
    for number in count(1):
        try:
            answer = sending.ask()
            if answer is None and (sending.is_open or failure is None or failure.is_transient):
                answer = sending.attempt(sending.is_open)
        except StoreError as error:
            failure = error
            patience.assess(error, sending)
            tell(logging.WARNING, "the commit is sent again", sending.requests, number, error)
        except DeltaSqlError as error:
            found = _found_at_last(sending)
            if found is not None:
                return Known(found, number)
            if isinstance(error, CommitError):
                metrics.COMMIT_CONFLICTS.inc()
            tell(logging.INFO, "the commit was refused", sending.requests, number, error)
            raise
        else:
            if answer is not None:
                return Known(answer, number)
            assert failure is not None, "there was an attempt"
            # It was not committed and never will be, and sending it again would end the same way.
            raise failure
        patience.pause()
    raise AssertionError("unreachable")


class _Patience:
    """How long to go on sending and asking."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._was_lost = False
        self._pause = FIRST_PAUSE

    def assess(self, error: StoreError, sending: Sending[Answer]) -> None:
        """Raise what the failure of an attempt means, unless there is to be another attempt."""
        if not error.is_refusal:
            sending.answer_is_lost()
            if not self._was_lost:
                # However long the lost answer has taken: there must be time to ask.
                self._was_lost, self._deadline = True, time.monotonic() + self._timeout
        is_over = time.monotonic() + self._pause > self._deadline
        if sending.is_open and is_over:
            raise unknown(sending.requests, error) from error
        if not sending.is_open and (is_over or not error.is_transient):
            raise error

    def pause(self) -> None:
        """Wait, longer each time."""
        time.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)


@contextmanager
def nothing_sent() -> Iterator[None]:
    """Marks a part of an attempt that only reads: if it fails, the attempt has done nothing."""
    try:
        yield
    except StoreError as error:
        error.is_refusal = True
        raise


def _found_at_last(sending: Sending[Answer]) -> Answer | None:
    """What a first try did that was still under way: it may be why the second was refused."""
    try:
        return sending.ask()
    except StoreError as lost:
        raise unknown(sending.requests, lost) from lost


def unknown(requests: Sequence[CommitRequest], error: DeltaSqlError) -> CommitStateUnknownError:
    """The error for attempts whose outcome could not be learned."""
    ids = ", ".join(request.commit_id for request in requests)
    return CommitStateUnknownError(
        f"it is unknown whether commit {ids} succeeded",
        cause=f"the database's answer was lost, and asking again failed: {error.problem}",
        remedy="when the database is back, look the commit id up in the table's history; "
        "keep the data files until then",
        commit_id=requests[0].commit_id,
    )
