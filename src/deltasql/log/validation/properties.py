"""Whether the properties of a table may be set as a commit sets them.

Only what a commit sets is checked: a property that was there before, in a table that others wrote,
is no reason to refuse every later change to its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltasql.errors import ValidationError
from deltasql.log.state import TableState
from deltasql.spec.properties import (
    MIN_READER_VERSION,
    MIN_WRITER_VERSION,
    TIMESTAMPS_SINCE,
    TIMESTAMPS_SINCE_TIME,
    closest_key,
    fault_of,
    is_unknown,
)


def check_properties(after: TableState, before: TableState | None) -> None:
    """Raise `ValidationError` unless every new or changed property has a valid value."""
    known: Mapping[str, str] = {} if before is None else before.properties
    for key, value in after.properties.items():
        if known.get(key) != value:
            _check_one(key, value)
    _check_enablement(after, before)


def check_asked(properties: Mapping[str, str]) -> None:
    """Raise `ValidationError` unless the protocol's versions, which are not stored, exist."""
    for key in (MIN_READER_VERSION, MIN_WRITER_VERSION):
        if key in properties:
            _check_one(key, properties[key])


def _check_one(key: str, value: str) -> None:
    if is_unknown(key):
        meant = closest_key(key)
        raise ValidationError(
            f"the property {key:.120} is unknown",
            cause="names that start with delta. are Delta's own, and it has none like this",
            remedy=f"did you mean {meant}?" if meant else "choose a name without delta. for it",
            key=key,
        )
    fault = fault_of(key, value)
    if fault:
        raise ValidationError(
            fault,
            cause=f"found {value!r:.80}",
            remedy="correct the value, or leave the property out",
            key=key,
        )


def _check_enablement(after: TableState, before: TableState | None) -> None:
    """Only the commit that turns in-commit timestamps on may say since when they exist.

    That commit gets the two properties automatically; later metadata carries them along.
    """
    found, known = enablement(after.properties), enablement(before.properties if before else {})
    if not after.in_commit_timestamps or not found or found == known:
        return
    if before is None or before.in_commit_timestamps or len(found) == 1:
        raise ValidationError(
            f"{TIMESTAMPS_SINCE} and {TIMESTAMPS_SINCE_TIME} can't be changed",
            cause="readers find the time of older versions by them, both or neither",
            remedy="leave both out: the commit that turns in-commit timestamps on sets them",
        )


def enablement(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that say since when there are in-commit timestamps, if they are set."""
    keys = (TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_TIME)
    return {key: properties[key] for key in keys if key in properties}
