"""URLs and messages without their secrets."""

from __future__ import annotations

import re
from urllib.parse import unquote

_AUTHORITY = re.compile(r"(?<=://)([^/?#@:]*):(.*)@")
_SECRET_OPTION = re.compile(r"((?:ssl)?password|passfile)=[^&#\s]*", re.IGNORECASE)
_SHORTEST_SECRET = 3


def mask(url: str) -> str:
    """The URL without its passwords, for messages."""
    return _SECRET_OPTION.sub(r"\1=***", _AUTHORITY.sub(r"\1:***@", url))


def scrubbed(text: str, url: str) -> str:
    """A message without any word of the URL that may be secret."""
    rest = url.partition("://")[2]
    authority, at, _ = rest.rpartition("@")
    options = re.split(r"[?#]", rest, maxsplit=1)[1:]
    hidden = [authority.partition(":")[2] if at else "", *options]
    words = {
        word
        for piece in hidden
        for form in (piece, unquote(piece, errors="replace"))
        for word in re.split(r"\W+", form)
        if len(word) >= _SHORTEST_SECRET
    }
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, "***")
    return text
