"""Whether a mirror has versions that SQL does not know: after the database was restored to an
earlier time, or after a failover to a standby that lacked the last commits.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.delta_log.listing import newest_after
from deltasql.delta_log.names import LOG
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore


@dataclass(frozen=True, slots=True)
class Ahead:
    """SQL's newest version, and the object of a later one."""

    head: int
    path: str


def ahead_of(log: LogStore, objects: ObjectStore, table_id: int) -> Ahead | None:
    """What readers start from that SQL does not know; None if there is nothing, or no table."""
    head = log.head(table_id)
    if head is None:
        return None
    found = newest_after(objects, head.version)
    if found is None:
        return None
    # Other writers go on meanwhile. What is listed was in SQL first.
    again = log.head(table_id)
    if again is None or again.version >= (found.version or 0):
        return None
    return Ahead(again.version, LOG + found.name)
