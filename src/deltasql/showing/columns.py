"""Lists of values as plain columns, for a Python prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Any, Final

_BETWEEN: Final = "  "
_LONGEST: Final = 40
# Less is not worth a column.
_SHORTEST: Final = 15


def in_columns(
    names: Sequence[str], rows: Sequence[Sequence[Any]], *, note: str = "", width: int | None = None
) -> str:
    """Rows under headings, as many columns as fit; ids, and what has no value, are left out."""
    room = width or get_terminal_size().columns
    lines = [""] * (len(rows) + 1)
    for place, name in enumerate(names):
        values = [row[place] for row in rows]
        column = [name.replace("_", " "), *map(_told, values)]
        is_long = name.endswith("_id") or any(isinstance(value, Mapping) for value in values)
        if is_long or not any(column[1:]):
            continue
        between = _BETWEEN if lines[0] else ""
        left = room - len(lines[0]) - len(between)
        widest = max(map(len, column))
        if widest > left < _SHORTEST:
            continue
        widest = min(widest, left)
        is_number = all(isinstance(value, int | float) for value in values)
        for number, text in enumerate(column):
            cut = text if len(text) <= widest else text[: widest - 1] + "…"
            lines[number] += between + (cut.rjust(widest) if is_number else cut.ljust(widest))
    return "\n".join(line.rstrip() for line in [*lines, note] if line.strip())


def _told(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None)
        return f"{moment.isoformat(' ', 'milliseconds')}Z"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    # What a terminal would obey is written out.
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
