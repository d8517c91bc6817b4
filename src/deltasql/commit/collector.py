"""Python's garbage collector, paused while a large commit is put together.

A commit of 100,000 files makes a million values that live until it is sent, and none of them
refers in a circle. The collector would go through all of them again and again: a quarter of
the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 1_000


@contextmanager
def paused_for(actions: int) -> Iterator[None]:
    """No collection inside the block, if there are many actions and there was any before."""
    if actions < _LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
