"""How long things are kept and how they are mirrored, from the table's properties.

Commits are checked, so a property with an invalid value came from another writer. It is ignored,
because a mirror that stops helps nobody; `faults` lists such properties.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltasql.spec.intervals import DAY_MS, parse_interval
from deltasql.spec.properties import (
    ASYNC,
    CHECKPOINT_INTERVAL,
    DELETED_FILE_RETENTION,
    LOG_RETENTION,
    MIRROR_CHECKPOINT_INTERVAL,
    MIRROR_MODE,
    OFF,
    POSITIVE,
    SYNC,
    TRUNCATED_LOG_RETENTION,
    TXN_RETENTION,
    fault_of,
)

__all__ = [
    "ASYNC",
    "DAY_MS",
    "MIRROR_MODE",
    "OFF",
    "SYNC",
    "checkpoint_interval",
    "faults",
    "log_ms",
    "mirror_mode",
    "tombstone_ms",
    "truncated_log_ms",
    "txn_ms",
]


def tombstone_ms(properties: Mapping[str, str]) -> int:
    """How long the tombstone of a removed file is kept: a week by default."""
    found = parse_interval(properties.get(DELETED_FILE_RETENTION, ""))
    return 7 * DAY_MS if found is None else found


def log_ms(properties: Mapping[str, str]) -> int:
    """How long commits are kept in the mirror: thirty days by default."""
    found = parse_interval(properties.get(LOG_RETENTION, ""))
    return 30 * DAY_MS if found is None else found


def truncated_log_ms(properties: Mapping[str, str]) -> int:
    """How long commits are kept, at least, when a feature is dropped: a day by default."""
    found = parse_interval(properties.get(TRUNCATED_LOG_RETENTION, ""))
    return DAY_MS if found is None else found


def txn_ms(properties: Mapping[str, str]) -> int | None:
    """How long an application's txn is kept; None means for ever, the default."""
    return parse_interval(properties.get(TXN_RETENTION, ""))


def checkpoint_interval(properties: Mapping[str, str]) -> int | None:
    """Every how many versions a checkpoint is due; Delta's property wins over ours.

    None if the table does not say: see `checkpoint_rule`.
    """
    for key in (CHECKPOINT_INTERVAL, MIRROR_CHECKPOINT_INTERVAL):
        found = POSITIVE.parse(properties.get(key, ""))
        if found is not None:
            return int(found)
    return None


def mirror_mode(properties: Mapping[str, str]) -> str | None:
    """How the table asks to be mirrored; None leaves it to the lake."""
    mode = properties.get(MIRROR_MODE)
    return mode if mode in (SYNC, ASYNC, OFF) else None


def faults(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with invalid values, by key, and what they should be."""
    return {key: fault for key, text in properties.items() if (fault := fault_of(key, text))}
