"""The object stores of a lake: one for each location, opened on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deltasql.lake import locations
from deltasql.objectstore import ObjectStore, open_store
from deltasql.objectstore.sources import Sources


class ObjectStores:
    """Opens object stores with a lake's options, and keeps them: `lake.objects(location)`.

    Changes made here apply to one lake in one process; Spark's workers open their own stores.
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
        # Tables spell their locations as they are cached here, and every commit asks.
        if type(location) is str and location in self._opened:
            return self._opened[location]
        # A relative path means another place once the process changes its directory.
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
        """Wrap every store from now on, to watch or to break it.

        Open stores are wrapped as well, and lose what an earlier `wrap` put around them.
        """
        self._around = around
        self._opened = {place: around(store) for place, store in self._plain.items()}
