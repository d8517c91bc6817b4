"""Whether a table's place is its own: what its log there says.

The database of one lake knows nothing of another's, and neither does one that was restored to an
earlier time. Their live files look like orphans.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from deltasql.delta_log.last_checkpoint import hinted_version
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG, commit_name
from deltasql.errors import MirrorError, TableNotFoundError
from deltasql.maintenance.vacuuming.journal import read_only
from deltasql.mirror.ahead import ahead_of
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

_UNSHOWN: Final = (
    "orphans stay: no commit file of the table is there, so another lake may have files at the "
    "same place"
)


def must_be_ours(store: LogStore, objects: ObjectStore, table_id: int, name: str) -> str | None:
    """Raise unless the files at the table's place are the table's, and SQL knows all of them.

    Returns why that is not certain, if the log there doesn't show it.
    """
    reason = store.read_only_reason(table_id)
    if reason is not None:
        raise read_only(name, reason)
    if store.head(table_id) is None:
        raise TableNotFoundError(
            f"there is no table {name}",
            cause="it was dropped",
            remedy="purge it to delete its files",
        )
    # In a database that was restored to an earlier time, the newest files look like orphans.
    ahead = ahead_of(store, objects, table_id)
    if ahead is not None:
        raise MirrorError(
            f"{name} is not vacuumed: its log has versions that SQL does not know",
            cause=f"SQL ends at version {ahead.head}, and {ahead.path} exists: somebody else "
            "writes the table, or the database was restored to an earlier time",
            remedy="take them back with mirror.repair(take_back=True), then vacuum",
        )
    return _unshown(store, objects, table_id, name)


def _unshown(store: LogStore, objects: ObjectStore, table_id: int, name: str) -> str | None:
    """Compare commit files there with what was committed: the mirror's newest and the one after it,
    where whoever else commits there goes on, and the one that readers begin with.
    """
    is_shown = False
    for version in sorted(_identifying(store, objects, table_id)):
        known = store.mirror_status(table_id, first=version, last=version)
        found = objects.read_tagged(LOG + commit_name(version)) if known else None
        if found is None:
            continue
        if sha256(found[0]).digest() != known[0].digest:
            raise MirrorError(
                f"{name} is not vacuumed: the log at its place is not the table's",
                cause=f"{LOG}{commit_name(version)} is not what SQL has: the database was restored "
                "to an earlier time or is a copy that went its own way, another table is there, or "
                "the file is damaged",
                remedy="see mirror.validate(); if the files there are this table's, "
                "mirror.repair() writes its log again",
            )
        is_shown = True
    return None if is_shown else _UNSHOWN


def _identifying(store: LogStore, objects: ObjectStore, table_id: int) -> set[int]:
    """The versions whose commit files say whose log it is; no listing is needed for them."""
    backlog = store.backlog_of(table_id)
    if backlog is None:
        return set()
    newest = backlog.head if backlog.first_version is None else backlog.first_version - 1
    hint = objects.read_tagged(LOG + LAST_CHECKPOINT)
    hinted = None if hint is None else hinted_version(hint[0])
    return {version for version in (newest, newest + 1, hinted or 0) if version >= 0}
