"""One thing under several names: deltasql's own, delta-spark's and delta-rs'."""

from __future__ import annotations

from typing import TypeVar

from deltasql.errors import ValidationError

T = TypeVar("T")


def one_of(*given: T | None) -> T | None:
    """A value under whichever name it was given."""
    found = [value for value in given if value is not None]
    if len(found) > 1:
        raise ValidationError(
            "the same option was given under two names", remedy="give it once, under one of them"
        )
    return found[0] if found else None


def schema_mode_of(
    schema_mode: str | None, *, merge_schema: bool = False, overwrite_schema: bool = False
) -> str | None:
    """What happens to the schema, as one word: `merge`, `overwrite`, or None for nothing."""
    return one_of(
        schema_mode, "merge" if merge_schema else None, "overwrite" if overwrite_schema else None
    )
