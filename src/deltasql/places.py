"""Where a table lies, in one spelling: two locations are the same place if this says so.

A place ends with a slash, so that one lies within another exactly if its text begins with the
other's: `/a/b` holds `/a/b/c` and not `/a/bc`. Links on local disk are followed, since whoever
deletes through one deletes what it leads to.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_SAME: Final = {
    "s3a": "s3",
    "az": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
}
LOCAL: Final = "file:"


def place_of(location: str) -> str:
    """The place that a location names, however it is spelt.

    Of Azure only the container counts, not the account, which some spellings leave out.
    """
    scheme = scheme_of(location)
    if scheme is None:
        return _local(str(Path(location).expanduser()))
    rest = location[len(scheme) + 1 :]
    if scheme == "file":
        return _local(_without_host(unquote(rest)))
    host, _, key = rest.removeprefix("//").partition("/")
    container = host.partition("@")[0] if _SAME.get(scheme) == "azure" else host.rpartition("@")[2]
    path = posixpath.normpath("/" + unquote(key.partition("?")[0])).lstrip("/")
    root = f"{_SAME.get(scheme, scheme)}://{container.lower()}/"
    return f"{root}{path}/" if path else root


def scheme_of(location: str) -> str | None:
    """The scheme of a location, None for a plain path; one letter is a drive, or a name."""
    match = _SCHEME.match(location)
    return match[1].lower() if match else None


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
        found = os.path.realpath(path)
    except (OSError, ValueError):  # a loop of links; a NUL, which whoever opens it complains of
        found = str(Path(path).absolute())
    return f"{LOCAL}{found.rstrip('/')}/"
