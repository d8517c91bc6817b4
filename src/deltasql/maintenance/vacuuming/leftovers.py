"""Files in folders of no table: what the creation of a table leaves if it dies before its commit.

Vacuum looks at the places of tables; these are at none, and nobody will ever name them. They are
only told: nothing says for sure that they are no one's, and without a table there is no journal
that a delete could be written down in first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote

from deltasql.log.timestamps import from_ms
from deltasql.maintenance.vacuuming.orphans import is_written_by_delta
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.store import ObjectInfo
from deltasql.places import place_of, scheme_of
from deltasql.store.interface import LogStore

_CHANGES: Final = "_change_data"
_LOG: Final = "_delta_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A folder of no table with files that a Delta writer wrote, the last one at `modified`."""

    location: str
    files: int
    bytes: int
    modified: datetime


@dataclass(slots=True)
class _Folder:
    files: int = 0
    size: int = 0
    modified: int = 0

    def take(self, info: ObjectInfo) -> None:
        self.files += 1
        self.size += info.size
        self.modified = max(self.modified, info.modified)


def leftovers(
    store: LogStore, objects: ObjectStore, root: str, *, older_than: int
) -> list[Leftover]:
    """The leftovers below a location, none of whose files was written since `older_than`."""
    found, logs = _listed(objects.list(""))
    # Afterwards: a table that was created while the listing went on has its place by now.
    taken = tuple(claim.place for claim in store.claims(root))
    told = []
    for folder, item in sorted(found.items()):
        location = _location(root, folder)
        if item.modified >= older_than or f"{folder}/".startswith(logs):
            continue
        # Whatever lies in the place of a table, a dropped one included, is its vacuum's.
        if not place_of(location).startswith(taken):
            told.append(
                Leftover(
                    location=location,
                    files=item.files,
                    bytes=item.size,
                    modified=from_ms(item.modified),
                )
            )
    return told


def _listed(listing: Iterable[ObjectInfo]) -> tuple[dict[str, _Folder], tuple[str, ...]]:
    """Folders with files of Delta writers, and folders that have a log, whoever writes it."""
    found: dict[str, _Folder] = {}
    logs: set[str] = set()
    for info in listing:
        folder, is_log, _ = info.path.partition(f"{_LOG}/")
        if is_log and (not folder or folder.endswith("/")):
            logs.add(folder)
        elif is_written_by_delta(info.path):
            found.setdefault(_root(info.path), _Folder()).take(info)
    return found, tuple(logs)


def _root(path: str) -> str:
    """The folder that a table with this file would have: without partitions and changes."""
    folders = path.split("/")[:-1]
    while folders and ("=" in folders[-1] or folders[-1] == _CHANGES):
        folders.pop()
    return "/".join(folders)


def _location(root: str, folder: str) -> str:
    # A plain path is taken literally.
    name = folder if scheme_of(root) is None else quote(folder, safe="/")
    return f"{root.rstrip('/')}/{name}".rstrip("/")
