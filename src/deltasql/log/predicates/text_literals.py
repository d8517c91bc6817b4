"""Strings in SQL as Spark reads and writes them: a backslash begins an escape."""

from __future__ import annotations

import re

from deltasql.errors import ValidationError

# A literal from quote to quote, for token patterns; a raw one has no escapes.
LITERAL = r"'(?:[^'\\]|\\[\s\S]|'')*'"
RAW = r"[rR]'[^']*'"
_ESCAPE = re.compile(r"''|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|([\s\S]))")
# Every other character stands for itself; before % and _ the backslash is kept, for LIKE.
_SPECIAL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"} | {
    "%": "\\%",
    "_": "\\_",
}


def value_of(literal: str) -> str:
    """The text of a literal that still has its quotes."""
    if literal[0] in "rR":
        return literal[2:-1]
    try:
        found = _ESCAPE.sub(_unescaped, literal[1:-1])
        # Two escapes may be the two halves of one character.
        found = found.encode("utf-16", "surrogatepass").decode("utf-16")
    except (UnicodeError, ValueError, OverflowError):
        raise _refused(literal, "an escape in it is not a character") from None
    if "\0" in found:
        raise _refused(literal, "it has a NUL character")
    return found


def literal_of(value: str) -> str:
    """The literal for a text."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if digits:
        return chr(int(digits, 16))
    if match[3]:
        return chr(int(match[3], 8))
    return _SPECIAL.get(match[4], match[4]) if match[4] else "'"


def _refused(literal: str, cause: str) -> ValidationError:
    return ValidationError(
        f"the text {literal!r:.80} can't be read",
        cause=cause,
        remedy=r"write a backslash as \\, and other characters as they are",
    )
