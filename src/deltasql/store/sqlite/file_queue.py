"""A queue of writers, across threads and processes, on a lock file beside the database.

SQLite's own lock is polled, and the one who polls at the right moment wins; an unlucky writer
starves. The kernel keeps waiters for a file lock in order, and releases the locks of a process that
dies. Correctness depends on SQLite alone; this is for fairness.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from queue import SimpleQueue
from threading import Lock, Thread

from deltasql.store.embedded.turns import Turns


class FileQueue:
    """`acquire` and `release` for threads of this process and of others."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._start_afresh()
        _queues.add(self)

    def _start_afresh(self) -> None:
        self._turns = Turns()
        self._descriptor: int | None = None
        self._waiter: _Waiter | None = None

    def is_mine(self) -> bool:
        """Whether the calling thread holds it."""
        return self._turns.is_mine()

    def acquire(self, timeout: float) -> bool:
        """Wait for the turn; False if it did not come in time."""
        deadline = time.monotonic() + timeout
        if not self._turns.acquire(timeout):
            return False
        has_come = False
        try:
            has_come = self._lock_file(deadline)
        finally:
            if not has_come:
                self._descriptor = None
                self._turns.release()
        return has_come

    def release(self) -> None:
        """End the turn."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _unlock(descriptor)
            self._turns.release()

    def close(self) -> None:
        """End the waiting thread, if there is one."""
        if self._waiter is not None:
            self._waiter.stop()
            self._waiter = None

    def _lock_file(self, deadline: float) -> bool:
        # A separate open file each time: locks belong to it, not to the process.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._descriptor = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if self._waiter is None:
                self._waiter = _Waiter()
            return self._waiter.wait(descriptor, deadline)
        except BaseException:
            os.close(descriptor)
            raise
        return True

    def forget(self) -> None:
        """In a forked child: drop what the parent has, without unlocking it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._start_afresh()


class _Request:
    """A lock that someone waits for, until it is granted or no longer wanted."""

    __slots__ = ("answer", "descriptor", "failure", "is_abandoned", "is_settled", "mutex")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.answer = Lock()
        self.answer.acquire()
        self.mutex = Lock()
        self.is_settled = False
        self.is_abandoned = False
        self.failure: OSError | None = None

    def abandon(self) -> bool:
        """Stop wanting the lock; False if it was already granted."""
        with self.mutex:
            self.is_abandoned = not self.is_settled
            return self.is_abandoned

    def settle(self) -> None:
        """Wait for the lock, and hand it to the requester."""
        try:
            if not self.is_abandoned:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except OSError as error:
            self.failure = error
        with self.mutex:
            self.is_settled = True
        if self.is_abandoned:
            _unlock(self.descriptor)
        else:
            self.answer.release()


class _Waiter:
    """A thread that waits in the kernel's queue, where no timeout can be set."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        Thread(target=self._run, name="deltasql-file-queue", daemon=True).start()

    def wait(self, descriptor: int, deadline: float) -> bool:
        """Whether the lock came in time."""
        request = _Request(descriptor)
        self._requests.put(request)
        try:
            has_come = request.answer.acquire(timeout=max(0.0, deadline - time.monotonic()))
        except BaseException:
            if not request.abandon():
                _unlock(descriptor)
            raise
        if not has_come and request.abandon():
            return False
        if request.failure is not None:
            os.close(descriptor)
            raise request.failure
        return True

    def stop(self) -> None:
        self._requests.put(None)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            request.settle()


def _unlock(descriptor: int) -> None:
    # Closing alone would not do: a forked child may have a copy of the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


_queues: weakref.WeakSet[FileQueue] = weakref.WeakSet()


def _forget_all() -> None:
    for queue in list(_queues):
        queue.forget()


os.register_at_fork(after_in_child=_forget_all)
