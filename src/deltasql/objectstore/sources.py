"""Where an absolute path of a log may lead: below the table's root, or one of its sources.

Anybody may have written a log, and the reader of a table may have rights that its writer lacks. So
a path outside the root is followed only into places that the table is known to read from, and never
to another kind of store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from deltasql.errors import ValidationError
from deltasql.places import place_of, same_account, same_scheme
from deltasql.spec.paths import decode_path

# Tables created before sources were recorded may read from anywhere.
ANYWHERE: Final = ""


class Found(NamedTuple):
    """An object by the place that it may be read from and its key there.

    `place` is spelt as by `places.place_of`, and is `own` if it is the table's root.
    """

    place: str
    key: str
    own: bool


class Sources:
    """The places outside a root that may be read; asked for when first needed."""

    __slots__ = ("_ask", "_known")

    def __init__(self, ask: Callable[[], Iterable[str]] = tuple) -> None:
        self._ask = ask
        self._known: tuple[str, ...] = ()

    def find(self, uri: str, location: str) -> Found:
        """The object that the URI of a log names, for the table at `location`.

        Raises `ValidationError` if it lies outside the root and every source.
        """
        folder, _, name = uri.rpartition("/")
        if not same_scheme(uri, location):
            raise other_store(uri, location)
        place = place_of(folder + "/")
        root = place_of(location)
        if place.startswith(root) and same_account(uri, location):
            return Found(root, place.removeprefix(root) + decode_path(name), own=True)
        source = self._source_of(place)
        if source is None:
            raise _outside(uri)
        return Found(source, place.removeprefix(source) + decode_path(name), own=False)

    def _source_of(self, place: str) -> str | None:
        found = _around(place, self._known)
        if found is None:
            # More may have been added since.
            self._known = tuple(self._ask())
            found = _around(place, self._known)
        return found


def _around(place: str, sources: Iterable[str]) -> str | None:
    for source in sources:
        if source == ANYWHERE:
            return place
        if place.startswith(source):
            return source
    return None


def _outside(uri: str) -> ValidationError:
    return ValidationError(
        f"the file {uri!r:.200} is outside the table that refers to it",
        cause="an absolute path is followed only into the sources that the table was adopted or "
        "cloned with",
        remedy="to read it, adopt the table again and allow its folder: lake.adopt(…, allow=[…])",
        path=uri,
    )


def other_store(uri: str, location: str) -> ValidationError:
    """The error for a path that points to another kind of store than the table's."""
    return ValidationError(
        f"the file {uri!r:.200} is in another kind of store than the table that refers to it",
        cause=f"the table is at {location}; a path can't point to another kind",
        remedy="copy the file to the table's own store, and correct the log",
        path=uri,
    )
