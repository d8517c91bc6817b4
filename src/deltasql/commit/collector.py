"""Python's garbage collector, paused while many rows are put together.

A commit of 100,000 files creates a million values that live until it is sent, none of them in a
reference cycle. To scan all of them again and again would take a quarter of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_LARGE = 1_000


def paused_for(actions: int) -> AbstractContextManager[None]:
    """Pause collection inside the block, if there are many actions and collection is on."""
    return _AS_IT_IS if actions < _LARGE else paused()


@contextmanager
def paused() -> Iterator[None]:
    """Pause collection inside the block, and restore it afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_AS_IT_IS = nullcontext()
