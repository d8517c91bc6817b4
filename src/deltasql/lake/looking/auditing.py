"""What was committed, when and by whom, across all tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deltasql.errors import ValidationError
from deltasql.lake.history import HistoryEntry
from deltasql.lake.looking.html import Listing
from deltasql.log.timestamps import Timestamp, to_ms
from deltasql.settings.keys import parse_duration
from deltasql.store.browsing.sums import VersionSums

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A version of some table, for the audit; `changed` is set only on request."""

    table: str
    entry: HistoryEntry
    changed: VersionSums | None = None


def audit(
    lake: Lake,
    *,
    start: Timestamp | None,
    end: Timestamp | None,
    since: timedelta | str | None,
    table: str | None,
    changes: bool,
) -> list[AuditEntry]:
    """See `Lake.audit`."""
    if since is not None:
        if start is not None:
            raise ValidationError("start and since were both given", remedy="give one of the two")
        # By the database's clock, which also stamps the versions.
        begin = lake.store.clock_ms() - _milliseconds(since)
    else:
        begin = to_ms(_BEGINNING if start is None else start)
    found = [
        (name, record)
        for name, record in lake.store.audit(begin, to_ms(_END if end is None else end))
        if table is None or fnmatchcase(name, table)
    ]
    sums: dict[tuple[int, int], VersionSums] = {}
    if changes:
        spans: dict[int, list[int]] = {}
        for _, record in found:
            spans.setdefault(record.table_id, []).append(record.version)
        for table_id, versions in spans.items():
            known = lake.store.version_sums(table_id, first=min(versions), last=max(versions))
            sums |= {(table_id, version): item for version, item in known.items()}
    return Listing(
        AuditEntry(
            name,
            HistoryEntry.of(record),
            sums.get((record.table_id, record.version), VersionSums()) if changes else None,
        )
        for name, record in found
    )


def _milliseconds(since: timedelta | str) -> int:
    if isinstance(since, timedelta):
        return round(since.total_seconds() * 1000)
    return round(parse_duration("since", since) * 1000)
