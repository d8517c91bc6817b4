"""What was committed, when and by whom, across all tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING

from deltasql.errors import ConfigError, ValidationError
from deltasql.lake.history import HistoryEntry
from deltasql.log.timestamps import Timestamp, to_ms
from deltasql.settings.keys import parse_duration
from deltasql.showing.html import Listing
from deltasql.store.browsing.audit_place import BEFORE_ALL, AuditPlace
from deltasql.store.browsing.sums import VersionSums
from deltasql.store.interface import VersionRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE = 5_000
_END = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A version of some table, for the audit; `changed` is set only on request.

    Names change: `table_id` says which table it is.
    """

    table: str
    entry: HistoryEntry
    changed: VersionSums | None = None
    table_id: int = field(default=0, repr=False)


def audit(
    lake: Lake,
    *,
    start: Timestamp | None,
    end: Timestamp | None,
    since: timedelta | str | None,
    table: str | None,
    changes: bool,
    limit: int | None,
    after: AuditEntry | None,
) -> list[AuditEntry]:
    """See `Lake.audit`."""
    if limit is not None and limit < 1:
        raise ValidationError(
            f"the limit of an audit can't be {limit}",
            remedy="leave it out, or give a number from 1",
        )
    if since is not None:
        if start is not None:
            raise ValidationError("start and since were both given", remedy="give one of the two")
        # By the database's clock, which also stamps the versions.
        begin = lake.store.clock_ms() - _milliseconds(since)
    else:
        begin = to_ms(_BEGINNING if start is None else start)
    stop = to_ms(_END if end is None else end)
    place = BEFORE_ALL if after is None else _place(after)
    named = (
        (name, record)
        for name, record in _records(lake, begin, stop, place, limit)
        if table is None or fnmatchcase(name, table)
    )
    found = list(islice(named, limit))
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
            record.table_id,
        )
        for name, record in found
    )


def _place(entry: AuditEntry) -> AuditPlace:
    return AuditPlace(to_ms(entry.entry.timestamp), entry.table_id, entry.entry.version)


def _records(
    lake: Lake, begin: int, stop: int, place: AuditPlace, limit: int | None
) -> Iterator[tuple[str, VersionRecord]]:
    """What was committed, read page by page."""
    most = _PAGE if limit is None else min(limit, _PAGE)
    while True:
        page = lake.store.audit(begin, stop, after=place, most=most)
        yield from page
        if len(page) < most:
            return
        last = page[-1][1]
        place = AuditPlace(last.in_commit_timestamp, last.table_id, last.version)


def _milliseconds(since: timedelta | str) -> int:
    if isinstance(since, timedelta):
        return round(since.total_seconds() * 1000)
    try:
        return round(parse_duration("since", since) * 1000)
    except ConfigError:
        raise ValidationError(
            f"{since!r:.80} is not a duration",
            remedy="write one such as 90m, 12h or 1d, or pass a time as start",
        ) from None
