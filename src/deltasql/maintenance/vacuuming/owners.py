"""Whether a table's place is its own: what its log there says.

The database of one lake knows nothing of another's, and neither does one that was restored to an
earlier time. Their live files look like orphans.
"""

from __future__ import annotations

from typing import Final

from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import MirrorError, TableNotFoundError
from deltasql.maintenance.vacuuming.journal import read_only
from deltasql.mirror.ahead import ahead_of
from deltasql.objectstore import ObjectNotFoundError, ObjectStore
from deltasql.store.interface import LogStore

_UNSHOWN: Final = (
    "no commit file of the table is there: another lake may have files at the same place"
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
    """Compare the newest commit file of the mirror with what was committed, and the one after it.

    Whoever else commits there does so where the mirror goes on.
    """
    backlog = store.backlog_of(table_id)
    if backlog is None:
        return _UNSHOWN
    newest = backlog.head if backlog.first_version is None else backlog.first_version - 1
    is_shown = False
    for version in (newest, newest + 1):
        found = list(store.commits(table_id, after=version - 1, upto=version))
        try:
            body = objects.read(LOG + commit_name(version)) if found and found[0].body else None
        except ObjectNotFoundError:
            body = None
        if body is None:
            continue
        if body != found[0].body:
            raise MirrorError(
                f"{name} is not vacuumed: the log at its place is another one",
                cause=f"{commit_name(version)} there is not what was committed: the place is "
                "another lake's as well, or the database was restored to an earlier time",
                remedy="see deltasql mirror validate; keep the files until it is clear whose "
                "they are",
            )
        is_shown = True
    return None if is_shown else _UNSHOWN
