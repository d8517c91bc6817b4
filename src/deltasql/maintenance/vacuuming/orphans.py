"""Files at a table's place that no version ever knew: one listing, minus all that SQL knows.

Only files that are named as Delta writers name theirs can be orphans; anything else belongs to
somebody. The listing comes first: SQL is asked afterwards, and knows what was committed meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from deltasql.log.state import TableState
from deltasql.maintenance.vacuuming.elsewhere import Elsewhere
from deltasql.maintenance.vacuuming.keys import Place, vector_path
from deltasql.maintenance.vacuuming.report import Candidate, Tally
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.store import ObjectInfo
from deltasql.spec.paths import encode_path
from deltasql.spec.properties import RANDOM_PREFIX_LENGTH
from deltasql.store.interface import LogStore
from deltasql.store.upkeep.interface import JournalRow, Kind

_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# Spark, delta-rs and deltasql write part-00000-UUID…, Delta's kernel UUID alone.
_WRITTEN: Final = re.compile(
    rf"(?:(?:part|cdc)-\d+-{_UUID}[^/]*|{_UUID})\.parquet|deletion_vector_{_UUID}\.bin"
)
# Of the folders that Spark makes where the property does not say how long they are.
_PREFIX: Final = 2
_CHANGES: Final = "_change_data"
_LOG: Final = "_delta_log"


def is_written_by_delta(key: str) -> bool:
    """Whether an object is named as Delta writers do it, in any folder that is not hidden."""
    *folders, name = key.split("/")
    is_hidden = any(folder.startswith(("_", ".")) and folder != _CHANGES for folder in folders)
    return not is_hidden and _WRITTEN.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the writers of a table put their files: in folders for partitions, changes and random
    prefixes, and in no others. A folder `backup` or `export` is somebody's.
    """

    partition_columns: Collection[str]
    prefix_length: int

    @classmethod
    def of(cls, state: TableState) -> Layout:
        """The layout of a table."""
        length = state.properties.get(RANDOM_PREFIX_LENGTH, "")
        return cls(state.partition_columns, int(length) if length.isdecimal() else _PREFIX)

    def has(self, key: str) -> bool:
        """Whether an object is named and placed as Delta writers do it."""
        *folders, name = key.split("/")
        return all(map(self._is_of_delta, folders)) and _WRITTEN.fullmatch(name) is not None

    def _is_of_delta(self, folder: str) -> bool:
        if folder == _CHANGES:
            return True
        column, is_partition, _ = folder.partition("=")
        if is_partition:
            # Hidden from Delta, except for partitions.
            return not folder.startswith(("_", ".")) or column in self.partition_columns
        return len(folder) == self.prefix_length and folder.isascii() and folder.isalnum()


def orphans(
    store: LogStore,
    objects: ObjectStore,
    place: Place,
    tables: Iterable[int],
    elsewhere: Elsewhere,
    *,
    older_than: int,
    layout: Layout,
    tally: Tally,
    before_known: Callable[[], None],
) -> Iterator[Candidate]:
    """What no version of the tables at a place knows, last written before `older_than`.

    `before_known` is called between the listing and the look at what SQL knows, `elsewhere`
    included.
    """
    found, others = _listed(objects.list(""), older_than, layout, tally)
    before_known()
    if not found:
        return
    known = _known(store, place, tables) | elsewhere.keys
    for key, info in found.items():
        if key in known or key.startswith(others) or place.own(key) is None:
            continue
        row = JournalRow(encode_path(key), Kind.ORPHAN, info.size)
        yield Candidate(key, row, modified=info.modified)


def _listed(
    listing: Iterable[ObjectInfo],
    older_than: int,
    layout: Layout,
    tally: Tally,
) -> tuple[dict[str, ObjectInfo], tuple[str, ...]]:
    """What may be an orphan, and the folders that are other tables, whoever owns them."""
    found: dict[str, ObjectInfo] = {}
    others: set[str] = set()
    for info in listing:
        folder, is_log, _ = info.path.partition(f"/{_LOG}/")
        if info.path.startswith(f"{_LOG}/"):
            continue
        if is_log:
            others.add(folder + "/")
        elif not layout.has(info.path):
            tally.foreign += 1
        elif info.modified < older_than:
            found[info.path] = info
    return found, tuple(others)


def _known(store: LogStore, place: Place, tables: Iterable[int]) -> set[str]:
    """The keys of everything that any version of these tables knows, below their root."""
    known: set[str] = set()
    for table_id in tables:
        for batch in store.known_files(table_id):
            for row in batch.to_pylist():
                known.update(_keys(place, row["path"], row["deletion_vector"]))
    return known


def _keys(place: Place, path: str, vector: str | None) -> Iterator[str]:
    for item in (path, _vector(vector)):
        if item is None:
            continue
        key = place.key_of(item)
        if key is not None:
            yield key


def _vector(text: str | None) -> str | None:
    return None if text is None else vector_path(text)
