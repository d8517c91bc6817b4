"""A cheap check that the rows in SQL agree with the commits about a version.

It starts from the newest earlier version that was proven and replays the stored commits from there.
The number of files, their bytes, and a digest of everything that a checkpoint repeats must match
the rows. Code that writes state which others will trust, such as a checkpoint, checks first:
afterwards, what was written from damaged rows can't be told from the truth.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final, TypeAlias

from deltasql.errors import DamagedLogError, DatabaseError
from deltasql.log.file_sums import FileHashes, FileSum, FileSums
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, DomainMetadata, Metadata, Protocol, RemoveFile, Txn
from deltasql.store.checking.content import (
    OTHER_KINDS,
    file_hashes,
    hashes_of_add,
    other_hash,
    other_hashes,
)
from deltasql.store.checking.interface import Origin, TrustedVersion
from deltasql.store.checking.queries import content_rows
from deltasql.store.interface import CommitRecord, LogStore
from deltasql.store.rows import key_of, to_rows

logger = logging.getLogger("deltasql.mirror")

# How many files are followed at a time, and how many versions.
_MOST_FILES: Final = 100_000
_MOST_VERSIONS: Final = 2_000
_OTHERS: Final = (Txn, DomainMetadata, Metadata, Protocol)


# Called again and again while something takes long: it raises if that should end.
Check: TypeAlias = Callable[[], None]


def _go_on() -> None:
    """Nobody interrupts it."""


def live_sums(log: LogStore, table_id: int, version: int, *, check: Check = _go_on) -> FileSums:
    """Sums over the rows: over the files that are live at a version, and over all other actions."""
    found = FileSum(other_sums(log, table_id, version))
    for batch in log.live_keys(table_id, version):
        check()
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        found.add_many(map(file_hashes, rows))
    return found.value()


SumRows: TypeAlias = Callable[[LogStore, int, int], FileSums]


def other_sums(log: LogStore, table_id: int, version: int) -> FileSums:
    """The same sums, over the other actions alone."""
    found = FileSum()
    for kind in OTHER_KINDS:
        for row in log.other_rows(table_id, kind, version):
            found.add_other(other_hash(kind, row))
    return found.value()


def first_trusted(log: LogStore, table_id: int) -> TrustedVersion:
    """Where replay starts: with nothing, or with the state that an adopted table began with.

    A table adopted before that state was recorded is trusted as it is.
    """
    head = log.head(table_id)
    earliest = 0 if head is None else head.earliest_version
    if not begins_with_state(log, table_id, earliest):
        return TrustedVersion(table_id, Origin.ADOPTED, -1, FileSums())
    for known in log.trusted(table_id):
        if known.origin is Origin.ADOPTED and known.version == earliest:
            return known
    return trust_first_state(log, table_id, earliest)


def begins_with_state(log: LogStore, table_id: int, earliest: int) -> bool:
    """Whether the oldest readable version was adopted from a checkpoint, not from commits."""
    if earliest > 0:
        return True
    first = next(iter(log.commits(table_id, after=-1, upto=0)), None)
    return first is not None and not first.body


def trust_first_state(
    log: LogStore, table_id: int, earliest: int, *, files: FileSums | None = None
) -> TrustedVersion:
    """Record what the rows say about the state that an adopted table began with.

    Whoever has made the rows of its files may know the sums over them already.
    """
    if files is None:
        sums = live_sums(log, table_id, earliest)
    else:
        sums = files.with_others_of(other_sums(log, table_id, earliest))
    found = TrustedVersion(table_id, Origin.ADOPTED, earliest, sums)
    _record(log, found)
    return found


def _record(log: LogStore, found: TrustedVersion) -> None:
    try:
        log.trust(found)
    except DatabaseError as error:
        # Others begin where the last who might write it down has ended.
        logger.info("what was proven of version %s is not recorded: %s", found.version, error.cause)


def must_be_sound(
    log: LogStore,
    table_id: int,
    version: int,
    *,
    proven: Sequence[TrustedVersion] = (),
    sums: SumRows | None = None,
    check: Check = _go_on,
) -> TrustedVersion | None:
    """Raise `DamagedLogError` unless the rows agree with the commits about a version.

    Returns what was proven, to be passed as `proven` later; None for a version that is too old to
    be replayed. `sums` does what `live_sums` does, and is used instead.
    """
    sums = sums or partial(live_sums, check=check)
    first = first_trusted(log, table_id)
    if version < first.version:
        return None
    known = [*log.trusted(table_id), *proven, first]
    # Never backwards: only the rows themselves know what a later version ended.
    nearest = max(
        (item for item in known if item.version <= version), key=lambda item: item.version
    )
    actual = sums(log, table_id, version)
    if follow(log, nearest, version, check=check) != actual:
        # The recorded sums may be damaged themselves; a replay from the first version decides.
        expected = follow(log, first, version, check=check)
        if expected != actual:
            if first_trusted(log, table_id) != first:
                # Older versions have expired in the meantime, along with rows that only they
                # needed.
                return must_be_sound(log, table_id, version, proven=proven, sums=sums, check=check)
            raise damaged(log, table_id, version, expected, actual)
    found = TrustedVersion(table_id, Origin.CHECKPOINT, version, actual)
    if version > max(item.version for item in known):
        _record(log, found)
    return found


def follow(
    log: LogStore, start: TrustedVersion, version: int, *, check: Check = _go_on
) -> FileSums:
    """The sums at a version, from those of an earlier one and the commits between them."""
    found = FileSum(start.sums)
    after = start.version
    for window in _windows(log.commits(start.table_id, after=after, upto=version), check):
        for row in content_rows(log.ended_keys(start.table_id, after=after, upto=window.last)):
            # A file that ended without a commit saying so is still expected.
            if (row.path_key, row.dv_key) in window.touched:
                found.drop(file_hashes(row))
        for added in window.touched.values():
            if added is not None:
                found.add(added)
        for hashed in window.others:
            found.add_other(hashed)
        after = window.last
    return found.value()


@dataclass(slots=True)
class _Window:
    """A stretch of versions: the last one, the files they touch with the hashes of those left live,
    and the hashes of all other actions.
    """

    last: int = -1
    versions: int = 0
    touched: dict[tuple[bytes, bytes], FileHashes | None] = field(default_factory=dict)
    others: list[bytes] = field(default_factory=list)


def _windows(commits: Iterator[CommitRecord], check: Check) -> Iterator[_Window]:
    window = _Window()
    for record in commits:
        check()
        actions = codec.decode_commit(record.body, source=f"version {record.version}")
        # Removes come before adds, whatever their order in the file.
        for gone in actions:
            if isinstance(gone, RemoveFile):
                window.touched[key_of(gone.path), key_of(gone.dv_id)] = None
        for added in actions:
            if isinstance(added, AddFile):
                key = key_of(added.path), key_of(added.dv_id)
                window.touched[key] = hashes_of_add(added)
        others = [item for item in actions if isinstance(item, _OTHERS)]
        if others:
            window.others += other_hashes(record.version, to_rows(others, ()))
        window.last, window.versions = record.version, window.versions + 1
        if len(window.touched) >= _MOST_FILES or window.versions >= _MOST_VERSIONS:
            yield window
            window = _Window()
    if window.versions:
        yield window


def damaged(
    log: LogStore, table_id: int, version: int, expected: FileSums, actual: FileSums
) -> DamagedLogError:
    """The error for rows that differ from the commits."""
    names = (record.name for record in log.tables() if record.table_id == table_id)
    table = next(names, f"table {table_id}")
    return DamagedLogError(
        f"{table}: the rows in SQL are not those of its commits at version {version}",
        cause=f"the commits leave {_told(expected)}, the rows {_told(actual)}",
        remedy="lake.check() shows what is damaged; lake.rebuild() rebuilds the rows from the "
        "commits",
        table=table,
        version=version,
    )


def _told(sums: FileSums) -> str:
    digest = sha256(sums.digest).hexdigest()[:8]
    return f"{sums.files} files of {sums.size_bytes} bytes (digest {digest})"
