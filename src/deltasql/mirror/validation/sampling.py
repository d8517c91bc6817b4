"""A sample of a mirror compared with SQL: the newest commit files, and any foreign ones after them.

It is quick enough to run all the time: it finds a deleted or changed commit file at the end of the
log, where readers are, without reading the whole log. `validate` looks at everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from deltasql.delta_log.listing import list_log, names_after
from deltasql.delta_log.names import LOG, commit_name
from deltasql.errors import StoreError
from deltasql.mirror.engine import Target
from deltasql.mirror.retained import first_kept
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.failures import ObjectNotFoundError
from deltasql.objectstore.wholeness import must_be_whole
from deltasql.store.interface import LogStore

_NO_FILE: Final = sha256(b"").digest()
TAIL: Final = 10


@dataclass(slots=True, kw_only=True)
class DriftSample:
    """What a look at the newest commit files found; `looked_at` counts those that were read."""

    table: str
    looked_at: int = 0
    missing_versions: list[int] = field(default_factory=list)
    digest_mismatches: list[int] = field(default_factory=list)
    foreign_versions: list[int] = field(default_factory=list)
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything in the sample agrees with SQL."""
        return not (
            self.missing_versions or self.digest_mismatches or self.foreign_versions or self.error
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
        return "; ".join([*parts, *([self.error] if self.error else [])])


def sample(log: LogStore, objects: ObjectStore, target: Target, *, tail: int = TAIL) -> DriftSample:
    """Compare the newest `tail` commit files of a table's mirror with what was committed."""
    found = DriftSample(table=target.name)
    try:
        _look(log, objects, target, tail, found)
    except StoreError as error:
        found.error = f"{error.problem}: {error.cause}"
    return found


def _look(
    log: LogStore, objects: ObjectStore, target: Target, tail: int, found: DriftSample
) -> None:
    # Before the objects: a commit made in the meantime is not foreign.
    head = log.head(target.table_id)
    if head is None:
        return
    newest = log.browse_versions(target.table_id, before=head.version + 1, most=tail)
    for item in newest:
        record = item.record
        if not item.json_written or record.digest == _NO_FILE:
            continue
        found.looked_at += 1
        path = LOG + commit_name(record.version)
        try:
            body = objects.read(path)
        except ObjectNotFoundError:
            found.missing_versions.append(record.version)
            continue
        if sha256(body).digest() != record.digest:
            must_be_whole(objects, path, body)
            found.digest_mismatches.append(record.version)
    if found.missing_versions:
        # Commit files that log cleanup removed are not missing.
        first = first_kept(log, target.table_id, list_log(objects), head.version)
        found.missing_versions = [v for v in found.missing_versions if v >= first]
    later = {name.version or 0 for name in names_after(objects, head.version) if name.is_read}
    now = log.head(target.table_id) if later else None
    found.foreign_versions += [v for v in later if now is not None and v > now.version]
    for versions in (found.missing_versions, found.digest_mismatches, found.foreign_versions):
        versions.sort()


def _shown(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions[:3])) + ", …" * (len(versions) > 3)
