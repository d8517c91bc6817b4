"""The rows that a table's commits must have left, followed version by version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltasql.integrity.findings import Kind
from deltasql.integrity.fingerprints import added_print, other_print, removed_print, unknown_row
from deltasql.log.file_sums import Digest, FileSum, FileSums
from deltasql.mirror.checkpoints.content import TableContent
from deltasql.spec.actions import Metadata, Protocol
from deltasql.store.checking.content import (
    OTHER_KINDS,
    hashes_of_row,
    other_hash,
    other_hashes,
)
from deltasql.store.checking.scratch import Scratch
from deltasql.store.rows import ADD_COLUMNS, CommitRows, Row

OTHERS: Final = {
    "txns": Kind.TXN,
    "domains": Kind.DOMAIN,
    "cdc": Kind.CHANGE_FILE,
    "metadata": Kind.METADATA,
    "protocol": Kind.PROTOCOL,
}
# Where the name is that a row goes by, behind its version.
_LABEL: Final = {"txns": 2, "domains": 2, "cdc": 1}
# Where a row of `TrustLog.file_rows` has what is looked at: its version comes first.
_REMOVED: Final = 1 + len(ADD_COLUMNS)
PATH, _KEY, _VALUES = (
    1 + ADD_COLUMNS.index(name) for name in ("path", "partition_key", "partition_values")
)


class ExpectedRows:
    """Takes commits in, and keeps the fingerprints of their rows in a scratch database."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._sum = FileSum()
        self.partitions: dict[int, str] = {}
        self._txns: dict[str, Row] = {}
        self._domains: dict[str, Row] = {}

    def sums(self) -> FileSums:
        """The sums over the files that are live now, and what is no file."""
        return self._sum.value()

    def begin_with_other(self, kind: str, row: Row) -> None:
        """Begin with a row that is no file's."""
        if kind in OTHER_KINDS:
            self._sum.add_other(other_hash(kind, row))
        self._keep(kind, row)

    def content(self, metadata: Metadata | None, protocol: Protocol | None) -> TableContent:
        """What a checkpoint has to say now."""
        return TableContent(
            sums=self.sums(),
            metadata=metadata,
            protocol=protocol,
            txns={name: (row[3], row[4]) for name, row in self._txns.items()},
            domains={name: row[3] for name, row in self._domains.items() if not row[4]},
        )

    def _keep(self, kind: str, row: Row) -> None:
        """Keep what is the newest of an application or a domain."""
        newest = {"txns": self._txns, "domains": self._domains}.get(kind)
        if newest is not None and (row[2] not in newest or newest[row[2]][0] <= row[0]):
            newest[row[2]] = row

    def begin_with(self, rows: Iterable[Row], version: int) -> bytes:
        """Begin with what rows say of a version; returns a digest of all of them up to it."""
        digest = Digest()
        for row in rows:
            added = added_print(row)
            if is_live(row, version):
                digest.add(added)
                self._add(row, added)
                if row[_VALUES] != "{}":
                    self.partitions[row[_KEY]] = row[_VALUES]
            elif is_dead(row, version):
                digest.add(removed_print(added, row[_REMOVED:]))
        return digest.value()

    def take(self, version: int, commit: CommitRows) -> None:
        """Take in a commit, or a piece of it; removes go before adds."""
        for remove in commit.removes:
            self._remove(version, remove)
        for add in commit.adds:
            row = (version, *add)
            self._restate(version, row)
            self._add(row, added_print(row))
        for kind in OTHERS:
            for other in getattr(commit, kind):
                row = (version, *other)
                self._scratch.note(kind, version, label_of(kind, row), other_print(row))
                self._keep(kind, row)
        for hashed in other_hashes(version, commit):
            self._sum.add_other(hashed)
        self.partitions.update(commit.partitions)

    def _add(self, row: Row, fingerprint: bytes) -> None:
        file = hashes_of_row(row[1:])
        self._sum.add(file)
        self._scratch.add(key_of_row(row), fingerprint, file=file, version=row[0], path=row[PATH])

    def _restate(self, version: int, row: Row) -> None:
        key = key_of_row(row)
        old = self._scratch.take(key)
        if old is not None:
            fingerprint, file, path = old
            self._sum.drop(file)
            ended = removed_print(fingerprint, (version, None, None, None))
            self._scratch.end(key, version, ended, path)

    def _remove(self, version: int, remove: Row) -> None:
        path_key, dv_key, path, stamp, change, _, action = remove
        old = self._scratch.take(path_key + dv_key)
        if old is None:
            fingerprint = added_print(unknown_row(remove))
        else:
            fingerprint, file, _ = old
            self._sum.drop(file)
        ended = removed_print(fingerprint, (version, stamp, change, action))
        self._scratch.end(path_key + dv_key, version, ended, path)


def key_of_row(row: Row) -> bytes:
    """The key of a file's row, whose version comes first."""
    key: bytes = row[1] + row[2]
    return key


def label_of(kind: str, row: Row) -> str:
    """What a row that is no file's goes by."""
    place = _LABEL.get(kind)
    return "" if place is None else str(row[place])


def is_live(row: Row, version: int) -> bool:
    """Whether a row of `TrustLog.file_rows` is a file that is live at a version."""
    added, removed = row[0], row[_REMOVED]
    return added is not None and added <= version and (removed is None or removed > version)


def is_dead(row: Row, version: int) -> bool:
    """Whether it is a file that was removed or restated up to a version."""
    return row[_REMOVED] is not None and bool(row[_REMOVED] <= version)


def removal_of(row: Row) -> Row:
    """How the file of a row ended."""
    return row[_REMOVED:]
