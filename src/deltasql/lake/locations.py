"""Where tables may lie: default places, and locations that are refused."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from deltasql.errors import ConfigError, DeltaSqlError, ValidationError
from deltasql.lake.writing import new_id
from deltasql.places import LOCAL, flaw_of, place_of, scheme_of
from deltasql.settings.secrets import mask_address
from deltasql.spec.paths import LOG_FOLDER
from deltasql.store.claims import taken

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

_SHARED: Final = "whose vacuum would delete files that it knows nothing of"


def absolute(location: str | os.PathLike[str]) -> str:
    """A location that means the same wherever it is read: paths become absolute.

    `ValidationError` if that is impossible.
    """
    text = _text(location)
    flaw = flaw_of(text)
    if flaw is not None:
        raise ValidationError(
            f"{mask_address(text)!r:.200} is not a location",
            cause=flaw,
            remedy="write it as a path, or as a URL such as s3://bucket/folder",
        )
    if scheme_of(text) is not None:
        return text
    # As the object stores do: x/.. is dropped, even if x is a link.
    return os.path.normpath(Path(text).expanduser().absolute())


def _text(location: str | os.PathLike[str]) -> str:
    text = os.fspath(location) if isinstance(location, os.PathLike) else location
    if not isinstance(text, str):
        raise ValidationError(
            f"{location!r:.80} is not a location",
            cause=f"it is of the type {type(location).__name__}",
            remedy="pass a string or a pathlib.Path",
        )
    return text


def beside(url: str) -> str | None:
    """A folder beside an embedded database's file: `lake` for `lake.db`."""
    path = database_file(url)
    return None if path is None else path.with_suffix("").as_uri()


def database_file(url: str) -> Path | None:
    """The file of an embedded database."""
    parts = urlsplit(url)
    if parts.scheme not in ("sqlite", "duckdb"):
        return None
    return Path(parts.path.removeprefix("/")).absolute()


def default_place(lake: Lake, name: str) -> str:
    """Where a new table of that name goes: a folder that is empty and unclaimed.

    `sales.orders` goes to `sales/orders`, unless another table is there, in `sales`, or in a folder
    below; then it gets a folder of its own, `sales.orders` or `sales.orders-1a2b3c4d`.
    """
    if lake.location is None:
        raise ConfigError(
            "the lake has no location for new tables",
            remedy="pass location= to connect, or set DELTASQL_LOCATION",
        )
    root = lake.location.rstrip("/")
    if _has_log(lake, root):
        raise _refused(root, f"the lake's location is a Delta table, {_SHARED}")
    for place in _candidates(root, name):
        if _is_in_log(place) or _table_around(lake, place, below=root) is not None:
            continue
        # A dropped table may still have files there, and a table whose mirror is late has none yet.
        if not lake.store.claims(place) and not _is_used(lake, place):
            return place
    raise AssertionError("unreachable")


def _candidates(root: str, name: str) -> Iterator[str]:
    # A plain path is taken literally: an escape would become part of the folder's name.
    is_path = scheme_of(root) is None
    deep, flat = (
        f"{root}/{text if is_path else quote(text, safe='/')}"
        for text in (name.replace(".", "/"), name)
    )
    yield deep
    if "." in name:
        yield flat
    while True:
        yield f"{flat}-{new_id()[:8]}"


def check_new(lake: Lake, location: str | os.PathLike[str]) -> str:
    """The location for a new table, absolute; raises if no table may lie there.

    When the table is created, the database checks again that no other table has the place.
    """
    found = check(lake, location)
    # Don't leave this to the database alone: by then the other table may be purged, while some of
    # its files stay.
    claims = lake.store.claims(found)
    if claims:
        raise taken(found, place_of(found), claims[0])
    if _is_used(lake, found):
        raise ValidationError(
            f"the location {location} is not empty",
            cause="a new table would share it with files that it knows nothing about",
            remedy="choose an empty location, or adopt the Delta table that is there",
        )
    around = _table_around(lake, found)
    if around is not None:
        raise _refused(str(location), f"it lies in a Delta table, {around}, {_SHARED}")
    return found


def check(lake: Lake, location: str | os.PathLike[str]) -> str:
    """The location, absolute; `ValidationError` if it contains what no table may contain."""
    if not _text(location).strip():
        raise _refused("''", "it is empty, which would be the working directory")
    found = absolute(location)
    place = place_of(found)
    if _is_in_log(found):
        raise _refused(str(location), f"it is in a folder {LOG_FOLDER}, which holds only logs")
    for other, what in _kept_free(lake):
        if place_of(other).startswith(place):
            raise _refused(str(location), f"it is, or contains, {what} ({other})")
    return found


def _is_in_log(location: str) -> bool:
    """Whether readers of Delta would take the place for a part of somebody's log."""
    return LOG_FOLDER in place_of(location).split("/")


def _kept_free(lake: Lake) -> Iterator[tuple[str, str]]:
    yield "/", "the root of the file system"
    if lake.location is not None:
        yield lake.location, "the location of the lake itself"
    database = database_file(lake.url)
    if database is not None:
        yield str(database), "the database"
    try:
        yield str(Path.home()), "a home folder"
    except RuntimeError:
        return  # there is none


def is_own(lake: Lake, location: str) -> bool:
    """Whether a location is the lake's, or lies within it."""
    return lake.location is not None and place_of(location).startswith(place_of(lake.location))


def breadth_of(location: str) -> str | None:
    """What a location is if it holds more than one would look through by mistake, in words."""
    place = place_of(location)
    if place == f"{LOCAL}/":
        return "it is the root of the file system"
    try:
        if place_of(str(Path.home())).startswith(place):
            return "it is, or contains, a home folder"
    except RuntimeError:
        pass  # there is none
    return None


def _is_used(lake: Lake, place: str) -> bool:
    return next(iter(lake.objects(place).list("")), None) is not None


def _table_around(lake: Lake, location: str, below: str | None = None) -> str | None:
    """The folder around a location, below another, that has a Delta log: perhaps another lake's."""
    for folder in _folders_around(location):
        if below is not None and place_of(folder) == place_of(below):
            return None
        if _has_log(lake, folder):
            return folder
    return None


def _folders_around(location: str) -> Iterator[str]:
    """Every folder that a location lies in, the nearest first; the root of all is none."""
    place = place_of(location)
    if place.startswith(LOCAL):
        parents = Path(place.removeprefix(LOCAL)).parents
        yield from (str(folder) for folder in parents if folder.name)
        return
    scheme, _, rest = location.partition("://")
    bucket, _, key = rest.partition("/")
    folder = posixpath.normpath(key)
    while folder := posixpath.dirname(folder):
        yield f"{scheme}://{bucket}/{folder}"
    yield f"{scheme}://{bucket}"


def _has_log(lake: Lake, folder: str) -> bool:
    try:
        return next(iter(lake.objects(folder).list(LOG_FOLDER)), None) is not None
    except (DeltaSqlError, OSError):
        # Whoever may write a table need not be allowed to look around it.
        return False


def _refused(location: str, cause: str) -> ValidationError:
    return ValidationError(
        f"a table can't be at {location}",
        cause=cause,
        remedy="choose a folder of its own, or leave the location out",
    )
