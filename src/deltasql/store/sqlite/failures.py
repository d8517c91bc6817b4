"""What a sqlite3 error means to a caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from deltasql.errors import DatabaseError, DeltaSqlError, StoreTimeoutError

# By the name of the primary error code.
_REMEDIES = {
    "SQLITE_NOTADB": "name another file, or move this one away",
    "SQLITE_CORRUPT": "restore the file from a backup",
    "SQLITE_READONLY": "make the file and its directory writable for this user",
    "SQLITE_PERM": "make the file and its directory writable for this user",
    "SQLITE_CANTOPEN": "create the directory, and make it writable for this user",
    "SQLITE_FULL": "free space on the disk; nothing was written, and trying again is safe",
    "SQLITE_IOERR": "look at the disk; a network file system does not do for SQLite",
}

# Failures of a statement after which SQLite has certainly written nothing. After any other, and
# after a failed COMMIT, the outcome is unknown: what reached the disk may count after the next
# start.
_REFUSING = (
    "SQLITE_AUTH", "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_CONSTRAINT", "SQLITE_ERROR",
    "SQLITE_FULL", "SQLITE_LOCKED", "SQLITE_MISMATCH", "SQLITE_NOTADB", "SQLITE_PERM",
    "SQLITE_RANGE", "SQLITE_READONLY", "SQLITE_TOOBIG",
)  # fmt: skip


@contextmanager
def translated(doing: str, path: str) -> Iterator[None]:
    """Turn sqlite3's errors into ours; `doing` says what failed."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise translate(error, doing, path) from None


def translate(error: Exception, doing: str, path: str, *, at_commit: bool = False) -> DeltaSqlError:
    """Our error for one of sqlite3's; `at_commit` says that it answers a COMMIT."""
    code = getattr(error, "sqlite_errorname", "")
    # What sqlite3 itself refuses, such as a number of more than 64 bits, never reached SQLite.
    misuse = sqlite3.InterfaceError | sqlite3.ProgrammingError | OverflowError
    misused = isinstance(error, misuse) and not code
    is_refusal = not at_commit and (misused or code.startswith(_REFUSING))
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreTimeoutError(
            f"{path} was locked for too long while {doing}",
            cause="another program holds a transaction open in it",
            remedy="end that program's transaction, or raise sql.timeout",
            is_refusal=is_refusal,
        )
    remedy = "see the cause; a commit that failed has written nothing"
    for name, advice in _REMEDIES.items():
        if code.startswith(name):
            remedy = advice
    return DatabaseError(
        f"SQLite failed while {doing} in {path}",
        cause=str(error),
        remedy=remedy,
        is_refusal=is_refusal,
    )


def forked_in_use(path: str) -> DatabaseError:
    """The error for a child that was forked while its parent was using the file."""
    return DatabaseError(
        f"{path} can't be used in this forked process",
        cause="the fork came while the parent was reading or writing it, and SQLite's locks "
        "do not survive that",
        remedy="fork when nothing is under way, or start processes with spawn",
        is_refusal=True,
    )
