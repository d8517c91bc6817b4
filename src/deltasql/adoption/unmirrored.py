"""Commits that only SQL has: adopting the log of a table that lacks them, as after a drop, must not
silently lose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Literal, TypeAlias, get_args

from deltasql.adoption.releasing import mirror_all
from deltasql.delta_log.listing import LogListing, list_log
from deltasql.errors import MirrorConflictError, MirrorError, ValidationError
from deltasql.mirror.engine import MirrorEngine, Target
from deltasql.mirror.statuses import statuses
from deltasql.mirror.validation.digests import commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.store.interface import LogStore

Unmirrored: TypeAlias = Literal["refuse", "write", "discard"]
_MOST_TOLD: Final = 5


def check_choice(unmirrored: str) -> None:
    """Raise `ValidationError` for anything but one of the choices."""
    if unmirrored not in get_args(Unmirrored):
        raise ValidationError(
            f"unmirrored={unmirrored!r} is not known",
            remedy='use "refuse", "write" or "discard"',
        )


def missing_versions(log: LogStore, objects: ObjectStore, table_id: int) -> list[int]:
    """The versions of a table that were committed to SQL and are not in its log.

    Versions that were there and that others removed, with the whole log or by log cleanup, don't
    count; those that a log lacks because it ends earlier, like a restored one, do.
    """
    newest = log.history(table_id, limit=1)
    if not newest:
        return []
    listing = list_log(objects)
    head = newest[0]
    if _has(objects, listing, head.version, head.digest):
        return []
    digests = commit_digests(log, table_id)
    told = {
        record.version
        for record in statuses(log, table_id, first=0, last=head.version)
        if record.json_written
    }
    missing = {
        version
        for version, digest in digests.items()
        if version not in told and not _has(objects, listing, version, digest)
    }
    end = -1 if listing.commits.last is None else listing.commits.last
    if end in digests and _has(objects, listing, end, digests[end]):
        missing.update(version for version in digests if version > end)
    return sorted(missing)


def _has(objects: ObjectStore, listing: LogListing, version: int, digest: bytes) -> bool:
    found = listing.commits.get(version)
    return found is not None and sha256(objects.read(found.path)).digest() == digest


def not_in_the_log(target: Target, missing: Sequence[int]) -> MirrorError:
    """The error for an adoption that would lose versions."""
    some = ", ".join(str(version) for version in missing[:_MOST_TOLD])
    more = f" and {len(missing) - _MOST_TOLD} more" if len(missing) > _MOST_TOLD else ""
    many = len(missing) != 1
    return MirrorError(
        f"{target.location} was not adopted: commits of the table {target.name}, which was here, "
        "would be lost",
        cause=f"version{'s' * many} {some}{more} {'are' if many else 'is'} in SQL and not in the "
        "log: the mirror was paused, off, late, restored or overwritten",
        remedy='lake.adopt(…, unmirrored="write") writes them to the log first; '
        'unmirrored="discard" discards them',
        version=missing[0],
    )


def write_missing(
    engine: MirrorEngine,
    log: LogStore,
    objects: ObjectStore,
    target: Target,
    missing: Sequence[int],
) -> None:
    """Write missing versions to the log, if it is the table's own log."""
    digests = commit_digests(log, target.table_id)
    there = list_log(objects).commits
    foreign = sorted(version for version in there if version not in digests)
    foreign += differing(objects, digests, (version for version in there if version in digests))
    if foreign:
        raise MirrorConflictError(
            f"the missing versions of {target.name} can't be written to {target.location}",
            cause=f"its version {min(foreign)} is not the one in SQL: there are two histories, "
            "and the log can have only one",
            remedy='lake.adopt(…, unmirrored="discard") keeps what is in the log, and discards '
            f"what only SQL has: {len(missing)} versions, of which version {missing[0]} is the "
            "first",
            version=min(foreign),
        )
    # If the log was restored to an earlier time, SQL believes that they are there.
    log.fill_status(target.table_id)
    log.forget_mirrored(target.table_id, first=missing[0], last=missing[-1])
    mirror_all(engine, log, target)
