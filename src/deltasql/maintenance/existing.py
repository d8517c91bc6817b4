"""Whether the files of an old version are still there, before a commit brings them back."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltasql.data.reading.deletion import find_object
from deltasql.errors import ValidationError
from deltasql.maintenance.vacuuming.keys import vector_file
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import Action, AddFile, CdcFile
from deltasql.spec.paths import is_elsewhere, object_key
from deltasql.store.interface import LogStore

_THREADS: Final = 16
_TOLD: Final = 3


def must_exist(
    store: LogStore, objects: ObjectStore, table_id: int, files: Iterable[AddFile], *, what: str
) -> None:
    """Raise `ValidationError` unless the data files and vectors exist, and will stay.

    The caller has pinned their version: whatever vacuum had not recorded before then stays.
    """
    gone = gone_files(store, objects, table_id, files)
    if gone:
        told = ", ".join(sorted(gone)[:_TOLD]) + (", …" if len(gone) > _TOLD else "")
        raise ValidationError(
            f"{what}: {len(gone)} of its files are gone",
            cause=f"vacuum or somebody else deleted them: {told}",
            remedy="choose a newer version; dl_vacuum_files records what vacuum deleted, and when",
        )


def gone_files(
    store: LogStore, objects: ObjectStore, table_id: int, actions: Iterable[Action]
) -> set[str]:
    """The files that actions add and that are not there, or that a vacuum is about to delete."""
    paths = {path for action in actions for path in _paths(action)}
    if not paths:
        return set()
    # A path can be spelled in several ways.
    recorded = {_key(item.row.path) for item in store.pending_deletes(table_id)}
    going = {path for path in paths if _key(path) in recorded}
    names = sorted(paths - going)
    with ThreadPoolExecutor(_THREADS) as threads:
        found = list(threads.map(lambda path: _exists(objects, path), names))
    return going.union(path for path, is_there in zip(names, found, strict=True) if not is_there)


def _paths(action: Action) -> list[str]:
    if not isinstance(action, AddFile | CdcFile):
        return []
    vector = action.deletion_vector if isinstance(action, AddFile) else None
    path = None if vector is None else vector_file(vector)
    return [action.path] if path is None else [action.path, path]


def _key(path: str) -> str:
    return path if is_elsewhere(path) else object_key(path)


def _exists(objects: ObjectStore, path: str) -> bool:
    store, key = find_object(objects, path)
    return store.head(key) is not None
