"""Whether the files of an old version are still there, before a commit brings them back."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltasql.data.reading.deletion import find_object
from deltasql.errors import ValidationError
from deltasql.maintenance.vacuuming.keys import vector_file
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.store.interface import LogStore

_THREADS: Final = 16
_TOLD: Final = 3


def must_exist(
    store: LogStore, objects: ObjectStore, table_id: int, files: Iterable[AddFile], *, what: str
) -> None:
    """Raise `ValidationError` unless the data files and vectors exist, and will stay.

    The caller has pinned their version: whatever vacuum had not recorded before then stays.
    """
    paths = {path for add in files for path in _paths(add)}
    if not paths:
        return
    going = {item.row.path for item in store.pending_deletes(table_id)} & paths
    with ThreadPoolExecutor(_THREADS) as threads:
        names = sorted(paths - going)
        found = threads.map(lambda path: _exists(objects, path), names)
        gone = going.union(
            path for path, is_there in zip(names, found, strict=True) if not is_there
        )
    if gone:
        told = ", ".join(sorted(gone)[:_TOLD]) + (", …" if len(gone) > _TOLD else "")
        raise ValidationError(
            f"{what}: {len(gone)} of its files are gone",
            cause=f"vacuum or somebody else deleted them: {told}",
            remedy="choose a newer version; dl_vacuum_files records what vacuum deleted, and when",
        )


def _paths(add: AddFile) -> list[str]:
    vector = None if add.deletion_vector is None else vector_file(add.deletion_vector)
    return [add.path] if vector is None else [add.path, vector]


def _exists(objects: ObjectStore, path: str) -> bool:
    store, key = find_object(objects, path)
    return store.head(key) is not None
