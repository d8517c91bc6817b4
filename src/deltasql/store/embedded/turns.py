"""A lock for threads that is granted in the order of asking."""

from __future__ import annotations

from collections import deque
from threading import Lock, get_ident


class Turns:
    """A fair lock: with Python's own, the thread that released it may take it again for ever."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._waiting: deque[Lock] = deque()
        self._is_taken = False
        self._holder: int | None = None

    def is_mine(self) -> bool:
        """Whether the calling thread holds it."""
        return self._holder == get_ident()

    def acquire(self, timeout: float) -> bool:
        """Wait for the turn; False if it did not come in time."""
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                self._holder = get_ident()
                return True
            ticket = Lock()
            ticket.acquire()
            self._waiting.append(ticket)
        try:
            came = ticket.acquire(timeout=timeout)
        except BaseException:
            if not self._give_up(ticket):
                self.release()
            raise
        if not came and self._give_up(ticket):
            return False
        self._holder = get_ident()
        return True

    def release(self) -> None:
        """End the turn; the thread that has waited longest is next."""
        with self._mutex:
            self._holder = None
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False

    def _give_up(self, ticket: Lock) -> bool:
        """Leave the queue; False if the turn came at the last moment."""
        with self._mutex:
            if ticket not in self._waiting:
                return False
            self._waiting.remove(ticket)
            return True
