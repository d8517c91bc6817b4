"""Finds Delta tables: the folders below a place that have a `_delta_log`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from deltasql.delta_log.names import LOG
from deltasql.errors import StoreError
from deltasql.objectstore import ObjectStore

_LOG_FOLDER: Final = LOG.rstrip("/")
_CHANGES: Final = "_change_data"
# Listings at once: each is a request that mostly waits.
_PARALLEL: Final = 16


@dataclass(frozen=True, slots=True)
class Findings:
    """Folders of tables, and those that could not be read."""

    tables: Sequence[str]
    unread: Mapping[str, StoreError]


def find_tables(objects: ObjectStore) -> Findings:
    """The outermost tables of a store, its root included."""
    return _search(objects, [""], lambda _: True)


def find_inside(objects: ObjectStore, folder: str, *, is_sound: bool) -> Findings:
    """The outermost tables inside the folder of a table.

    The partitions of a sound table contain its own files, and are skipped.
    """

    def may_hold_tables(name: str) -> bool:
        return not is_sound or (name != _CHANGES and "=" not in name)

    return _search(objects, [folder], may_hold_tables, is_inside=True)


def _search(
    objects: ObjectStore,
    frontier: Sequence[str],
    may_hold_tables: Callable[[str], bool],
    *,
    is_inside: bool = False,
) -> Findings:
    """Descend level by level, but not into what is found; inside a table, don't stop at itself."""
    tables: list[str] = []
    unread: dict[str, StoreError] = {}

    def look(folder: str) -> list[str] | StoreError:
        try:
            return objects.folders(folder)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(_PARALLEL) as pool:
        while frontier:
            below: list[str] = []
            for folder, found in zip(frontier, pool.map(look, frontier), strict=True):
                if isinstance(found, StoreError):
                    unread[folder] = found
                    continue
                named = {path.rpartition("/")[2]: path for path in found}
                if _LOG_FOLDER in named and not is_inside:
                    tables.append(folder)
                    continue
                named.pop(_LOG_FOLDER, None)
                below += [path for name, path in named.items() if may_hold_tables(name)]
            frontier, is_inside = below, False
    return Findings(sorted(tables), unread)
