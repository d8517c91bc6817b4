"""What a forked child does with its parent's connections: nothing, not even close them.

Both would talk over one socket, and one would get the other's answers. libpq says goodbye to the
server when it closes a connection, so a child that cleans up would end its parent's.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Protocol

from deltasql.errors import DatabaseError


class Forgetful(Protocol):
    """An object that has connections."""

    def forget(self) -> None:
        """In a forked child: start anew; what was inherited goes to `keep_untouched`."""


def forget_after_fork(thing: Forgetful) -> None:
    """Call its `forget` in every child, before the child does anything else."""
    _known.add(thing)


def keep_untouched(*inherited: Any) -> None:
    """Never use it again, and never let Python destroy it, which would close it."""
    for thing in inherited:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def forked_in_use(doing: str = "") -> DatabaseError:
    """The error for a child that continues what its parent had begun."""
    return DatabaseError(
        f"a connection to PostgreSQL can't be used in this forked process{doing}",
        cause="it was in use when the process was forked, and belongs to the parent",
        remedy="fork outside of transactions and of running reads, or start processes with spawn",
    )


def _forget_all() -> None:
    for thing in list(_known):
        thing.forget()


_known: weakref.WeakSet[Forgetful] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_all)
