"""The files of commits over HTTP: those that are added lie where they may, and are complete; those
that are removed are in the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltasql.commit import CommitRequest
from deltasql.errors import LogFormatError, ValidationError
from deltasql.lake.table import Table
from deltasql.spec.actions import AddFile, CdcFile, RemoveFile
from deltasql.spec.paths import is_absolute, object_key
from deltasql.store.interface import LogStore
from deltasql.store.rows import key_of

_HEADS_AT_ONCE: Final = 16
# Delta's letter for a deletion vector with an absolute path.
_ABSOLUTE_VECTOR: Final = "p"
# Bytes of a path; no store takes longer keys.
_LONGEST_PATH: Final = 4096


def must_be_in_the_table(store: LogStore, request: CommitRequest) -> None:
    """Raise `ValidationError` unless removed files are in the table as it was read.

    A file that was replaced meanwhile is a conflict, but only for who says what they have read:
    without that, and with a path that is no file's, old rows would stay beside the new ones.
    """
    removed = [item for item in request.actions if isinstance(item, RemoveFile)]
    if not removed:
        return
    read, head = request.read_version, request.expected_head
    base = head if read is None else read
    if base is None:
        raise ValidationError(
            "a commit that removes files must say which version it rests on",
            cause="rows changed in the meantime would be there twice, and nobody would notice",
            remedy="send read_version: the version whose files you have read",
        )
    with store.locked([request.table_id]) as log:
        known = log.known_files(request.table_id, {item.path for item in removed}, after=base)
    for item in removed:
        if (key_of(item.path), key_of(item.dv_id)) not in known:
            raise ValidationError(
                f"{item.path!r:.200} is not in {request.table_name} at version {base}",
                cause="it was removed before, was never added, or has another deletion vector",
                remedy="name files as GET …/files does for the version that you send",
                path=item.path,
            )


def must_be_there(table: Table, request: CommitRequest) -> None:
    """Raise `ValidationError` unless added files are in the table's folder, and complete.

    Elsewhere they may be another table's, which readers of this one could then read.
    """
    added = [item for item in request.actions if isinstance(item, AddFile | CdcFile)]
    for action in request.actions:
        if isinstance(action, AddFile | CdcFile | RemoveFile):
            _must_be_below(action)
    objects = table.objects

    def look(action: AddFile | CdcFile) -> str | None:
        found = objects.head(object_key(action.path))
        if found is None:
            return f"{action.path} is not there"
        return None if found.size == action.size else f"{action.path} has {found.size} bytes"

    with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
        _raise_first(pool.map(look, added))


def _must_be_below(action: AddFile | CdcFile | RemoveFile) -> None:
    # The store is asked for them before validation has seen them.
    if len(action.path.encode("utf-8", "surrogatepass")) > _LONGEST_PATH or _is_broken(action.path):
        raise ValidationError(
            f"{action.path!r:.200} is not the path of a file",
            cause=f"it has more than {_LONGEST_PATH} bytes, or half a surrogate pair",
            remedy="give the path as it was uploaded",
            path=action.path,
        )
    vector = getattr(action, "deletion_vector", None)
    is_elsewhere = vector is not None and vector.storage_type == _ABSOLUTE_VECTOR
    adds_elsewhere = is_absolute(action.path) and not isinstance(action, RemoveFile)
    if adds_elsewhere or (is_elsewhere and not isinstance(action, RemoveFile)):
        raise ValidationError(
            f"{action.path!r:.200} can't be committed over HTTP",
            cause="it, or its deletion vector, is named by an absolute address",
            remedy="put the file below the table's folder, and give its relative path",
            path=action.path,
        )
    if isinstance(action, RemoveFile):
        return
    try:
        object_key(action.path)
    except LogFormatError as error:
        # It is no log's path yet.
        raise ValidationError(
            f"{action.path!r:.200} is not the path of a file",
            cause=error.cause,
            remedy="give it relative to the table's folder, percent-encoded",
            path=action.path,
        ) from None


def _is_broken(path: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in path)


def _raise_first(found: Iterable[str | None]) -> None:
    for problem in found:
        if problem is not None:
            raise ValidationError(
                "nothing was committed: a file is not what its action says",
                cause=problem,
                remedy="upload the file first, and give its size",
            )
