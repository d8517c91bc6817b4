"""The version up to which removed files may go: SQL's, and no newer than what the mirror's readers
have got to see.

The mirror may be late, and is still to be read: its newest version needs files that SQL has removed
since. The same rule keeps a copy of the database, which does not mirror, from deleting what the
original has live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltasql.store.interface import LogStore

NOTHING: Final = -1
_EVER: Final = 2**62


@dataclass(frozen=True, slots=True)
class Horizon:
    """What `version` and earlier ones removed may go; `late` says why that is not more."""

    version: int
    late: str | None = None


def horizon_at(store: LogStore, table_id: int, since: int, *, is_now: bool) -> Horizon:
    """The version that was current just before a time, in SQL and for readers of the mirror."""
    version = _current_at(store, table_id, since, is_now=is_now)
    if version == NOTHING:
        return Horizon(NOTHING)
    found = store.mirror_reached(table_id, upto=version, by=_EVER if is_now else since)
    if found is None or found.then == version:
        return Horizon(version)
    if found.newest < version:
        return Horizon(
            found.then,
            "removed files stay that the mirror's readers need, for they see version "
            f"{found.newest}; mirror.repair() brings the mirror up to date",
        )
    return Horizon(
        found.then,
        "removed files stay that the mirror's readers needed within the retention, for the mirror "
        "was late",
    )


def _current_at(store: LogStore, table_id: int, since: int, *, is_now: bool) -> int:
    if is_now:
        # The times of commits within one millisecond run ahead of the clock.
        head = store.head(table_id)
        return NOTHING if head is None else head.version
    found = store.version_at(table_id, since - 1)
    return NOTHING if found is None else found
