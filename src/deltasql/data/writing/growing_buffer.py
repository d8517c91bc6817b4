"""A file in memory that grows without copies: Arrow's own doubles, and holds both for a while."""

from __future__ import annotations

import io
import mmap
from typing import Any, Final

import pyarrow as pa

# Little, because hundreds may be open, and limits on memory count what is reserved.
_STEP: Final = 1 << 20


class GrowingBuffer(io.RawIOBase):
    """Takes what is written; pages that were never written to take no memory."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = _pages(_STEP)
        self._room = _STEP
        self._size = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any, /) -> int:
        """Add bytes at the end."""
        piece = memoryview(data).cast("B")
        end = self._size + len(piece)
        if end > self._room:
            self._grow(end)
        self._memory[self._size : end] = piece
        self._size = end
        return len(piece)

    def tell(self) -> int:
        """How many bytes there are."""
        return self._size

    def getvalue(self) -> pa.Buffer:
        """What was written, without a copy: nothing more may be written afterwards."""
        return pa.py_buffer(memoryview(self._memory)[: self._size])

    def close(self) -> None:
        """Do nothing: the value may still be in use."""

    def _grow(self, end: int) -> None:
        room = max(end, self._room + self._room // 2)
        room += -room % _STEP
        try:
            self._memory.resize(room)
        except (SystemError, OSError):
            # Not every system can move pages.
            memory = _pages(room)
            memory[: self._size] = self._memory[: self._size]
            self._memory.close()
            self._memory = memory
        self._room = room


def _pages(room: int) -> mmap.mmap:
    """Private pages: shared memory does not grow with its mapping."""
    return mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
