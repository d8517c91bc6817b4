"""What to tell somebody who names a table that is not there."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from deltasql.errors import TableNotFoundError
from deltasql.store.interface import LogStore

# Comparing takes a millisecond for a hundred names.
_MOST: Final = 10_000
_LIST: Final = "see lake.tables()"


def missing(store: LogStore, name: str) -> TableNotFoundError:
    """The error for a name that no table has, with the name that was probably meant."""
    names = {record.name.lower(): record.name for record in store.tables()[:_MOST]}
    near = get_close_matches(name.lower()[:255], names, n=1)
    return TableNotFoundError.named(
        name,
        cause="it was never created, or it was dropped or renamed",
        remedy=f"did you mean {names[near[0]]}? {_LIST}" if near else _LIST,
    )
