"""Open transactions, by thread: statements of Spark SQL can't take part in them yet.

PySpark answers a question of the driver on the thread whose call led to it, so that a statement
inside a block is told from all others.
"""

from __future__ import annotations

import threading

from deltasql.errors import ValidationError


class _Open(threading.local):
    count = 0


_OPEN = _Open()


def enter() -> None:
    """A transaction begins on this thread."""
    _OPEN.count += 1


def leave() -> None:
    """It has ended."""
    _OPEN.count -= 1


def must_be_outside() -> None:
    """Raise `ValidationError` inside a transaction: the statement would commit by itself."""
    if _OPEN.count:
        raise ValidationError(
            "a statement of Spark SQL can't be part of a transaction",
            cause="inside `with db.transaction()` it would commit at once, whatever becomes of "
            "the transaction",
            remedy="use tx.write, tx.table(…).merge and their like, or run it outside of the block",
        )
