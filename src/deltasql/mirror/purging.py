"""What a purge deletes at a table's place: the table's files and log, and nothing else.

If the digest of a commit file there differs from the table's own, the log is foreign, and
everything stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltasql.delta_log.names import (
    LAST_CHECKPOINT,
    LOG,
    SIDECARS,
    LogKind,
    LogName,
    parse_name,
)
from deltasql.errors import (
    LogFormatError,
    MirrorError,
)
from deltasql.mirror.leases import Leases, is_held
from deltasql.mirror.validation.digests import commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.names import checksum_name, lock_name
from deltasql.places import LOCAL, place_of
from deltasql.showing.report import Report
from deltasql.spec import codec
from deltasql.spec.deletion_vectors import InFile, locate
from deltasql.spec.paths import is_elsewhere, object_key

if TYPE_CHECKING:
    from deltasql.store.claims import DroppedRecord
    from deltasql.store.interface import LogStore

_BATCH: Final = 1000
# How many names of kept objects are reported; the rest is only counted.
_MOST_TOLD: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeReport(Report):
    """What a purge did.

    `files` of data, deletion vectors and changes were deleted or already gone, as were `log_files`
    of the log. `kept` are the first thousand of the `kept_count` objects still at the location,
    which the table's log does not know. `kept_because` says why nothing at all was deleted there,
    and `elsewhere` counts files that the log names by absolute paths, which belong to other tables.
    """

    table: str
    table_id: int
    location: str
    files: int = 0
    log_files: int = 0
    elsewhere: int = 0
    kept: tuple[str, ...] = ()
    kept_count: int = 0
    kept_because: str | None = None


class PurgeRun:
    """One run, while the leases are held."""

    def __init__(
        self, store: LogStore, objects: ObjectStore, record: DroppedRecord, leases: Leases
    ) -> None:
        self._store = store
        self._objects = objects
        self._record = record
        self._leases = leases
        place = place_of(record.location)
        self._root = place.removeprefix(LOCAL)
        # Tables created before nested places were refused may lie within this one.
        self._within = tuple(
            claim.place.removeprefix(place)
            for claim in store.claims(record.location)
            if claim.table_id != record.table_id and claim.place.startswith(place)
        )
        self._folders: dict[str, bool] = {}
        self._newest = newest_version(store, record.table_id)
        self._elsewhere = 0

    def run(self) -> PurgeReport:
        log = self._log_names()
        commits = {
            name.version
            for name in log.values()
            if name.kind is LogKind.COMMIT and name.version is not None
        }
        foreign = self._foreign_because(commits)
        files = log_files = 0
        if foreign is None:
            files = self._delete(self._data_files(), with_checksums=self._objects.is_local)
            # Without a commit, nothing proves that the rest of a log is the table's.
            log_files = self._delete(self._log_files(log)) if commits else 0
            self._tidy_log()
        kept, count = self._left()
        return PurgeReport(
            table=self._record.name,
            table_id=self._record.table_id,
            location=self._record.location,
            files=files,
            log_files=log_files,
            elsewhere=self._elsewhere,
            kept=kept,
            kept_count=count,
            kept_because=foreign,
        )

    def _foreign_because(self, commits: set[int]) -> str | None:
        """Why the log at the place is not the table's; the files there may belong to that log."""
        if not self._stays_in(LOG):
            return "its _delta_log is a link that leads elsewhere"
        ahead = sorted(version for version in commits if version > self._newest)
        if ahead:
            return f"the log there has version {ahead[0]}, which SQL does not know"
        digests = commit_digests(self._store, self._record.table_id)
        known = commits & digests.keys()
        other = differing(self._objects, digests, known)
        if other:
            return f"the log there is a different one: its version {other[0]} differs"
        if commits and not known:
            return "the log there is a different one: it has none of the table's commits"
        return None

    def _tidy_log(self) -> None:
        if not self._objects.is_local:
            return
        self._objects.remove_stale_temps(LOG.rstrip("/"), 0)
        self._objects.delete([lock_name(LOG + LAST_CHECKPOINT)])
        # A folder of that name would look like a table.
        for folder in (LOG + SIDECARS, LOG):
            with suppress(OSError):
                Path(self._root, folder).rmdir()

    def _delete(self, keys: Iterable[str], *, with_checksums: bool = False) -> int:
        count = 0
        for batch in _batches(keys):
            # A process that was silent for long has lost the place, perhaps to a new table.
            if not is_held(self._store, self._leases.commits, self._leases.checkpoints):
                raise MirrorError(
                    f"the purge of {self._record.name} was taken over",
                    cause="this process paused for so long that another one continued",
                    remedy="look at lake.dropped(); if the table is still there, purge again",
                )
            self._objects.delete(batch)
            if with_checksums:
                self._objects.delete([checksum_name(key) for key in batch])
            count += len(batch)
        return count

    # --- what is ours ---------------------------------------------------------------------

    def _data_files(self) -> Iterator[str]:
        for batch in self._store.known_files(self._record.table_id):
            for row in batch.to_pylist():
                yield from self._keys(row["path"])
                if row["deletion_vector"] is not None:
                    yield from self._keys(_vector_path(row["deletion_vector"]))

    def _keys(self, path: str | None) -> Iterator[str]:
        """The key of a path, if it is one below the root."""
        if path is None:
            return
        if is_elsewhere(path):
            self._elsewhere += 1
            return
        try:
            key = object_key(path)
        except LogFormatError:
            return
        if "" not in key.split("/") and not key.startswith(self._within) and self._stays_in(key):
            yield key

    def _stays_in(self, key: str) -> bool:
        """Whether no symbolic link on a local disk leads the key out of the root."""
        if not self._objects.is_local:
            return True
        folder = key.rpartition("/")[0]
        if folder not in self._folders:
            real = os.path.realpath(self._root + folder) + "/"
            self._folders[folder] = real.startswith(self._root)
        return self._folders[folder]

    def _log_names(self) -> dict[str, LogName]:
        """The log files there, by key; a Hadoop checksum counts as the file it belongs to."""
        found = {}
        for item in self._objects.list(LOG.rstrip("/")):
            name = parse_name(item.path.removeprefix(LOG))
            if name is not None and name.kind is LogKind.HADOOP_CHECKSUM and name.of is not None:
                name = parse_name(name.of)
            if name is not None:
                found[item.path] = name
        return found

    def _log_files(self, log: dict[str, LogName]) -> list[str]:
        """Commits come last: if the purge is interrupted, they prove whose the rest is."""
        found = [path for path, name in log.items() if (name.version or 0) <= self._newest]
        return sorted(found, key=lambda path: log[path].kind is LogKind.COMMIT)

    def _left(self) -> tuple[tuple[str, ...], int]:
        told: list[str] = []
        count = 0
        for path in chain((item.path for item in self._objects.list("")), self._links()):
            if path.startswith(self._within):
                continue
            count += 1
            if len(told) < _MOST_TOLD:
                told.append(path)
        return tuple(told), count

    def _links(self) -> Iterator[str]:
        """What a listing of objects leaves out: links to folders, and to nothing."""
        if not self._objects.is_local:
            return
        for folder, folders, files in os.walk(self._root):
            for path in (Path(folder, name) for name in (*folders, *files)):
                if path.is_symlink() and not path.is_file():
                    yield path.relative_to(self._root).as_posix()


def _vector_path(text: str) -> str | None:
    try:
        found = locate(codec.vector_from_wire(codec.loads(text)))
    except LogFormatError:
        return None
    return found.path if isinstance(found, InFile) else None


def _batches(keys: Iterable[str]) -> Iterator[list[str]]:
    batch: dict[str, None] = {}
    for key in keys:
        batch[key] = None
        if len(batch) == _BATCH:
            yield list(batch)
            batch = {}
    if batch:
        yield list(batch)


def newest_version(store: LogStore, table_id: int) -> int:
    """The newest version of a table in SQL; -1 if there is none."""
    found = store.history(table_id, limit=1)
    return found[0].version if found else -1
