"""Python's garbage collector, paused while many rows are put together.

A commit of 100,000 files makes a million values that live until it is sent, and none of them
refers in a circle. The collector would go through all of them again and again: a quarter of
the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_LARGE = 1_000


def paused_for(actions: int) -> AbstractContextManager[None]:
    """No collection inside the block, if there are many actions and there was any before."""
    return _AS_IT_IS if actions < _LARGE else paused()


@contextmanager
def paused() -> Iterator[None]:
    """No collection inside the block; as it was after it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_AS_IT_IS = nullcontext()
