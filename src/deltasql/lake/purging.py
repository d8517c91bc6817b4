"""Purging: a dropped table's own files deleted, then its rows; nothing else at its place.

That the purge has begun is written down first, and the rows, which say what is to be deleted, go
last: whoever is killed between the two has only to be run again. Where a commit file at the place
has not the digest of the table's own, the log is somebody else's, and all of it stays.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltasql.delta_log.names import (
    LAST_CHECKPOINT,
    LOG,
    SIDECARS,
    LogKind,
    LogName,
    commit_name,
    parse_name,
)
from deltasql.errors import (
    DatabaseError,
    LogFormatError,
    MirrorError,
    TableNotFoundError,
    ValidationError,
)
from deltasql.log.timestamps import from_ms
from deltasql.maintenance.vacuuming.keys import Place
from deltasql.maintenance.vacuuming.orphans import named_elsewhere
from deltasql.mirror.engine import Target
from deltasql.mirror.publishing.publish_run import LEASE_SECONDS
from deltasql.mirror.repairing.repair import Leases, held_leases
from deltasql.mirror.validation.digests import commit_digests, differing
from deltasql.objectstore import ObjectStore
from deltasql.objectstore.names import checksum_name, lock_name
from deltasql.places import LOCAL, place_of
from deltasql.spec import codec
from deltasql.spec.deletion_vectors import InFile, locate
from deltasql.spec.paths import is_absolute, object_key

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.store.claims import DroppedRecord
    from deltasql.store.interface import LogStore

logger = logging.getLogger("deltasql.purge")

_BATCH: Final = 1000
# As many names of what stays are told; the rest is counted.
_MOST_TOLD: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table that was dropped and not purged: its rows, its files and its place are still held.

    `is_purging` says that a purge has begun, and was cut off or is under way.
    """

    table_id: int
    name: str
    location: str
    dropped_at: datetime
    is_purging: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What a purge did.

    `files` of data, deletion vectors and changes were deleted or gone already, and `log_files` of
    the log. `kept` are the first thousand of the `kept_count` objects that are still at the
    location: whatever the table's log does not know. `kept_because` says why nothing at all was
    deleted there, and `elsewhere` counts files that the log names by absolute paths: those belong
    to other tables.
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


def dropped(lake: Lake) -> list[DroppedTable]:
    """See `Lake.dropped`."""
    return [
        DroppedTable(
            table_id=record.table_id,
            name=record.name,
            location=record.location,
            dropped_at=from_ms(record.dropped_at),
            is_purging=record.is_purging,
        )
        for record in lake.store.dropped_tables()
    ]


def must_be_allowed(store: LogStore) -> None:
    """Raise `DatabaseError` if the database would not let us delete the rows in the end."""
    if not store.may_purge():
        raise DatabaseError(
            "permission denied: this role can't purge tables",
            cause="it may not delete the rows of the log; nothing was dropped or deleted",
            remedy="purge as the owner of the log's tables, or drop without purging",
        )


def must_not_be_ahead(lake: Lake, table_id: int, name: str, location: str) -> None:
    """Raise `MirrorError` if the log has versions that SQL does not know.

    Asked before anything is written down: the table can still be repaired, or adopted again.
    """
    own = [claim for claim in lake.store.claims(location) if claim.place == place_of(location)]
    if [claim.table_id for claim in own] != [table_id]:
        return  # what is there now is not this table, and stays
    newest = _newest(lake.store, table_id)
    path = LOG + commit_name(newest + 1)
    if lake.objects(location).head(path) is not None:
        raise MirrorError(
            f"{name} is not purged: its log has versions that SQL does not know",
            cause=f"SQL ends at version {newest}, and {path} exists: somebody else writes "
            "the table, or the database was restored to an earlier time",
            remedy="take them back with mirror.repair(take_back=True), or adopt the dropped table; "
            "or delete the foreign versions, then purge",
        )


def purge(lake: Lake, table: str | int) -> PurgeReport:
    """See `Lake.purge`."""
    store = lake.store
    must_be_allowed(store)
    record = _find(store, table)
    if record.read_only_reason is None and not record.is_purging:
        must_not_be_ahead(lake, record.table_id, record.name, record.location)
    _must_not_be_named_elsewhere(lake, record)
    begun = store.begin_purge(record.table_id)
    if begun is None:
        raise _gone(table)
    if begun.keeps_files is not None:
        report = PurgeReport(
            table=record.name,
            table_id=record.table_id,
            location=record.location,
            kept_because=begun.keeps_files,
        )
    else:
        report = _delete_files(lake, record)
    store.purge_table(record.table_id)
    facts = {"table": record.name, "files": report.files, "kept": report.kept_count}
    logger.info("purged", extra=facts)
    return report


def _must_not_be_named_elsewhere(lake: Lake, record: DroppedRecord) -> None:
    """Raise `ValidationError` if another table, such as a shallow clone, needs the files."""
    place = Place(record.location, is_local=place_of(record.location).startswith(LOCAL))
    needed = named_elsewhere(lake.store, place, but=record.table_id)
    if needed:
        raise ValidationError(
            f"{record.name} is not purged: other tables name {len(needed)} of its files",
            cause=f"shallow clones read {min(needed)} where it is",
            remedy="drop and purge the clones first, or leave the table dropped",
        )


