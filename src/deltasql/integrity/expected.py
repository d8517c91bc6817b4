"""The rows that a table's commits must have left, followed version by version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltasql.integrity.findings import Kind
from deltasql.integrity.fingerprints import added_print, other_print, removed_print, unknown_add
from deltasql.log.file_sums import Digest, FileSum, FileSums
from deltasql.mirror.checkpoints.content import TableContent
from deltasql.spec.actions import Metadata, Protocol
from deltasql.store.checking.content import (
    OTHER_KINDS,
    hashes_of_row,
    other_hash,
    other_hashes,
)
from deltasql.store.checking.interface import FileRow, Removal
from deltasql.store.checking.scratch import Scratch
from deltasql.store.rows import (
    CDC_COLUMNS,
    DOMAIN_COLUMNS,
    TXN_COLUMNS,
    AddRow,
    CommitRows,
    DomainRow,
    RemoveRow,
    Row,
    TxnRow,
)

OTHERS: Final = {
    "txns": Kind.TXN,
    "domains": Kind.DOMAIN,
    "cdc": Kind.CHANGE_FILE,
    "metadata": Kind.METADATA,
    "protocol": Kind.PROTOCOL,
}
# The position of the name by which a row is known, after its version.
_LABEL: Final = {
    "txns": 1 + TXN_COLUMNS.index("app_id"),
    "domains": 1 + DOMAIN_COLUMNS.index("domain"),
    "cdc": 1 + CDC_COLUMNS.index("path"),
}


class ExpectedRows:
    """Takes in commits, and keeps the fingerprints of their rows in a scratch database."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._sum = FileSum()
        self.partitions: dict[int, str] = {}
        # By application and by domain: the newest, and its version.
        self._txns: dict[str, tuple[int, TxnRow]] = {}
        self._domains: dict[str, tuple[int, DomainRow]] = {}

    def sums(self) -> FileSums:
        """The sums over the files that are live now, and over rows that don't belong to files."""
        return self._sum.value()

    def begin_with_other(self, kind: str, row: Row) -> None:
        """Begin with a row that does not belong to a file."""
        if kind in OTHER_KINDS:
            self._sum.add_other(other_hash(kind, row))
        self._keep(kind, row)

    def content(self, metadata: Metadata | None, protocol: Protocol | None) -> TableContent:
        """What a checkpoint must contain now."""
        return TableContent(
            sums=self.sums(),
            metadata=metadata,
            protocol=protocol,
            txns={
                name: (txn.txn_version, txn.last_updated) for name, (_, txn) in self._txns.items()
            },
            domains={
                name: item.configuration
                for name, (_, item) in self._domains.items()
                if not item.removed
            },
        )

    def _keep(self, kind: str, row: Row) -> None:
        """Keep the newest row of an application or a domain; its version comes first."""
        version, *columns = row
        if kind == "txns":
            txn = TxnRow(*columns)
            if txn.app_id not in self._txns or self._txns[txn.app_id][0] <= version:
                self._txns[txn.app_id] = version, txn
        elif kind == "domains":
            item = DomainRow(*columns)
            if item.domain not in self._domains or self._domains[item.domain][0] <= version:
                self._domains[item.domain] = version, item

    def begin_with(self, rows: Iterable[FileRow], version: int) -> bytes:
        """Begin with the rows of a version; returns a digest of all of them up to it."""
        digest = Digest()
        for row in rows:
            added = added_print(row.version, row.add)
            if is_live(row, version):
                digest.add(added)
                self._add(row.version, row.add, added)
                if row.add.partition_values != "{}":
                    self.partitions[row.add.partition_key] = row.add.partition_values
            elif is_dead(row, version):
                digest.add(removed_print(added, row.removal))
        return digest.value()

    def take(self, version: int, commit: CommitRows) -> None:
        """Take in a commit, or a piece of one; removes go before adds."""
        for remove in commit.removes:
            self._remove(version, remove)
        for add in commit.adds:
            self._restate(version, add)
            self._add(version, add, added_print(version, add))
        for kind in OTHERS:
            for other in getattr(commit, kind):
                row = (version, *other)
                self._scratch.note(kind, version, label_of(kind, row), other_print(row))
                self._keep(kind, row)
        for hashed in other_hashes(version, commit):
            self._sum.add_other(hashed)
        self.partitions.update(commit.partitions)

    def _add(self, version: int | None, add: AddRow, fingerprint: bytes) -> None:
        file = hashes_of_row(add)
        self._sum.add(file)
        assert version is not None, "whatever is live was added"
        key = add.path_key + add.dv_key
        self._scratch.add(key, fingerprint, file=file, version=version, path=add.path)

    def _restate(self, version: int, add: AddRow) -> None:
        key = add.path_key + add.dv_key
        old = self._scratch.take(key)
        if old is not None:
            self._sum.drop(old.file)
            ended = removed_print(old.fingerprint, Removal(version, None, None, None))
            self._scratch.end(key, version, ended, old.path)

    def _remove(self, version: int, remove: RemoveRow) -> None:
        key = remove.path_key + remove.dv_key
        old = self._scratch.take(key)
        if old is None:
            fingerprint = added_print(None, unknown_add(remove))
        else:
            fingerprint = old.fingerprint
            self._sum.drop(old.file)
        removal = Removal(version, remove.deletion_timestamp, remove.data_change, remove.action)
        self._scratch.end(key, version, removed_print(fingerprint, removal), remove.path)


def label_of(kind: str, row: Row) -> str:
    """The name of a row that does not belong to a file."""
    place = _LABEL.get(kind)
    return "" if place is None else str(row[place])


def is_live(row: FileRow, version: int) -> bool:
    """Whether a file is live at a version."""
    added, removed = row.version, row.removal.version
    return added is not None and added <= version and (removed is None or removed > version)


def is_dead(row: FileRow, version: int) -> bool:
    """Whether a file was removed or restated up to a version."""
    return row.removal.version is not None and row.removal.version <= version
