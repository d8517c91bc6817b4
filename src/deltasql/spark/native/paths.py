"""The place of a file, however its path is written: in the log, or in `_metadata.file_path`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import unquote

from deltasql.errors import DeltaSqlError
from deltasql.places import uri_of
from deltasql.spark.native.gateway import hadoop_location
from deltasql.spec.actions import AddFile
from deltasql.spec.paths import is_elsewhere

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*")


def place_of(path: str, location: str = "") -> str:
    """The place of a path, the same for all spellings; `location` is the table's."""
    root = hadoop_location(location).rstrip("/")
    whole = unquote(uri_of(path, root) if is_elsewhere(path) else "")
    if not whole:
        whole = f"{root}/{unquote(path)}"
    return _SCHEME.sub("", whole).lstrip("/")


def picked(adds: Iterable[AddFile], location: str, places: Collection[str]) -> list[AddFile]:
    """The files at these places; all must exist, or rows would silently stay unchanged."""
    known = {place_of(add.path, location): add for add in adds}
    if strange := set(places) - known.keys():
        raise DeltaSqlError(
            f"Spark read {min(strange)!r}, which is not a file of the table",
            cause=f"the table's location, {location!r}, is written in a way that deltasql misreads",
            remedy="report it with the location; nothing was changed",
        )
    return [add for place, add in known.items() if place in places]
