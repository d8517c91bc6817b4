"""One table of a transaction: pinned at the cut, with the transaction's own writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltasql.commit import CommitRequest
from deltasql.commit.discarding import Abandon
from deltasql.data.writing.change_files import ChangeWriter
from deltasql.data.writing.properties import FileOptions, WriterProperties
from deltasql.data.writing.writer import NewFile
from deltasql.lake import writing
from deltasql.lake.arguments import checked
from deltasql.lake.dml.verbs import TransactionVerbs
from deltasql.lake.dml.words import one_of, schema_mode_of
from deltasql.lake.scan import Scan
from deltasql.lake.snapshot import FileKey, Overlay, Snapshot
from deltasql.lake.table import Table
from deltasql.lake.transaction.infos import joined_info
from deltasql.log.conflict import Reads
from deltasql.log.feed import FeedDebt
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.validation.files import added_and_removed
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


@checked
class TransactionTable(TransactionVerbs):
    """A table inside a transaction: pinned at the cut, with the transaction's own writes."""

    def __init__(
        self, lake: Lake, table: Table, version: int, must_be_open: Callable[[], None]
    ) -> None:
        self._must_be_open = must_be_open
        self._lake = lake
        self._table = table
        self._version = version
        self._overlay = Overlay()
        self._removes: list[RemoveFile] = []
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        # Keyed by what a commit may have only one of: the last one counts.
        self._others: dict[object, Action] = {}
        self._info: CommitInfo | None = None
        self._names_removes = False
        self._written: list[NewFile] = []
        self._reads = Reads.nothing()
        self._operations: list[tuple[str, Mapping[str, Any]]] = []
        self.feed_debt = FeedDebt()

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    @property
    def location(self) -> str:
        """Where the table's files are."""
        return self._table.location

    @property
    def objects(self) -> ObjectStore:
        """The object store at the table's location."""
        return self._table.objects

    @property
    def target(self) -> Target:
        """The table as the mirror knows it."""
        return self._table.target

    @property
    def version(self) -> int:
        """The version that the transaction reads."""
        return self._version

    @property
    def table_id(self) -> int:
        """The table's id in SQL."""
        return self._table.table_id

    @property
    def revision(self) -> int:
        """How often the transaction has written to the table."""
        return len(self._operations)

    @property
    def staged(self) -> Sequence[Action]:
        """What is to be committed so far, except metadata and protocol."""
        return [*self._others.values(), *self._removes, *self._overlay.adds.values()]

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._operations)

    def snapshot(self) -> Snapshot:
        """The table at the cut, with this transaction's writes.

        What is read of its files and rows is part of the conflict check.
        """
        return self.base().noting(self.has_read)

    def base(self) -> Snapshot:
        """The same for a caller who tells what it has read."""
        found = self._pinned()
        self._table.must_be_current(found.state)
        return found

    def _pinned(self) -> Snapshot:
        # A scan that was begun before a write must not show that write.
        overlay = self._overlay.copy()
        found = self._table.snapshot_with(version=self._version, overlay=overlay)
        if self._metadata is None and self._protocol is None:
            return found
        state = replace(
            found.state,
            metadata=self._metadata or found.metadata,
            protocol=self._protocol or found.protocol,
        )
        return found.with_state(state)

    def scan(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """The rows, lazily; what is read here is part of the conflict check."""
        self._must_be_open()
        snapshot = self.base()
        condition = snapshot.condition(where)
        # Of a condition, the log checks what it understands.
        self.has_read(None if condition is None else condition.predicate)
        return snapshot.scan(where, columns, limit)

    def has_read(
        self, predicate: Predicate | None, files: frozenset[FileKey] | None = None
    ) -> None:
        """Make the rows of a bound predicate, by default all, part of the conflict check.

        `files` are those that may hold such rows, where they are known.
        """
        self.rests_on(Reads.all() if predicate is None else Reads.where(predicate, files=files))

    def rests_on(self, reads: Reads) -> None:
        """Make what was read part of the conflict check; so is not to have found a row."""
        self._reads = self._reads.joined(reads)

    def append(
        self,
        data: Any,
        *,
        schema_mode: str | None = None,
        merge_schema: bool = False,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> None:
        """Add rows when the transaction commits; `merge_schema` adds their new columns too."""
        self._must_be_open()
        abandon = self._table.abandon(self._version)
        self.take(
            writing.append(
                self.objects,
                self._pinned().state,
                data,
                schema_mode=schema_mode_of(schema_mode, merge_schema=merge_schema),
                memory_limit=self.memory_limit,
                options=FileOptions(writer, target_file_size),
                abandon=abandon,
            )
        )

    def overwrite(
        self,
        data: Any,
        where: str | None = None,
        *,
        replace_where: str | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> None:
        """Replace the rows that satisfy `where`, by default all, with new ones."""
        self._must_be_open()
        abandon = self._table.abandon(self._version)
        self.take(
            writing.overwrite(
                self.objects,
                self._pinned(),
                data,
                where=one_of(where, replace_where),
                memory_limit=self.memory_limit,
                options=FileOptions(writer, target_file_size),
                abandon=abandon,
            )
        )

    def commit(
        self,
        actions: Sequence[Action | Mapping[str, Any]],
        operation: str = "WRITE",
        operation_params: Mapping[str, Any] | None = None,
        reads: str | None = None,
    ) -> None:
        """Commit actions together with the rest of the transaction."""
        parsed = [codec.parse_action(action) for action in actions]
        self._names_removes |= any(isinstance(item, RemoveFile) for item in parsed)
        self.take(
            writing.Write(
                actions=parsed,
                operation=operation,
                operation_params=operation_params or {},
                reads=self._table.parse_reads(reads),
            )
        )

    def request(
        self,
        transaction_id: str,
        txn: Sequence[Action] = (),
        told: Mapping[str, Any] | None = None,
    ) -> CommitRequest:
        """Everything that was written, as one commit with a complete change feed."""
        self._pay_feed_debt()
        for info in writing.commit_info({}, told):
            self._tell(info)
        operation, params = self._operations[0]
        if len(self._operations) > 1:
            names = [name for name, _ in self._operations]
            operation, params = "TRANSACTION", {"operations": names}
        changed = [
            item for item in (self._info, self._protocol, self._metadata) if item is not None
        ]
        for action in txn:
            self._others[_only_one(action)] = action
        request = self._table.request(
            [*changed, *self.staged],
            operation=operation,
            operation_params=params,
            reads=self._reads,
            read_version=self._version,
            transaction_id=transaction_id,
            names_removes=self._names_removes,
        )
        if self._info is not None and self._info.engine_info:
            request.engine = f"{self._info.engine_info} {request.engine}"
        return request

    def abandon(self, after: int) -> Abandon:
        """A function that deletes files, written from now on, that belong to no commit."""
        return self._table.abandon(after)

    def must_be_open(self) -> None:
        """Raise unless the transaction is open."""
        self._must_be_open()

    @property
    def memory_limit(self) -> str:
        """How much memory the engine may use for an operation."""
        return self._lake.settings.duckdb_memory_limit

    def discard_files(self, request: CommitRequest | None = None) -> None:
        """Delete the files that were written, unless `request` was sent and committed."""
        paths = [file.path for file in self._written]
        if request is not None:
            paths += request.rebased_files
        if paths:
            self._lake.discarder.discard(
                self.location,
                paths,
                after=self._version,
                table_id=self._table.table_id,
                request=request,
            )

    def take(self, write: writing.Write) -> None:
        """Keep what was written, for the commit."""
        self._must_be_open()
        self._take(write)

    def _take(self, write: writing.Write) -> None:
        restated = self._restated(write.actions)
        self.feed_debt.note(write.actions)
        self._written += write.files
        self.rests_on(write.reads)
        self._operations.append((write.operation, write.operation_params))
        for action in (*write.actions, *writing.commit_info(write.metrics)):
            if isinstance(action, AddFile):
                self._add(action)
            elif isinstance(action, RemoveFile):
                key = (action.path, action.dv_id)
                # A file that this transaction added itself was never in the table.
                if self._overlay.adds.pop(key, None) is None or key in restated:
                    self._overlay.removes.add(key)
                    self._removes.append(action)
            elif isinstance(action, Metadata):
                self._metadata = action
            elif isinstance(action, Protocol):
                self._protocol = action
            elif isinstance(action, CommitInfo):
                self._tell(action)
            else:
                self._others[_only_one(action)] = action

    def _tell(self, info: CommitInfo) -> None:
        self._info = info if self._info is None else joined_info(self._info, info)

    def _add(self, add: AddFile) -> None:
        key = (add.path, add.dv_id)
        if key in self._overlay.removes:
            # Removed before, and back again: one commit can record only the last of the two.
            self._overlay.removes.remove(key)
            self._removes = [item for item in self._removes if (item.path, item.dv_id) != key]
        self._overlay.adds[key] = add

    def _restated(self, actions: Sequence[Action]) -> set[FileKey]:
        """Files to be removed that this transaction added again, but that existed before it."""
        removed = {(item.path, item.dv_id) for item in actions if isinstance(item, RemoveFile)}
        for item in actions if removed else ():
            if isinstance(item, AddFile) and (item.path, item.dv_id) in removed:
                raise added_and_removed(item.path)
        new = {file.path for file in self._written}
        asked = {key for key in removed & self._overlay.adds.keys() if key[0] not in new}
        if not asked:
            return set()
        return self._table.base(self._version).having(asked)

    def _pay_feed_debt(self) -> None:
        debt = self.feed_debt
        if not debt.is_due:
            return
        writer = ChangeWriter(
            self.objects, self._pinned().state, new_id=writing.new_id, now_ms=writing.now_ms
        )
        files = writer.write(
            ("insert", writer.rows(debt.added)), ("delete", writer.rows(debt.removed))
        )
        debt.settle()
        self._take(writing.Write(actions=files, operation="CHANGES", files=files))


def _only_one(action: Action) -> object:
    """A key for what one commit may say only once."""
    if isinstance(action, Txn):
        return "txn", action.app_id
    if isinstance(action, DomainMetadata):
        return "domain", action.domain
    return id(action)
