"""How long things are kept and how they are mirrored, from the properties that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from deltasql.errors import ValidationError

DAY_MS: Final = 86_400_000
TOMBSTONES: Final = "delta.deletedFileRetentionDuration"
LOG: Final = "delta.logRetentionDuration"
TXNS: Final = "delta.setTransactionRetentionDuration"
CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"
OWN_CHECKPOINT_INTERVAL: Final = "mirror.checkpoint_interval"
MIRROR_MODE: Final = "mirror.mode"
SYNC, ASYNC, OFF = "sync", "async", "off"

_UNITS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": DAY_MS,
    "week": 7 * DAY_MS,
}
_PART = re.compile(r"(\d+)\s+([a-z]+?)s?(?=\s|$)")


def tombstone_ms(properties: Mapping[str, str]) -> int:
    """How long the tombstone of a removed file is kept: a week by default."""
    return _duration_ms(properties, TOMBSTONES, 7 * DAY_MS)


def log_ms(properties: Mapping[str, str]) -> int:
    """How long commits are kept in the mirror: thirty days by default."""
    return _duration_ms(properties, LOG, 30 * DAY_MS)


def txn_ms(properties: Mapping[str, str]) -> int | None:
    """How long an application's txn is kept; None for ever, which is the default."""
    return _duration_ms(properties, TXNS, 0) if TXNS in properties else None


def checkpoint_interval(properties: Mapping[str, str], default: int) -> int:
    """Every how many versions a checkpoint is due; Delta's property wins over our own."""
    for key in (CHECKPOINT_INTERVAL, OWN_CHECKPOINT_INTERVAL):
        text = properties.get(key, "").strip()
        if text:
            if not text.isdecimal() or int(text) < 1:
                raise ValidationError(
                    f"{key} must be a positive integer", cause=f"found {text!r:.80}"
                )
            return int(text)
    return default


def mirror_mode(properties: Mapping[str, str]) -> str | None:
    """How the table itself wants to be mirrored; None leaves it to the lake."""
    mode = properties.get(MIRROR_MODE)
    if mode not in (None, SYNC, ASYNC, OFF):
        raise ValidationError(
            f"{MIRROR_MODE} must be {SYNC}, {ASYNC} or {OFF}", cause=f"found {mode!r:.80}"
        )
    return mode


def _duration_ms(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    rest = text.strip().lower().removeprefix("interval").strip()
    total, position = 0, 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or match[2] not in _UNITS:
            raise ValidationError(
                f"{key} is not a duration",
                cause=f"found {text!r:.80}",
                remedy="write it as 'interval 30 days' or '12 hours'",
            )
        total += int(match[1]) * _UNITS[match[2]]
        position = match.end()
        while position < len(rest) and rest[position].isspace():
            position += 1
    return total
