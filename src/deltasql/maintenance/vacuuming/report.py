"""What a vacuum is asked for, what it may delete, and what it reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from deltasql.errors import ValidationError
from deltasql.showing.report import Report
from deltasql.spec.intervals import parse_interval
from deltasql.store.upkeep.interface import JournalRow, Kind

# How many names are reported; the rest are only counted.
_MOST_TOLD: Final = 1000
# How far apart the clocks of the object store and of the database may be.
CLOCK_MARGIN: Final = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be deleted, by the key of its object.

    `lives` are the versions that have it, from the first up to but excluding the second; it is
    empty if the file is not known to be live at any. `modified` is the store's time of an orphan.
    """

    key: str
    row: JournalRow
    lives: tuple[tuple[int, int], ...] = ()
    modified: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VacuumReport(Report):
    """What a vacuum deleted or, in a dry run, would delete.

    `dead` data files, `vectors` (files of deletion vectors) and `changes` (files of the change
    data feed) come from the log, `orphans` from one listing: files that no version ever knew.
    `files` names the first thousand, and `bytes` is the total size, as far as it is known. What was
    current at `kept_since` or later stays. `foreign` counts files at the location that are neither
    the log's nor named as a Delta writer names its files: they are left alone. `kept_because` says
    why orphans, or removed files that are old enough, stay.
    """

    table: str
    dry_run: bool
    retention: timedelta
    kept_since: datetime
    dead: int = 0
    vectors: int = 0
    changes: int = 0
    orphans: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    foreign: int = 0
    vacuum_id: str | None = None
    kept_because: str | None = None

    @property
    def count(self) -> int:
        """How many files in total."""
        return self.dead + self.vectors + self.changes + self.orphans


@dataclass(slots=True)
class Tally:
    """Counts files as they are found or deleted."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    bytes: int = 0
    files: list[str] = field(default_factory=list)
    foreign: int = 0

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Count these candidates."""
        for candidate in candidates:
            self.kinds[candidate.row.kind] += 1
            self.bytes += candidate.row.size or 0
            if len(self.files) < _MOST_TOLD:
                self.files.append(candidate.key)

    @property
    def count(self) -> int:
        """How many files in total."""
        return self.kinds.total()


_SHORT: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_UNITS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def retention_ms(retention: timedelta | str | float) -> int:
    """A retention in milliseconds: a duration, a text such as `7 days` or `7d`, or hours as in
    Delta.
    """
    found: float | None
    if isinstance(retention, timedelta):
        found = retention.total_seconds() * 1000
    elif isinstance(retention, str):
        found = parse_interval(retention)
        if found is None and (short := _SHORT.fullmatch(retention.strip())):
            # As in settings and `audit --since`.
            found = float(short[1]) * _UNITS[short[2]]
    else:
        found = retention * 3_600_000
    if found is None or not 0 <= found < 2**53:
        raise ValidationError(
            f"the retention {retention!r:.80} is not a duration",
            remedy='give a timedelta, a text such as "7 days" or "12h", or a number of hours',
        )
    return round(found)


def spoken_ms(milliseconds: float) -> str:
    """A duration as people say it: `7 days`, `90 minutes`, `0 seconds`."""
    seconds = round(milliseconds / 1000)
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}{'s' * (seconds != size)}"
    return f"{seconds} second{'s' * (seconds != 1)}"