def _delete_files(lake: Lake, record: DroppedRecord) -> PurgeReport:
    target = Target(record.table_id, record.name, record.location)
    objects = lake.objects(record.location)
    # No publish run may be under way: it would write log files again.
    with held_leases(lake.engine, lake.store, target) as leases:
        if lake.store.begin_purge(record.table_id) is None:
            # Somebody else was done while we waited; what is left of it are our leases.
            lake.store.purge_table(record.table_id)
            raise _gone(record.name)
        return _Purge(lake.store, objects, record, leases).run()


class _Purge:
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
        # Tables from before places were kept apart may lie within this one.
        self._within = tuple(
            claim.place.removeprefix(place)
            for claim in store.claims(record.location)
            if claim.table_id != record.table_id and claim.place.startswith(place)
        )
        self._folders: dict[str, bool] = {}
        self._newest = _newest(store, record.table_id)
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
            # Without a commit nothing proves that the rest of a log is the table's.
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
        """Why the log at the place is not the table's; its files may be those of that log."""
        if not self._stays_in(LOG):
            return "its _delta_log is a link that leads elsewhere"
        ahead = sorted(version for version in commits if version > self._newest)
        if ahead:
            return f"the log there has version {ahead[0]}, which SQL does not know"
        digests = commit_digests(self._store, self._record.table_id)
        known = commits & digests.keys()
        other = differing(self._objects, digests, known)
        if other:
            return f"the log there is another one: its version {other[0]} has other bytes"
        if commits and not known:
            return "the log there is another one: it has none of the table's commits"
        return None

    def _tidy_log(self) -> None:
        if not self._objects.is_local:
            return
        self._objects.remove_stale_temps(LOG.rstrip("/"), 0)
        self._objects.delete([lock_name(LOG + LAST_CHECKPOINT)])
        # A folder with that name would pass for a table.
        for folder in (LOG + SIDECARS, LOG):
            with suppress(OSError):
                Path(self._root, folder).rmdir()

    def _delete(self, keys: Iterable[str], *, with_checksums: bool = False) -> int:
        count = 0
        for batch in _batches(keys):
            # Whoever was silent for long has lost the place, perhaps to a new table.
            for lease in (self._leases.commits, self._leases.checkpoints):
                if not self._store.renew_lease(lease, LEASE_SECONDS):
                    raise MirrorError(
                        f"the purge of {self._record.name} was taken over",
                        cause="this process was silent for so long that another one went on",
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
        if is_absolute(path) or path.startswith("/"):
            self._elsewhere += 1
            return
        try:
            key = object_key(path)
        except LogFormatError:
            return
        if "" not in key.split("/") and not key.startswith(self._within) and self._stays_in(key):
            yield key

    def _stays_in(self, key: str) -> bool:
        """Whether no link of a local disk leads the key out of the root."""
        if not self._objects.is_local:
            return True
        folder = key.rpartition("/")[0]
        if folder not in self._folders:
            real = os.path.realpath(self._root + folder) + "/"
            self._folders[folder] = real.startswith(self._root)
        return self._folders[folder]

    def _log_names(self) -> dict[str, LogName]:
        """What is of a log there, by its key; a Hadoop checksum as that which it is of."""
        found = {}
        for item in self._objects.list(LOG.rstrip("/")):
            name = parse_name(item.path.removeprefix(LOG))
            if name is not None and name.kind is LogKind.HADOOP_CHECKSUM and name.of is not None:
                name = parse_name(name.of)
            if name is not None:
                found[item.path] = name
        return found

    def _log_files(self, log: dict[str, LogName]) -> list[str]:
        """The commits last: they prove, to whoever goes on after us, whose the rest is."""
        found = [path for path, name in log.items() if (name.version or 0) <= self._newest]
        return sorted(found, key=lambda path: log[path].kind is LogKind.COMMIT)

    def _left(self) -> tuple[tuple[str, ...], int]:
        told: list[str] = []
        count = 0
        for item in self._objects.list(""):
            if item.path.startswith(self._within):
                continue
            count += 1
            if len(told) < _MOST_TOLD:
                told.append(item.path)
        return tuple(told), count


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


def _newest(store: LogStore, table_id: int) -> int:
    found = store.history(table_id, limit=1)
    return found[0].version if found else -1


def _find(store: LogStore, table: str | int) -> DroppedRecord:
    found = [record for record in store.dropped_tables() if table in (record.table_id, record.name)]
    if not found:
        raise _gone(table)
    if len(found) > 1:
        ids = ", ".join(str(record.table_id) for record in found)
        raise ValidationError(
            f"{len(found)} dropped tables had the name {table}",
            cause=f"their ids are {ids}",
            remedy="name one of them by its id; lake.dropped() tells them apart",
        )
    return found[0]


def _gone(table: str | int) -> TableNotFoundError:
    return TableNotFoundError(
        f"there is no dropped table {table}",
        cause="it was never dropped, or it is purged already",
        remedy="see lake.dropped()",
    )
