"""URLs and messages without their secrets: only what is known to be harmless is shown."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

_AUTHORITY = re.compile(r"(?<=://)([^/?#@:]*):(.*)@")
# One that is misspelt, such as postgresql:/user:password@host, may have it anywhere before the @.
_MISSPELT = re.compile(r"^(?!.*://).*@", re.DOTALL)
# In abfss://container@account the part before the @ is not a user.
_USER_INFO = re.compile(r"(?<=://)(?:(?<!abfs://)(?<!abfss://)[^/]*|[^/]*:[^/]*)@", re.IGNORECASE)
_HIDDEN: Final = "***"
_SHORTEST_SECRET = 3
# libpq's parameters that contain no secret. `options` may contain anything, and the location of a
# passfile helps an attacker.
_HARMLESS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        application_name channel_binding client_encoding connect_timeout dbname
        fallback_application_name gssdelegation gssencmode gsslib host hostaddr keepalives
        keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts
        max_protocol_version min_protocol_version port replication require_auth requirepeer
        requiressl service ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode
        sslcompression sslcrl sslcrldir sslkey sslmode sslnegotiation sslrootcert sslsni
        target_session_attrs tcp_user_timeout user
        """,
    )
)


def mask(url: str) -> str:
    """A database's URL without its secrets, for messages."""
    shorter = _MISSPELT.sub(f"{_HIDDEN}@", _AUTHORITY.sub(rf"\1:{_HIDDEN}@", url))
    head, mark, tail = shorter.partition("?")
    query, number_sign, _ = tail.partition("#")
    shown = "&".join(_masked(item) for item in query.split("&")) if query else ""
    return head + mark + shown + (number_sign and f"#{_HIDDEN}")


def without_secrets(url: str) -> str:
    """A database's URL that may be stored: what may be secret is left out."""
    head, _, tail = _MISSPELT.sub("", _AUTHORITY.sub(r"\1@", url)).partition("?")
    query = tail.partition("#")[0]
    kept = [item for item in query.split("&") if item and _is_harmless(item)]
    return head + ("?" + "&".join(kept) if kept else "")


def mask_address(address: str) -> str:
    """The address of an object or a service without user, password, token or query."""
    if "://" not in address:
        return address
    bare, mark, _ = _USER_INFO.sub(f"{_HIDDEN}@", address).partition("?")
    return bare.partition("#")[0] + (mark and f"?{_HIDDEN}")


def _masked(item: str) -> str:
    return item if _is_harmless(item) else f"{item.partition('=')[0]}={_HIDDEN}"


def _is_harmless(item: str) -> bool:
    name = unquote(item.partition("=")[0], errors="replace")
    return name.strip().lower() in _HARMLESS


def scrubbed(text: str, url: str) -> str:
    """A message without any part of the URL that may be secret."""
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
        text = text.replace(word, _HIDDEN)
    return text
