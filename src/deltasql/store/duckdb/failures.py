"""What a DuckDB error means to a caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from deltasql.errors import DatabaseError

# Failures after which DuckDB has certainly not executed the statement. After any other, and after a
# failed COMMIT, the outcome is unknown.
_REFUSING = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConstraintException,
    duckdb.ConversionException,
    duckdb.DataError,
    duckdb.InvalidInputException,
    duckdb.NotImplementedException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.PermissionException,
    duckdb.SyntaxException,
    duckdb.TransactionException,
    duckdb.TypeMismatchException,
)
_VIOLATION = "constraint violation"
_HOLDER = re.compile(r"Conflicting lock is held in (.*?) ?\(PID (\d+)\)")


@contextmanager
def translated(doing: str, path: str) -> Iterator[None]:
    """Turn DuckDB's errors into ours; `doing` says what failed."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise translate(error, doing, path) from None


def translate(error: Exception, doing: str, path: str, *, at_commit: bool = False) -> DatabaseError:
    """Our error for one of DuckDB's; `at_commit` says that it answers a COMMIT."""
    text = str(error)
    if "Could not set lock on file" in text:
        return _held_elsewhere(text, path)
    # Some indexes are checked only by COMMIT; it has undone everything, and would do so again.
    is_violation = isinstance(error, duckdb.TransactionException) and _VIOLATION in text
    return DatabaseError(
        f"DuckDB failed while {doing} in {path}",
        cause=text,
        remedy="see the cause; a commit that failed has written nothing",
        is_refusal=is_violation or (not at_commit and isinstance(error, _REFUSING)),
        is_transient=isinstance(error, duckdb.TransactionException) and not is_violation,
    )


def _held_elsewhere(text: str, path: str) -> DatabaseError:
    found = _HOLDER.search(text)
    program, pid = (found[1], int(found[2])) if found else ("another process", None)
    holder = program if pid is None else f"{program} (PID {pid})"
    return DatabaseError(
        f"{path} is open in another process",
        cause=f"{holder} holds it, and only one process at a time can use a DuckDB file",
        remedy="end that process, or work through it; for several processes, use SQLite or "
        "PostgreSQL",
        holder_pid=pid,
        is_refusal=True,
    )


def full(doing: str, path: str, free: int) -> DatabaseError:
    """The error for a commit that might not fit on the disk."""
    return DatabaseError(
        f"the disk is almost full: DuckDB was stopped while {doing} in {path}",
        cause=f"{free >> 20} MiB are free",
        remedy="free space on the disk; nothing was written, and trying again is safe",
        is_refusal=True,
    )


def forked(path: str) -> DatabaseError:
    """The error for a store that a forked child inherited."""
    return DatabaseError(
        f"{path} can't be used in a forked process",
        cause="only one process at a time can use a DuckDB file, and that is the parent",
        remedy="commit in the parent, or put the log into SQLite or PostgreSQL",
        is_refusal=True,
    )
