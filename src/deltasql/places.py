"""The place of a table in one spelling: two locations are the same place if this says so.

A place ends with a slash, so that one lies within another exactly if its text begins with the
other's: `/a/b` contains `/a/b/c` but not `/a/bc`. Links on a local disk are followed, since
deleting through one deletes its target. `x/..` is resolved first, as in object stores: it is
resolved as text, wherever the link `x` leads.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_SAME: Final = {
    "s3a": "s3",
    "az": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
LOCAL: Final = "file:"
_HAS_USER: Final = "it has a user or a password; credentials are options of the store"
_UNSEEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def place_of(location: str) -> str:
    """The place that a location names, however it is spelt.

    For Azure only the container counts, not the account, which some spellings leave out.
    """
    scheme = scheme_of(location)
    if scheme is None:
        return _local(str(Path(location).expanduser()))
    rest = location[len(scheme) + 1 :]
    if scheme == "file":
        return _local(_without_host(unquote(rest)))
    host, _, key = rest.removeprefix("//").partition("/")
    if _SAME.get(scheme) == "azure":
        container = host.partition("@")[0]
    else:
        container = host.rpartition("@")[2].partition(":")[0]
    plain = key.partition("#")[0].partition("?")[0]
    path = posixpath.normpath("/" + unquote(plain)).lstrip("/")
    root = f"{_SAME.get(scheme, scheme)}://{container.lower()}/"
    return f"{root}{path}/" if path else root


def uri_of(path: str, location: str) -> str:
    """The URI of a log path that is not relative to the table's root; `location` is the table's."""
    if not path.startswith("/"):
        return path
    scheme = scheme_of(location)
    if scheme in (None, "file"):
        return f"file://{path}"
    bucket = location.partition("://")[2].partition("/")[0]
    return f"{scheme}://{bucket}{path}"


def scheme_of(location: str) -> str | None:
    """The scheme of a location, None for a plain path; a single letter is a drive, or a name."""
    match = _SCHEME.match(location)
    return match[1].lower() if match else None


def same_scheme(one: str, other: str) -> bool:
    """Whether two locations are in the same kind of store, however its scheme is spelt."""
    return _kind(one) == _kind(other)


def _kind(location: str) -> str:
    scheme = scheme_of(location) or "file"
    return _SAME.get(scheme, scheme)


def same_account(one: str, other: str) -> bool:
    """Whether two Azure locations, if both name an account, name the same one."""
    accounts = {_account(one), _account(other)} - {""}
    return len(accounts) < 2


def _account(location: str) -> str:
    if _kind(location) != "azure":
        return ""
    host = location.partition("://")[2].partition("/")[0]
    return host.partition("@")[2].partition(".")[0].lower()


def flaw_of(location: str) -> str | None:
    """Why others could take a location for another place than we do; None if they can't.

    URL parsers silently drop blanks, tabs, ports and fragments, and some turn a backslash into a
    slash: the text would name one place, while the files are in another.
    """
    if _UNSEEN.search(location):
        return "it has control characters, or characters that are not text"
    scheme = scheme_of(location.strip())
    if "\\" in (location if scheme is None else unquote(location)):
        return "it has a backslash, which some readers take for a slash"
    if scheme is None:
        return None
    if not _is_parsed(location):
        return "its host is none that a URL can have"
    if scheme == "file":
        host = location[len(LOCAL) :].removeprefix("//").partition("/")[0]
        return _HAS_USER if location[len(LOCAL) :].startswith("//") and "@" in host else None
    return _flaw_of_url(location)


def _flaw_of_url(location: str) -> str | None:
    if location != location.strip():
        return "it has blanks around it"
    if set("#?") & set(location):
        return "it has a query or a fragment; write # in a name as %23, and ? as %3F"
    user, at, host = location.partition("://")[2].partition("/")[0].rpartition("@")
    # In abfss://container@account the part before the @ is not a user.
    if at and (_kind(location) != "azure" or ":" in user):
        return _HAS_USER
    if ":" in host:
        return "it has a port; the endpoint is an option of the store"
    return None


def _is_parsed(location: str) -> bool:
    try:
        urlsplit(location)
    except ValueError:
        return False
    return True


def overlap(one: str, other: str) -> bool:
    """Whether two places are the same, or one lies within the other."""
    return one.startswith(other) or other.startswith(one)


def _without_host(rest: str) -> str:
    """The path of `file:/a`, `file:///a` or `file://localhost/a`."""
    if not rest.startswith("//"):
        return rest
    _, slash, path = rest[2:].partition("/")
    return slash + path


def _local(path: str) -> str:
    try:
        found = os.path.realpath(os.path.normpath(path))
    except (OSError, ValueError):  # a loop of links, or a NUL, which opening it will report
        found = str(Path(path).absolute())
    return f"{LOCAL}{found.rstrip('/')}/"
