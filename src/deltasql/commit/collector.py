"""Python's garbage collector, paused while a large commit is put together.

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
    return _AS_IT_IS if actions < _LARGE or not gc.isenabled() else _paused()


@contextmanager
def _paused() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_AS_IT_IS = nullcontext()
