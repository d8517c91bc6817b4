"""Whether the `_delta_log` at a table's place is the table's own.

Where it is another's, files that this log doesn't know are live in that one: after the database was
restored to an earlier time, in a copy of it, or where somebody put a table over a foreign one.
"""

from __future__ import annotations

from hashlib import sha256

from deltasql.delta_log.last_checkpoint import hinted_version
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG, commit_name
from deltasql.errors import MirrorError
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import Head, LogStore


def must_be_of(store: LogStore, objects: ObjectStore, head: Head, table: str) -> None:
    """Raise `MirrorError` if a commit there is not the table's.

    Without a listing: looked at are those around the newest that the mirror has, the newest
    checkpoint's, and the one after the head.
    """
    mirrored = _mirrored(store, head)
    hint = objects.read_tagged(LOG + LAST_CHECKPOINT)
    hinted = None if hint is None else hinted_version(hint[0])
    for version in sorted({mirrored, mirrored + 1, hinted or 0, head.version + 1}):
        found = objects.read_tagged(LOG + commit_name(version)) if version >= 0 else None
        if found is None:
            continue
        known = store.mirror_status(head.table_id, first=version, last=version)
        if known and known[0].digest != sha256(found[0]).digest():
            raise MirrorError(
                f"{table} is not vacuumed: the log at its place is not the table's",
                cause=f"{LOG}{commit_name(version)} is not what SQL has: this database is a copy "
                "that went its own way, another table is there, or the file is damaged",
                remedy="see mirror.validate(); if the files there are this table's, "
                "mirror.repair() writes its log again",
            )
        if not known and version > head.version:
            raise MirrorError(
                f"{table} is not vacuumed: its log has versions that SQL does not know",
                cause=f"SQL ends at version {head.version}, and {LOG}{commit_name(version)} "
                "exists: somebody else writes the table, or the database was restored to an "
                "earlier time",
                remedy="take them back with mirror.repair(take_back=True), then vacuum",
            )


def _mirrored(store: LogStore, head: Head) -> int:
    """The newest version that the mirror should have; -1 if it has none."""
    backlog = store.backlog_of(head.table_id)
    if backlog is None or backlog.first_version is None:
        return head.version
    return backlog.first_version - 1
