"""What a psycopg error means to a caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from deltasql.errors import DatabaseError, DeltaSqlError, StoreTimeoutError
from deltasql.secrecy import raise_alone
from deltasql.store.embedded.committing import added_twice, doubled_path
from deltasql.store.postgres.connections.remedies import remedy_for

# What the SQL functions refuse, by the states that they raise.
_REFUSALS = {"DL001": doubled_path, "DL002": added_twice}
FAILURES = (psycopg.Error, PoolTimeout)


# The states, and classes of states, of a statement that the server has certainly undone. Anything
# else may have been committed: after a broken connection (08), a server or pooler that went away
# (57P0x), an unknown completion (40003), and everything unforeseen.
_REFUSING_CLASSES = frozenset(
    {"0A", "21", "22", "23", "25", "26", "28", "2D", "42", "44", "53", "54", "55", "DL", "P0"}
)
_REFUSING_STATES = frozenset({"40001", "40P01", "57014"})


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn psycopg's errors into ours; `doing` says what failed."""
    try:
        yield
    except FAILURES as error:
        raise_alone(translate(error, doing))


def translate(error: Exception, doing: str, *, at_commit: bool = False) -> DeltaSqlError:
    """Our error for one of psycopg's; `at_commit` says that it answers a COMMIT."""
    if isinstance(error, PoolTimeout):
        return StoreTimeoutError(
            f"no connection to PostgreSQL was free in time while {doing}",
            cause=str(error),
            remedy="raise sql.pool_size or sql.timeout, or run fewer writers in this process; "
            "if the server is down, start it",
            is_refusal=True,
        )
    if isinstance(error, PoolClosed):
        # Nothing was sent, so no connection was lost.
        return DatabaseError(
            f"the log was closed before {doing}",
            cause="close() was called on this store",
            remedy="connect again",
            is_refusal=True,
        )
    is_refusal = not at_commit and _is_refusal(error)
    if isinstance(error, errors.LockNotAvailable):
        return StoreTimeoutError(
            f"a lock was not granted in time while {doing}",
            cause=_text(error),
            remedy="another transaction holds the table; try again, or raise sql.timeout",
            is_refusal=is_refusal,
        )
    if isinstance(error, errors.QueryCanceled):
        return StoreTimeoutError(
            f"PostgreSQL cancelled a statement while {doing}",
            cause=_text(error),
            remedy="it ran, or waited for a lock, longer than sql.timeout allows, or somebody "
            "cancelled it; try again, or raise sql.timeout",
            is_refusal=is_refusal,
        )
    if is_refusal and isinstance(error, psycopg.Error) and error.sqlstate in _REFUSALS:
        return _REFUSALS[error.sqlstate](error.diag.message_primary or "")
    is_rollback = isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)
    return DatabaseError(
        f"PostgreSQL failed while {doing}",
        cause=_text(error),
        remedy=remedy_for(error),
        is_refusal=is_refusal,
        is_transient=is_rollback or _is_lost(error),
    )


def not_committed(doing: str) -> DatabaseError:
    """The error for a COMMIT that the server answered with a rollback."""
    return DatabaseError(
        f"PostgreSQL failed while {doing}",
        cause="an earlier statement of the transaction failed, so it was rolled back",
        remedy="nothing was committed; see the failure before this one",
        is_refusal=True,
    )


def _is_refusal(error: Exception) -> bool:
    """Whether the server itself, still running normally, has undone the statement."""
    if not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return False
    severity = error.diag.severity_nonlocalized or error.diag.severity
    if severity != "ERROR":
        return False
    return error.sqlstate in _REFUSING_STATES or error.sqlstate[:2] in _REFUSING_CLASSES


def _is_lost(error: Exception) -> bool:
    """Whether the connection is gone: then another one may work."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        # It did not come from the server: the connection broke.
        return isinstance(error, psycopg.OperationalError)
    severity = error.diag.severity_nonlocalized or error.diag.severity
    return severity in ("FATAL", "PANIC") or error.sqlstate.startswith(("08", "57P"))


def _text(error: Exception) -> str:
    return str(error).strip() or type(error).__name__
