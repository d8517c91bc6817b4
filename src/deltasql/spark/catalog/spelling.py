"""Names as a session compares them: in a lake case counts, to most sessions it does not."""

from __future__ import annotations

from collections.abc import Iterable


def meant(name: str, known: Iterable[str], *, any_case: bool) -> str | None:
    """The one of the known names that a session means; None if there is none, or more than one.

    The exact name counts before one that is spelt otherwise.
    """
    names = set(known)
    if name in names:
        return name
    alike = [item for item in names if item.lower() == name.lower()] if any_case else []
    return alike[0] if len(alike) == 1 else None
