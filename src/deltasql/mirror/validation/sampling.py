"""A sample of a mirror compared with SQL: the list of its files, what readers start from, and the
bytes of the newest commit files.

It is quick enough to run all the time: it finds a lost file, a changed one at the end of the log,
where readers are, and a checkpoint that they can't open. `validate` looks at everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import LAST_CHECKPOINT, LOG, commit_name
from deltasql.errors import StoreError
from deltasql.mirror.engine import Target
from deltasql.mirror.missing import missing_in
from deltasql.mirror.retained import first_kept
from deltasql.mirror.validation.digests import commit_digests
from deltasql.mirror.validation.starting import start_fault
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.failures import ObjectNotFoundError
from deltasql.objectstore.wholeness import must_be_whole
from deltasql.store.interface import LogStore

_NO_FILE: Final = sha256(b"").digest()
TAIL: Final = 10


@dataclass(slots=True, kw_only=True)
class DriftSample:
    """What a look at a mirror found; `looked_at` counts the commit files that were read.

    `unreadable` says why readers can't open the table, `lost_checkpoint` which one they look for.
    """

    table: str
    looked_at: int = 0
    missing_versions: list[int] = field(default_factory=list)
    digest_mismatches: list[int] = field(default_factory=list)
    foreign_versions: list[int] = field(default_factory=list)
    unreadable: str | None = None
    lost_checkpoint: int | None = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything in the sample agrees with SQL."""
        return not (self.has_drifted or self.error)

    @property
    def has_drifted(self) -> bool:
        """Whether the mirror says something else than SQL, or can't be read."""
        return bool(
            self.missing_versions
            or self.digest_mismatches
            or self.foreign_versions
            or self.unreadable
        )

    @property
    def told(self) -> str:
        """The findings in words; empty if all is well."""
        words = {
            "missing": self.missing_versions,
            "changed": self.digest_mismatches,
            "written by somebody else": self.foreign_versions,
        }
        parts = [
            f"version{'s' * (len(found) > 1)} {_shown(found)} {what}"
            for what, found in words.items()
            if found
        ]
        return "; ".join([*parts, *filter(None, (self.unreadable, self.error))])


def sample(log: LogStore, objects: ObjectStore, target: Target, *, tail: int = TAIL) -> DriftSample:
    """Compare a table's mirror with what was committed: its list of files, and the bytes of the
    newest `tail` commit files.
    """
    found = DriftSample(table=target.name)
    try:
        _look(log, objects, target, tail, found)
    except StoreError as error:
        found.error = f"{error.problem}: {error.cause}"
    return found


def _look(
    log: LogStore, objects: ObjectStore, target: Target, tail: int, found: DriftSample
) -> None:
    # Before the listing: a commit made in the meantime is not foreign, and whatever SQL says is
    # mirrored is listed. So is what `_last_checkpoint` points at.
    head = log.head(target.table_id)
    if head is None:
        return
    pending = missing_in(log, target.table_id, head.version)
    newest = log.browse_versions(target.table_id, before=head.version + 1, most=tail)
    pointer = objects.read_tagged(LOG + LAST_CHECKPOINT)
    listing = list_log(objects)
    # Commit files that log cleanup removed are not missing.
    first = first_kept(log, target.table_id, listing, head.version)
    absent = [
        version
        for version in range(first, head.version + 1)
        if version not in listing.commits and version not in pending
    ]
    if absent:
        # Not every version has a commit file: an adopted log may have begun with a checkpoint.
        known = commit_digests(log, target.table_id)
        found.missing_versions = [version for version in absent if version in known]
    for item in newest:
        record = item.record
        if not item.json_written or record.digest == _NO_FILE or record.version in absent:
            continue
        found.looked_at += 1
        path = LOG + commit_name(record.version)
        try:
            body = objects.read(path)
        except ObjectNotFoundError:
            if record.version >= first:
                found.missing_versions.append(record.version)
            continue
        if sha256(body).digest() != record.digest:
            must_be_whole(objects, path, body)
            found.digest_mismatches.append(record.version)
    later = {name.version or 0 for name in listing.beyond(head.version) if name.is_read}
    now = log.head(target.table_id) if later else None
    found.foreign_versions += [v for v in later if now is not None and v > now.version]
    fault = start_fault(objects, listing, head.version, pointer)
    if fault is not None:
        found.unreadable, found.lost_checkpoint = fault.told, fault.lost
    for versions in (found.missing_versions, found.digest_mismatches, found.foreign_versions):
        versions.sort()


def _shown(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions[:3])) + ", …" * (len(versions) > 3)
