"""A big object, written piece by piece in bounded memory, visible only when it is complete."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Output(io.RawIOBase):
    """A file to write to, for pyarrow or others; its block ends it, `close` does not.

    `created` is None inside the block. After it, True says that our object is there now, and False
    that one of that name existed and ours was discarded.
    """

    def __init__(self, send: Callable[[memoryview], Any]) -> None:
        super().__init__()
        self._send = send
        self._at = 0
        self.created: bool | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = memoryview(data).cast("B")
        if piece:
            self._send(piece)
            self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """Does nothing: a writer that closes its file must not publish what it failed to finish."""


@contextmanager
def publishing(send: Callable[[memoryview], Any], publish: Callable[[], bool]) -> Iterator[Output]:
    """An output that is published at the end of the block, unless the block raises."""
    output = Output(send)
    yield output
    output.created = publish()
