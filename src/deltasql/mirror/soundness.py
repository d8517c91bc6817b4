"""Whether the live files in SQL are those that the commits have left: a cheap check.

From the newest version that was proven, the stored commits say which files came and went; their
number, their bytes and a digest of them must be what the rows say. Whoever writes state to where
it is believed, a checkpoint for one, asks first: what is written from damaged rows can't be told
from the truth afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltasql.errors import DamagedLogError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, RemoveFile
from deltasql.store.interface import CommitRecord, LogStore
from deltasql.store.rows import key_of
from deltasql.store.trust_log import Origin, TrustedVersion

# How many files are followed at a time, and how many versions.
_MOST_FILES: Final = 100_000
_MOST_VERSIONS: Final = 2_000


def live_sums(log: LogStore, table_id: int, version: int) -> FileSums:
    """The sums over the files that are live at a version, by the rows."""
    found = FileSum()
    for batch in log.live_keys(table_id, version):
        found.add_many(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return found.value()


def first_trusted(log: LogStore, table_id: int) -> TrustedVersion:
    """What replay begins with: nothing, or the state that an adopted table began with.

    Of a table that was adopted before this was written down, what is there is believed.
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


def trust_first_state(log: LogStore, table_id: int, earliest: int) -> TrustedVersion:
    """Write down what the rows say of the state that an adopted table began with."""
    sums = live_sums(log, table_id, earliest)
    found = TrustedVersion(table_id, Origin.ADOPTED, earliest, sums)
    log.trust(found)
    return found


def must_be_sound(log: LogStore, table_id: int, version: int) -> None:
    """Raise `DamagedLogError` unless the files live at a version are those of its commits."""
    first = first_trusted(log, table_id)
    if version < first.version:
        # Older than anything that can be replayed.
        return
    known = [*log.trusted(table_id), first]
    nearest = min(known, key=lambda item: abs(item.version - version))
    actual = live_sums(log, table_id, version)
    if follow(log, nearest, version) != actual:
        # What was written down may be damaged itself; the commits from the first on decide.
        expected = follow(log, first, version)
        if expected != actual:
            raise damaged(log, table_id, version, expected, actual)
    if version > max(item.version for item in known):
        log.trust(TrustedVersion(table_id, Origin.CHECKPOINT, version, actual))


def follow(log: LogStore, start: TrustedVersion, version: int) -> FileSums:
    """The sums at a version, from those of another one and the commits between."""
    found = FileSum(start.sums)
    after, last = sorted((start.version, version))
    come, gone = (found.add, found.drop) if start.version == after else (found.drop, found.add)
    for upto, touched in _windows(log.commits(start.table_id, after=after, upto=last)):
        for path_key, dv_key, size in log.ended_keys(start.table_id, after=after, upto=upto):
            # What ended without a commit that says so is still expected.
            if (path_key, dv_key) in touched:
                gone(path_key, dv_key, size)
        for (path_key, dv_key), added in touched.items():
            if added is not None:
                come(path_key, dv_key, added)
        after = upto
    return found.value()


_Touched = dict[tuple[bytes, bytes], int | None]


def _windows(commits: Iterator[CommitRecord]) -> Iterator[tuple[int, _Touched]]:
    """Stretches of versions: the last one, and the files they touched with the size of those
    that they leave live.
    """
    touched: _Touched = {}
    last, versions = -1, 0
    for record in commits:
        actions = codec.decode_commit(record.body, source=f"version {record.version}")
        # Removes go before adds, whatever their order in the file.
        for gone in actions:
            if isinstance(gone, RemoveFile):
                touched[key_of(gone.path), key_of(gone.dv_id)] = None
        for added in actions:
            if isinstance(added, AddFile):
                touched[key_of(added.path), key_of(added.dv_id)] = added.size
        last, versions = record.version, versions + 1
        if len(touched) >= _MOST_FILES or versions >= _MOST_VERSIONS:
            yield last, touched
            touched, versions = {}, 0
    if versions:
        yield last, touched


def damaged(
    log: LogStore, table_id: int, version: int, expected: FileSums, actual: FileSums
) -> DamagedLogError:
    """The error for rows that are not what the commits say."""
    names = (record.name for record in log.tables() if record.table_id == table_id)
    table = next(names, f"table {table_id}")
    return DamagedLogError(
        f"{table}: the files in SQL are not those of its commits at version {version}",
        cause=f"the commits leave {_told(expected)}, the rows {_told(actual)}",
        remedy="lake.check() says what is damaged; lake.rebuild() makes the rows anew from the "
        "commits",
        table=table,
        version=version,
    )


def _told(sums: FileSums) -> str:
    return f"{sums.files} files of {sums.size_bytes} bytes (digest {sums.digest.hex()[:8]})"
