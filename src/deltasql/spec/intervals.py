"""Calendar intervals as table properties write them: `interval 30 days`, `2 weeks 12 hours`.

The grammar is Spark's. Months and years are not durations, since their length varies; negative ones
are not allowed either.
"""

from __future__ import annotations

import re
from typing import Final

DAY_MS: Final = 86_400_000
# Spark counts days in 32 bits.
LONGEST_MS: Final = (2**31 - 1) * DAY_MS

_DAY_US = DAY_MS * 1000
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _DAY_US,
    "week": 7 * _DAY_US,
    "month": 0,
    "year": 0,
}
_PART = re.compile(r"([+-]?)\s*(\d{1,18})(?:\.(\d{0,9}))?\s+([a-z]+?)s?(?=\s|$)\s*", re.ASCII)
_NO_LENGTH = ("month", "year")


def parse_interval(text: str) -> int | None:
    """The milliseconds of an interval; None if the text is not a valid duration."""
    words = text.strip().lower()
    words = words.removeprefix("interval ").strip() if words.startswith("interval ") else words
    total, position = 0, 0
    while position < len(words):
        part = _PART.match(words, position)
        microseconds = None if part is None else _part(*part.groups())
        if part is None or microseconds is None:
            return None
        total += microseconds
        position = part.end()
    milliseconds = total // 1000
    return milliseconds if words and 0 <= milliseconds <= LONGEST_MS else None


def _part(sign: str, whole: str, fraction: str | None, unit: str) -> int | None:
    """The microseconds of one number with its unit."""
    number = int(whole)
    if unit not in _MICROSECONDS or (unit in _NO_LENGTH and number):
        return None
    if fraction is not None and unit != "second":
        return None
    found = number * _MICROSECONDS[unit] + int((fraction or "").ljust(6, "0")[:6])
    return -found if sign == "-" else found
