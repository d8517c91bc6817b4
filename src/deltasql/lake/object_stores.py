"""The object stores of a lake: one for each location, opened on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from deltasql.lake import locations
from deltasql.objectstore import ObjectStore, open_store
from deltasql.objectstore.sources import Sources

# How many buckets' stores stay open. Each has its own client: some 200 kB, and a few connections
# that it keeps for a minute or two, so that thousands of tables would take all descriptors.
_OPEN: Final = 128


class ObjectStores:
    """Opens object stores with a lake's options, and keeps the latest: `lake.objects(location)`.

    Changes made here apply to one lake in one process; Spark's workers open their own stores.
    """

    def __init__(
        self, options: Mapping[str, Any], sources_at: Callable[[str], Iterable[str]] | None = None
    ) -> None:
        self._options = options
        self._sources_at = sources_at or (lambda _: ())
        self._plain: dict[str, ObjectStore] = {}
        self._opened: dict[str, ObjectStore] = {}
        # Those that may be closed and opened again, the oldest first.
        self._remote: dict[str, None] = {}
        self._lock = threading.Lock()
        self._around: Callable[[ObjectStore], ObjectStore] = lambda store: store

    def __call__(self, location: str) -> ObjectStore:
        """The object store at a location."""
        # Tables spell their locations as they are cached here, and every commit asks.
        found = self._opened.get(location) if type(location) is str else None
        if found is not None:
            return found
        # A relative path means another place once the process changes its directory.
        place = locations.absolute(location)
        with self._lock:
            found = self._opened.get(place)
            return self._open(place) if found is None else found

    def _open(self, place: str) -> ObjectStore:
        sources = Sources(lambda: self._sources_at(place))
        plain = self._plain[place] = open_store(place, self._options, sources)
        opened = self._opened[place] = self._around(plain)
        if not plain.is_local:
            self._remote[place] = None
        while len(self._remote) > _OPEN:
            # Whoever is using it still holds it.
            oldest = next(iter(self._remote))
            del self._remote[oldest], self._plain[oldest], self._opened[oldest]
        return opened

    def use(self, location: str, store: ObjectStore) -> None:
        """Reach a location through `store` from now on."""
        place = locations.absolute(location)
        with self._lock:
            self._remote.pop(place, None)
            self._plain[place] = self._opened[place] = store

    def wrap(self, around: Callable[[ObjectStore], ObjectStore]) -> None:
        """Wrap every store from now on, to watch or to break it.

        Open stores are wrapped as well, and lose what an earlier `wrap` put around them.
        """
        with self._lock:
            self._around = around
            self._opened = {place: around(store) for place, store in self._plain.items()}
