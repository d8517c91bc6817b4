"""Points in time, as callers give them and as the log stores them: epoch milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from deltasql.errors import ValidationError

Timestamp: TypeAlias = datetime | str | int

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(moment: Timestamp) -> int:
    """Epoch milliseconds of a datetime, an ISO-8601 text or epoch milliseconds.

    Text and datetimes without a zone are read as UTC.
    """
    if isinstance(moment, bool):
        raise _malformed(moment)
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise _malformed(moment) from None
    if not isinstance(moment, datetime):
        raise _malformed(moment)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# Python's calendar goes no further: the years 1 and 9999.
EARLIEST_MS = -62_135_596_800_000
LATEST_MS = 253_402_300_799_999


def from_ms(milliseconds: int) -> datetime:
    """The moment in UTC; the end of the calendar for one beyond it, as logs of others may have."""
    within = max(EARLIEST_MS, min(milliseconds, LATEST_MS))
    return _EPOCH + timedelta(milliseconds=within)


def written(milliseconds: int) -> str:
    """The moment as people read it: 2026-11-01 12:00:00.000Z."""
    return f"{from_ms(milliseconds).replace(tzinfo=None).isoformat(' ', 'milliseconds')}Z"


def _malformed(moment: object) -> ValidationError:
    return ValidationError(
        f"{moment!r:.80} is not a point in time",
        remedy="give a datetime, ISO-8601 text such as '2026-11-01T12:00:00Z', "
        "or epoch milliseconds",
    )
