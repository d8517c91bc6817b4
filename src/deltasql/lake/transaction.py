"""Several tables in one transaction: all of it or none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deltasql.commit import CommitRequest
from deltasql.commit.commit_logging import after_commit
from deltasql.commit.discarding import Abandon
from deltasql.data.writing.change_files import ChangeWriter
from deltasql.data.writing.writer import NewFile
from deltasql.errors import (
    CommitStateUnknownError,
    DeltaSqlError,
    StoreError,
    TableNotFoundError,
    ValidationError,
)
from deltasql.lake import writing
from deltasql.lake.maintaining import must_be_ready
from deltasql.lake.snapshot import FileKey, Overlay, Scan, Snapshot
from deltasql.lake.table import Table
from deltasql.lake.writing import txn_actions
from deltasql.log.conflict import Reads
from deltasql.log.feed import FeedDebt
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.validation.files import added_and_removed
from deltasql.mirror.engine import Target
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from deltasql.store.interface import LockedLog
from deltasql.store.statements import refuse_transaction_control

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


@dataclass(slots=True)
class Statement:
    """A statement of the application's own that a transaction runs when it commits.

    `rows` is what it returned, once the transaction has committed.
    """

    text: str
    parameters: Sequence[Any] = ()
    rows: Sequence[tuple[Any, ...]] | None = None


class Transaction:
    """Reads from one consistent cut, writes that become visible together.

    Used as a context manager: commits at the end of the block, and leaves nothing behind
    when the block raises.
    """

    def __init__(
        self, lake: Lake, *, app_id: str | None = None, app_version: int | None = None
    ) -> None:
        self._lake = lake
        self._cut: dict[int, int] | None = None
        self._tables: dict[int, TransactionTable] = {}
        self._statements: list[Statement] = []
        self._txn = txn_actions(app_id, app_version)
        self._is_open = self._is_used = False
        self._present = ExitStack()
        self.id = writing.new_id()
        self.versions: Mapping[str, int] = {}

    def __enter__(self) -> Self:
        if self._is_used:
            raise _misused("the transaction was used before", "it ends with its with block")
        self._is_open = self._is_used = True
        self._present.enter_context(self._lake.presence.writing())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        with self._present:
            self._commit() if kind is None else self._discard_files()

    def sql_execute(self, statement: str, parameters: Sequence[Any] = ()) -> Statement:
        """Run a statement on the application's own tables, in the lake's database.

        It runs when the transaction commits, in the same database transaction, after the
        tables of the lake: all of it counts, or none. It is not run when `app_id` and
        `app_version` say that the transaction has happened already. What ends or steers a
        transaction, such as COMMIT, is refused.
        """
        self._must_be_open()
        refuse_transaction_control(statement)
        wanted = Statement(statement, parameters)
        self._statements.append(wanted)
        return wanted

    def table(self, name: str) -> TransactionTable:
        """A table as this transaction sees it."""
        self._must_be_open()
        table = self._lake.table(name)
        if self._cut is None:
            heads = self._lake.store.heads()
            self._cut = {head.table_id: head.version for head in heads.values()}
        if table.table_id not in self._cut:
            raise TableNotFoundError(
                f"there is no table {name}",
                cause="it was created after the transaction began",
                remedy="begin a new transaction",
            )
        if table.table_id not in self._tables:
            self._tables[table.table_id] = TransactionTable(
                self._lake, table, self._cut[table.table_id], self._must_be_open
            )
        return self._tables[table.table_id]

    @property
    def tables(self) -> Sequence[TransactionTable]:
        """The tables that were used so far."""
        return tuple(self._tables.values())

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise _misused("the transaction is not open", "it is used outside of its with block")

    def _commit(self) -> None:
        changed = [table for table in self._tables.values() if table.has_changes]
        if not changed:
            self._commit_statements()
            return
        requests = [table.request(self.id, self._txn) for table in changed]
        try:
            must_be_ready(self._lake, [table.target for table in changed], requests)
            inside = self._execute if self._statements else None
            done = self._lake.commits.commit_all(requests, inside=inside)
        except CommitStateUnknownError:
            # The files may belong to versions: they stay. So they do on Ctrl-C.
            raise
        except DeltaSqlError:
            self._discard_files(requests)
            raise
        self.versions = {
            table.name: item.version for table, item in zip(changed, done, strict=True)
        }
        if not all(item.is_new for item in done):
            self._discard_files(requests)
        with after_commit("mirroring", *self.versions):
            for request in requests:
                if Metadata in map(type, request.actions):
                    self._lake.states.forget(request.table_id)
            self._lake.engine.after_commit(
                [
                    (table.target, item.version)
                    for table, item in zip(changed, done, strict=True)
                    if item.is_new
                ]
            )

    def _commit_statements(self) -> None:
        if not self._statements:
            return
        try:
            with self._lake.store.locked([]) as log:
                self._execute(log)
        except StoreError as error:
            if error.is_refusal:
                raise
            raise CommitStateUnknownError(
                "nobody can say whether the transaction's statements were committed",
                cause=f"the answer was lost: {error.problem}",
                remedy="look for what they should have done before you run them again",
                commit_id=self.id,
            ) from error

    def _execute(self, log: LockedLog) -> None:
        for wanted in self._statements:
            wanted.rows = log.execute(wanted.text, wanted.parameters)

    def _discard_files(self, requests: Sequence[CommitRequest] = ()) -> None:
        sent = {request.table_id: request for request in requests}
        for table_id, table in self._tables.items():
            table.discard_files(sent.get(table_id))


class TransactionTable:
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
        self._others: list[Action] = []
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
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._operations)

    def snapshot(self) -> Snapshot:
        """The table at the cut, with this transaction's writes."""
        found = self._pinned()
        self._table.must_be_current(found.state)
        return found

    def _pinned(self) -> Snapshot:
        found = self._table.snapshot_with(version=self._version, overlay=self._overlay)
        if self._metadata is None and self._protocol is None:
            return found
        state = replace(
            found.state,
            metadata=self._metadata or found.metadata,
            protocol=self._protocol or found.protocol,
        )
        return found.with_state(state)

    def scan(self, where: str | None = None, columns: Sequence[str] | None = None) -> Scan:
        """The rows, lazily; what is read here is part of the conflict check."""
        self._must_be_open()
        snapshot = self.snapshot()
        self.has_read(snapshot.bind(where))
        return snapshot.scan(where, columns)

    def has_read(self, predicate: Predicate | None) -> None:
        """Make the rows of a bound predicate, by default all, part of the conflict check."""
        self._reads = self._reads.joined(
            Reads.all() if predicate is None else Reads.where(predicate)
        )

    def append(self, data: Any) -> None:
        """Add rows when the transaction commits."""
        self._must_be_open()
        abandon = self._table.abandon(self._version)
        self.take(writing.append(self.objects, self._pinned().state, data, abandon=abandon))

    def overwrite(self, data: Any, where: str | None = None) -> None:
        """Put rows in place of those that satisfy `where`, by default of all of them."""
        self._must_be_open()
        abandon = self._table.abandon(self._version)
        self.take(
            writing.overwrite(self.objects, self._pinned(), data, where=where, abandon=abandon)
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
        self.take(
            writing.Write(
                actions=parsed,
                operation=operation,
                operation_params=operation_params or {},
                reads=self._table.parse_reads(reads),
            )
        )

    def request(self, transaction_id: str, txn: Sequence[Action] = ()) -> CommitRequest:
        """All that was written, as one commit, its change feed complete."""
        self._pay_feed_debt()
        operation, params = self._operations[0]
        if len(self._operations) > 1:
            names = [name for name, _ in self._operations]
            operation, params = "TRANSACTION", {"operations": names}
        changed = [item for item in (self._protocol, self._metadata) if item is not None]
        return self._table.request(
            [*changed, *txn, *self._others, *self._removes, *self._overlay.adds.values()],
            operation=operation,
            operation_params=params,
            reads=self._reads,
            read_version=self._version,
            transaction_id=transaction_id,
        )

    def abandon(self, after: int) -> Abandon:
        """What deletes new files, written after a version, for which no commit was sent."""
        return self._table.abandon(after)

    def discard_files(self, request: CommitRequest | None = None) -> None:
        """Delete the files that were written, if `request`, when it was sent, was not committed."""
        if self._written:
            self._lake.discarder.discard(
                self.location,
                [file.path for file in self._written],
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
        self._reads = self._reads.joined(write.reads)
        self._operations.append((write.operation, write.operation_params))
        for action in write.actions:
            if isinstance(action, AddFile):
                self._add(action)
            elif isinstance(action, RemoveFile):
                key = (action.path, action.dv_id)
                # What this transaction added itself was never there.
                if self._overlay.adds.pop(key, None) is None or key in restated:
                    self._overlay.removes.add(key)
                    self._removes.append(action)
            elif isinstance(action, Metadata):
                self._metadata = action
            elif isinstance(action, Protocol):
                self._protocol = action
            else:
                self._others.append(action)

    def _add(self, add: AddFile) -> None:
        key = (add.path, add.dv_id)
        if key in self._overlay.removes:
            # Removed before, and there again: one commit can say the last of it only.
            self._overlay.removes.remove(key)
            self._removes = [item for item in self._removes if (item.path, item.dv_id) != key]
        self._overlay.adds[key] = add

    def _restated(self, actions: Sequence[Action]) -> set[FileKey]:
        """Files to be removed that this transaction said anew, but that were there before it."""
        removed = {(item.path, item.dv_id) for item in actions if isinstance(item, RemoveFile)}
        for item in actions if removed else ():
            if isinstance(item, AddFile) and (item.path, item.dv_id) in removed:
                raise added_and_removed(item.path)
        new = {file.path for file in self._written}
        asked = {key for key in removed & self._overlay.adds.keys() if key[0] not in new}
        if not asked:
            return set()
        return self._table.snapshot_with(version=self._version).having(asked)

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


def _misused(problem: str, cause: str) -> ValidationError:
    remedy = "begin a new one: with lake.transaction() as tx: …"
    return ValidationError(problem, cause=cause, remedy=remedy)
