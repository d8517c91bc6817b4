"""Values as text that is safe to show: names and rows may hold anything, terminals obey much."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

# Other, control; surrogate; format (direction overrides hide text); line and paragraph ends.
_UNSAFE: Final = frozenset({"Cc", "Cs", "Cf", "Zl", "Zp"})
# Joiners are in emoji and in Persian, and do no harm.
_JOINERS: Final = frozenset("\u200c\u200d")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SUSPECT: Final = re.compile(r"[^ -~]")


def printable(text: str, *, keep: str = "") -> str:
    """The text with whatever a terminal would obey, or not show, written out as `\\x1b`."""
    return _SUSPECT.sub(lambda match: _escaped(match[0], keep), text)


def _escaped(character: str, keep: str) -> str:
    if character in keep or character in _JOINERS:
        return character
    if unicodedata.category(character) not in _UNSAFE:
        return character
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def cell(value: Any) -> str:
    """A value as text on one line."""
    match value:
        case None:
            return ""
        case str():
            return printable(value)
        case bool():
            return "yes" if value else "no"
        case datetime():
            return _moment(value, sep=" ")
        case _:
            plain = jsonable(value)
            return printable(plain if isinstance(plain, str) else dumps(plain))


def in_units(size: int) -> str:
    """A number of bytes for people: 1.2 MB."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB" if amount < 1000 else f"{amount:,.0f} TB"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def dumps(value: Any, *, indent: int | None = None) -> str:
    """JSON that is safe to show: what is escaped stays valid inside its string."""
    text = json.dumps(jsonable(value), ensure_ascii=False, indent=indent, allow_nan=False)
    return _SUSPECT.sub(lambda match: _json_escaped(match[0]), text)


def _json_escaped(character: str) -> str:
    # Line ends stand between tokens only: inside a string json has escaped them.
    if character == "\n" or unicodedata.category(character) not in _UNSAFE:
        return character
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def jsonable(value: Any) -> Any:
    """A value as JSON can say it: exact numbers and bytes that it can't become text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return {str(key): jsonable(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [jsonable(item) for item in value]
        case _:
            return _scalar(value)


def _scalar(value: Any) -> str | float:
    match value:
        case datetime():
            return _moment(value, sep="T")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _moment(value: datetime, *, sep: str) -> str:
    if value.tzinfo is None:
        return value.isoformat(sep=sep)
    text = value.astimezone(UTC).isoformat(sep=sep, timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"
