"""Failures that databases in our own process have in common."""

from __future__ import annotations

from deltasql.errors import DatabaseError, StoreTimeoutError


def turn_timeout(path: str, timeout: float, *, others: str, advice: str = "") -> StoreTimeoutError:
    """The error for a writer whose turn did not come; `others` were in the queue."""
    return StoreTimeoutError(
        f"could not write to {path} within {timeout:g} s",
        cause=f"other {others} were ahead in the queue all that time, or one of them hangs",
        remedy=f"try again, or raise sql.timeout{advice}",
        is_refusal=True,
    )


def nested_write(path: str) -> DatabaseError:
    """The error for a write inside a `locked` block of the same thread."""
    return DatabaseError(
        f"a write to {path} began inside a locked block of the same thread",
        cause="a database has one writer at a time, and that is the block",
        remedy="write through the block's own log, or after the block",
        is_refusal=True,
    )


def closed(path: str) -> DatabaseError:
    """The error for a store that was closed."""
    return DatabaseError(
        f"the log in {path} was closed",
        cause="close() was called on this store",
        remedy="connect again",
        is_refusal=True,
    )
