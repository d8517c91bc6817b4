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
# A user and the begin of a password; not a host and its port.
_PASSWORD = re.compile(r"[^/@:\[]*:(?!\d{1,5}(?:/|$))")
# What comes before a query without an @: hosts with their ports, perhaps, and a path.
_NO_PASSWORD = re.compile(r"[^:/@]*://(?:[^:/@]*(?::\d*)?(?:,[^:/@]*(?::\d*)?)*)(?:/[^@]*)?")
_NAME = re.compile(r"[\w%]+")
# Drivers quote names, hosts and numbers; whatever else they quote may be from anywhere in a URL.
_PLAIN = re.compile(r"[\w .,:/\[\]-]*")
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
    scheme, separator, _ = url.partition("://")
    if _is_ambiguous(url):
        return f"{scheme}://{_HIDDEN}" if separator and scheme.isalnum() else _HIDDEN
    head, query, has_fragment = _split(url)
    shorter = _MISSPELT.sub(f"{_HIDDEN}@", _AUTHORITY.sub(rf"\1:{_HIDDEN}@", head))
    shown = "?" + "&".join(_masked(item) for item in query.split("&")) if query else ""
    return shorter + shown + (f"#{_HIDDEN}" if has_fragment else "")


def without_secrets(url: str) -> str:
    """A database's URL that may be stored: what may be secret is left out.

    It is empty where nobody can tell what is secret.
    """
    if _is_ambiguous(url):
        return ""
    head, query, _ = _split(url)
    kept = [item for item in query.split("&") if item and _is_harmless(item)]
    return _MISSPELT.sub("", _AUTHORITY.sub(r"\1@", head)) + ("?" + "&".join(kept) if kept else "")


def _split(url: str) -> tuple[str, str, bool]:
    """What is before the query, the query, and whether there is a fragment."""
    rest, number_sign, _ = url.partition("#")
    head, _, query = rest.partition("?")
    return head, query, bool(number_sign)


def _is_ambiguous(url: str) -> bool:
    """Whether it is unclear where a secret begins or ends.

    An @ after the first ? or # may be of a password with such a sign, or of one in the query. And
    libpq knows a form that is no URL: host=… password=….
    """
    head, query, _ = _split(url)
    if "://" not in url and "=" in head.partition("@")[0]:
        return True
    if "@" not in url[len(head) :]:
        return False
    is_query = all("=" in item and _is_name(item) for item in query.split("&"))
    return not (is_query and "#" not in url and _NO_PASSWORD.fullmatch(head))


def mask_address(address: str) -> str:
    """The address of an object or a service without user, password, token or query."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    if _PASSWORD.match(rest) and "@" in rest:
        # It may have any sign in it, as keys of S3 have slashes.
        after = re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)
        return f"{scheme}://{_HIDDEN}@{after[0]}" + (f"?{_HIDDEN}" if after[1:] else "")
    bare, mark, _ = _USER_INFO.sub(f"{_HIDDEN}@", address).partition("?")
    return bare.partition("#")[0] + (mark and f"?{_HIDDEN}")


def _masked(item: str) -> str:
    if _is_harmless(item):
        return item
    # Else it is the rest of a password that has an ampersand.
    return f"{item.partition('=')[0]}={_HIDDEN}" if "=" in item and _is_name(item) else _HIDDEN


def _is_name(item: str) -> bool:
    return _NAME.fullmatch(item.partition("=")[0]) is not None


def _is_harmless(item: str) -> bool:
    name = unquote(item.partition("=")[0], errors="replace")
    return name.strip().lower() in _HARMLESS


def scrubbed(text: str, url: str) -> str:
    """A message without any part of the URL that may be secret."""
    hidden = _pieces(url)
    for quote in "\"'":
        lines = text.splitlines(keepends=True)
        text = "".join(_unquoted(line, quote, hidden) for line in lines)
    words = {word for piece in hidden for word in (piece, *re.split(r"\W+", piece))}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _SHORTEST_SECRET:
            text = text.replace(word, _HIDDEN)
    return text


def _pieces(url: str) -> set[str]:
    """What of a URL may be secret, as it is written and as it is meant."""
    rest = url.partition("://")[2] or url
    authority, at, _ = rest.rpartition("@")
    written = [authority.partition(":")[2] if at else "", *re.split(r"[?#]", rest, maxsplit=1)[1:]]
    meant = [unquote(piece, errors="replace") for piece in written]
    return {piece for piece in (*written, *meant) if piece}


def _unquoted(line: str, quote: str, hidden: set[str]) -> str:
    """A line without what it quotes, if any of that may be secret.

    A driver quotes what it can't parse. Which part that is depends on the signs in a password,
    whose quotes can't be told from the driver's.
    """
    quoted = line.split(quote)[1::2] if hidden else []
    if all(
        _PLAIN.fullmatch(part) and not any(quote in piece or part in piece for piece in hidden)
        for part in quoted
    ):
        return line
    return f"{line[: line.find(quote)]}{quote}{_HIDDEN}{quote}{line[line.rfind(quote) + 1 :]}"
