"""Where a version is in the audit of all tables: what its pages are told apart by."""

from __future__ import annotations

from typing import Final, NamedTuple


class AuditPlace(NamedTuple):
    """A version by its time, then by its table: the order of the audit."""

    in_commit_timestamp: int
    table_id: int
    version: int


BEFORE_ALL: Final = AuditPlace(-1, 0, 0)
