"""Live files of a history, made by other processes in chunks that a store writes as they are.

Each store names the function here that makes its chunks (`HistoryLog.add_chunk`). They know no
driver: whoever makes chunks needs none.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from deltasql.store.chunks.copy_lines import add_lines
from deltasql.store.rows import Row


def as_copy_lines(table_id: int, adds: Sequence[Row]) -> bytes:
    """A chunk in the form of COPY."""
    return "".join(add_lines(table_id, adds)).encode()


def as_rows(_: int, adds: Sequence[Row]) -> bytes:
    """A chunk for a database in our own process, which binds plain rows."""
    return pickle.dumps(adds, protocol=pickle.HIGHEST_PROTOCOL)


def rows_of(chunks: Sequence[bytes]) -> list[Row]:
    """The rows in chunks that `as_rows` made."""
    return [row for chunk in chunks for row in pickle.loads(chunk)]  # noqa: S301 - our own
