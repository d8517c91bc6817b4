"""What a psycopg error means to a caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from deltasql.errors import DatabaseError, DeltaSqlError, StoreTimeoutError
from deltasql.store.committing import added_twice, doubled_path

# What the functions in SQL refuse, by the states that they raise.
_REFUSALS = {"DL001": doubled_path, "DL002": added_twice}
FAILURES = (psycopg.Error, PoolTimeout)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn psycopg's errors into ours; `doing` says what failed."""
    try:
        yield
    except FAILURES as error:
        raise translate(error, doing) from None


def translate(error: Exception, doing: str) -> DeltaSqlError:
    """Our error for one of psycopg's; connections that broke are marked `connection_lost`."""
    if isinstance(error, PoolTimeout):
        return StoreTimeoutError(
            f"no connection to PostgreSQL was free in time while {doing}",
            cause=str(error),
            remedy="raise sql.pool_size or sql.timeout, or run fewer writers in this process; "
            "if the server is down, start it",
        )
    if isinstance(error, PoolClosed):
        # Nothing was sent: this is no connection that was lost.
        return DatabaseError(
            f"the log was closed before {doing}",
            cause="close() was called on this store",
            remedy="connect again",
        )
    if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
        return StoreTimeoutError(
            f"a lock was not to be had in time while {doing}",
            cause=_text(error),
            remedy="another transaction holds the table; try again, or raise sql.timeout",
        )
    if isinstance(error, psycopg.Error) and error.sqlstate in _REFUSALS:
        return _REFUSALS[error.sqlstate](error.diag.message_primary or "")
    return DatabaseError(
        f"PostgreSQL failed while {doing}",
        cause=_text(error),
        remedy="see the cause; a lost connection is safe to try again",
        connection_lost=_is_lost(error),
        is_transient=isinstance(error, errors.DeadlockDetected | errors.SerializationFailure),
        is_duplicate=isinstance(error, errors.UniqueViolation),
    )


def _is_lost(error: Exception) -> bool:
    lost = errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow
    if isinstance(error, lost):
        return True
    # An error without a state did not come from the server: the connection broke.
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def _text(error: Exception) -> str:
    return str(error).strip() or type(error).__name__
