"""Released tables: others own their folders, and we write nothing there.

What remains is what release promised: the versions up to and including its own, while the log there
is still the one that they continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltasql.delta_log.listing import list_log
from deltasql.errors import MirrorConflictError
from deltasql.mirror.validation.digests import commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

RELEASED: Final = "released"


def release_reason(version: int) -> str:
    """Why a table that was released at a version is no longer written."""
    return (
        f"{RELEASED} at version {version}: it belongs to plain Delta writers, and SQL does not "
        "follow them; adopt it again to write it here"
    )


def is_released(reason: str | None) -> bool:
    """Whether the table is not written because it was released."""
    return (reason or "").startswith(RELEASED)


def must_be_as_released(
    log: LogStore, objects: ObjectStore, table_id: int, versions: Iterable[int]
) -> None:
    """Raise `MirrorConflictError` if others have gone on, or if the commit file of one of these
    versions differs from ours. A missing one is no conflict.
    """
    head = log.head(table_id)
    if head is None:
        return
    commits = list_log(objects).commits
    digests = commit_digests(log, table_id)
    found = differing(objects, digests, [v for v in versions if v in commits and v in digests])
    theirs = [*found, *commits.after(head.version)]
    if theirs:
        raise MirrorConflictError(
            "a released table that others have written to since is not mirrored",
            cause=f"version {theirs[0]} in {objects.location} is not deltasql's",
            remedy="adopt the table again to follow it; what SQL has of it can be exported",
            version=theirs[0],
        )
