"""A transaction for statements of Spark SQL: they commit to it, and it commits later.

To Delta, each statement creates a version of its own within the transaction: the cut's version plus
one for each statement. Nobody else sees these.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasql.errors import DeltaSqlError, ValidationError, VersionConflictError
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.lake.transaction import Transaction, TransactionTable
from deltasql.lake.writing import Write
from deltasql.log.conflict import Reads
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.state import TableState
from deltasql.spark.catalog.fitting import fitted, told_parameters
from deltasql.spark.catalog.places import is_managed
from deltasql.spark.catalog.row_ids import moves_new_rows
from deltasql.spark.native.file_transfer import with_row_ids
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)
from deltasql.spec.deletion_vectors import InFile, locate
from deltasql.store.interface import TxnRecord
from deltasql.store.mirroring.interface import Totals

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

# Delta's names for operations that change rows; all others must commit by themselves.
_ALLOWED = frozenset(
    (
        "WRITE", "DELETE", "UPDATE", "MERGE", "TRUNCATE", "Manual Update",
        "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT",
    )
)  # fmt: skip
_BLIND_KINDS = frozenset((AddFile, CommitInfo))
# For a read of more files than this, its condition counts instead.
_MOST_NAMED = 10_000


@dataclass(frozen=True, slots=True)
class View:
    """A table at a version, or inside a transaction after some of its statements."""

    version: int
    snapshot: Snapshot
    txns: Sequence[TxnRecord]
    domains: Mapping[str, str]
    # What the transaction has added to the sums over the files at its cut.
    more: Totals | None = None


@dataclass(frozen=True, slots=True)
class _Vectors:
    """A file of deletion vectors that a statement has written."""

    path: str


class Block:
    """An open transaction of a lake, for any thread of the driver."""

    def __init__(self, lake: Lake, transaction: Transaction) -> None:
        self.lake = lake
        self.id = transaction.id
        self._transaction = transaction
        self._lock = threading.RLock()
        self._views: dict[tuple[int, int], View] = {}
        self._held = ExitStack()
        self._held_ids: set[int] = set()

    def close(self) -> None:
        """End all reading."""
        self._held.close()

    # --- reading ------------------------------------------------------------------------

    def base(self, table: Table) -> int:
        """The version of a table at the cut."""
        return self._table(table).version

    def newest(self, table: Table) -> View:
        """The table at the cut, with what was written since."""
        with self._lock:
            mine = self._table(table)
            key = table.table_id, mine.version + mine.revision
            if key not in self._views:
                self._views[key] = self._view(mine)
            return self._views[key]

    def seen(self, table_id: int, version: int) -> View | None:
        """A version within the transaction that was requested before."""
        return self._views.get((table_id, version))

    def noted(
        self,
        table: Table,
        snapshot: Snapshot,
        predicate: Predicate | None,
        batches: Iterable[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """The files that a read opens; the read becomes part of the conflict check."""
        found: list[str] = []
        for batch in batches:
            if predicate is not None and len(found) <= _MOST_NAMED:
                found += batch.column("path").to_pylist()
            yield with_row_ids(batch) if snapshot.state.row_tracking else batch
        is_known = predicate is not None and len(found) <= _MOST_NAMED
        files = frozenset((path, "") for path in found) if is_known else None
        with self._lock:
            self._table(table).has_read(predicate, files)

    def _table(self, table: Table) -> TransactionTable:
        with self._lock:
            found = self._transaction.at(table)
            if table.table_id not in self._held_ids:
                self._held_ids.add(table.table_id)
                reading = self.lake.presence.reading(
                    table.table_id, found.version, "db.transaction()"
                )
                self._held.enter_context(reading)
            return found

    def _view(self, mine: TransactionTable) -> View:
        store, base = self.lake.store, mine.version
        version = base + mine.revision
        files = size = 0
        txns = {record.app_id: record for record in store.txns(mine.table_id, base)}
        snapshot = mine.base()
        domains = dict(snapshot.domains)
        for action in mine.staged:
            if isinstance(action, AddFile):
                files, size = files + 1, size + action.size
            elif isinstance(action, RemoveFile):
                files, size = files - 1, size - (action.size or 0)
            elif isinstance(action, Txn):
                txns[action.app_id] = TxnRecord(
                    action.app_id, action.version, action.last_updated, version
                )
            elif isinstance(action, DomainMetadata) and action.removed:
                domains.pop(action.domain, None)
            elif isinstance(action, DomainMetadata):
                domains[action.domain] = action.configuration
        more = Totals(base, files=files, size_bytes=size)
        return View(version, snapshot, tuple(txns.values()), domains, more)

    # --- writing ------------------------------------------------------------------------

    def stage(
        self, table: Table, actions: Sequence[Action], reads: Reads, question: Mapping[str, Any]
    ) -> int:
        """Keep what a statement would commit; returns its version within the transaction."""
        info = next((item for item in actions if isinstance(item, CommitInfo)), CommitInfo())
        operation = info.operation or "WRITE"
        if operation not in _ALLOWED or question.get("pinned"):
            raise refused(operation)
        with self._lock:
            mine = self._table(table)
            state = mine.base().state
            found = fitted(actions, state, high_water_mark=question["high_water_mark"])
            files = _new_files(found)
            try:
                self._check(mine, table, operation, found, reads, question["read_version"])
            except DeltaSqlError:
                table.abandon(mine.version)([file.path for file in files])
                raise
            mine.take(
                Write(
                    actions=found,
                    operation=operation,
                    operation_params=told_parameters(
                        info, managed=is_managed(self.lake, table.location)
                    ),
                    reads=reads,
                    files=files,
                )
            )
            return mine.version + mine.revision

    def _check(
        self,
        mine: TransactionTable,
        table: Table,
        operation: str,
        actions: Sequence[Action],
        reads: Reads,
        read_version: int,
    ) -> None:
        if read_version != mine.version + mine.revision and not self._may_follow(
            actions, reads, table, read_version
        ):
            raise VersionConflictError(
                f"another statement of this transaction has just changed {table.name}",
                cause=f"{operation} was prepared before it, in another thread",
                remedy="run it again",
            )
        if mine.base().state.row_tracking and moves_new_rows(mine.staged, actions):
            raise ValidationError(
                f"{operation} can't change rows that this transaction has inserted",
                cause=f"{table.name} tracks its rows, and they get their ids when it commits",
                remedy="write the rows as they should be, or change them after the commit",
            )

    def _may_follow(
        self, actions: Sequence[Action], reads: Reads, table: Table, read_version: int
    ) -> bool:
        """Whether a statement is an append to a table that still has the shape it saw."""
        seen = self.seen(table.table_id, read_version)
        return (
            reads.is_nothing
            and _BLIND_KINDS.issuperset(map(type, actions))
            and seen is not None
            and _shape(seen.snapshot.state) == _shape(self.newest(table).snapshot.state)
        )


def refused(operation: str) -> ValidationError:
    """The error for an operation that can't take part."""
    return ValidationError(
        f"{operation} can't be part of a transaction",
        cause="a transaction changes the rows of tables that exist: INSERT, UPDATE, DELETE, MERGE",
        remedy="run it before the transaction begins, or after it has ended",
    )


def _shape(state: TableState) -> tuple[Metadata, Protocol]:
    return state.metadata, state.protocol


def _new_files(actions: Sequence[Action]) -> list[AddFile | CdcFile | _Vectors]:
    """What a statement has written, without any file that may have been there before."""
    removed = [item for item in actions if isinstance(item, RemoveFile)]
    paths = {item.path for item in removed}
    found: list[AddFile | CdcFile | _Vectors] = [
        item
        for item in actions
        if isinstance(item, CdcFile) or (isinstance(item, AddFile) and item.path not in paths)
    ]
    known = _vector_files(removed)
    marked = [item for item in actions if isinstance(item, AddFile) and item.path in paths]
    return found + [_Vectors(path) for path in sorted(_vector_files(marked) - known)]


def _vector_files(actions: Sequence[AddFile | RemoveFile]) -> set[str]:
    places = [locate(item.deletion_vector) for item in actions if item.deletion_vector is not None]
    return {place.path for place in places if isinstance(place, InFile)}
