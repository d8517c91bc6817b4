"""The object stores of a lake: one for each location, opened when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltasql.lake import locations
from deltasql.objectstore import ObjectStore, open_store
from deltasql.objectstore.sources import Sources


class ObjectStores:
    """Opens object stores with a lake's options, and keeps them: `lake.objects(location)`.

    What is changed here holds for one lake in one process; Spark's workers open theirs anew.
    """

    def __init__(
        self, options: Mapping[str, Any], sources_at: Callable[[str], Iterable[str]] | None = None
    ) -> None:
        self._options = options
        self._sources_at = sources_at or (lambda _: ())
        self._plain: dict[str, ObjectStore] = {}
        self._opened: dict[str, ObjectStore] = {}
        self._around: Callable[[ObjectStore], ObjectStore] = lambda store: store

    def __call__(self, location: str) -> ObjectStore:
        """The object store at a location."""
        # Tables name their places as they are kept here, and every commit asks.
        if type(location) is str and location in self._opened:
            return self._opened[location]
        # A relative path means another place once the process has gone elsewhere.
        place = locations.absolute(location)
        if place not in self._opened:
            sources = Sources(lambda: self._sources_at(place))
            self._plain[place] = open_store(place, self._options, sources)
            self._opened[place] = self._around(self._plain[place])
        return self._opened[place]

    def use(self, location: str, store: ObjectStore) -> None:
        """Reach a location through `store` from now on."""
        place = locations.absolute(location)
        self._plain[place] = self._opened[place] = store

    def wrap(self, around: Callable[[ObjectStore], ObjectStore]) -> None:
        """Put something around every store from now on, to watch or to break it.

        Those that are open are no exception; what `wrap` put around them before goes.
        """
        self._around = around
        self._opened = {place: around(store) for place, store in self._plain.items()}
