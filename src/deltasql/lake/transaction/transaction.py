"""Transactions: reads from one consistent cut, writes to any number of tables, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deltasql.commit import CommitRequest
from deltasql.commit.commit_logging import after_commit
from deltasql.errors import (
    CommitStateUnknownError,
    DeltaSqlError,
    StoreError,
    TableNotFoundError,
    ValidationError,
)
from deltasql.lake import writing
from deltasql.lake.arguments import checked
from deltasql.lake.table import Table
from deltasql.lake.transaction.table import TransactionTable
from deltasql.lake.upkeep.maintaining import must_be_ready
from deltasql.lake.writing import txn_actions
from deltasql.showing.html import html_table
from deltasql.spec.actions import Metadata
from deltasql.store.interface import LockedLog
from deltasql.store.statements import refuse_transaction_control
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


@dataclass(slots=True)
class Statement:
    """One of the application's own statements, run by a transaction when it commits.

    `rows` is what it returned, once the transaction has committed.
    """

    text: str
    parameters: Sequence[Any] = ()
    rows: Sequence[tuple[Any, ...]] | None = None


@checked
class Transaction:
    """Reads from one consistent cut, writes that become visible together.

    Used as a context manager: commits at the end of the block, and leaves nothing behind
    when the block raises.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._lake = lake
        self._cut: dict[int, int] | None = None
        self._tables: dict[int, TransactionTable] = {}
        # Others may give the name to another table meanwhile.
        self._named: dict[str, TransactionTable] = {}
        self._statements: list[Statement] = []
        self._txn = txn_actions(app_id, app_version)
        # What can't be told is refused before anything is written.
        writing.commit_info({}, commit_metadata)
        self._told = commit_metadata
        self._is_open = self._is_used = False
        self._present = ExitStack()
        self._span = tracing.begin("transaction")
        self.id = tracing.commit_id(self._span) or writing.new_id()
        self.versions: Mapping[str, int] = {}

    def __repr__(self) -> str:
        state = "open" if self._is_open else "ended" if self._is_used else "not begun"
        told = ", ".join(f"{name} at {version}" for name, version in self.versions.items())
        return f"<Transaction {state}{': ' if told else ''}{told}>"

    def _repr_html_(self) -> str:
        return html_table(("table", "version"), self.versions.items(), title=repr(self)[1:-1])

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
        with tracing.within(self._span), self._present:
            self._commit() if kind is None else self._discard_files()

    def sql_execute(self, statement: str, parameters: Sequence[Any] = ()) -> Statement:
        """Run a statement on the application's own tables, in the lake's database.

        It runs when the transaction commits, in the same database transaction, after the tables of
        the lake: all of it counts, or none. It is not run if `app_id` and `app_version` say that
        the transaction has happened already. Statements that end or control a transaction, such as
        COMMIT, are refused.
        """
        self._must_be_open()
        refuse_transaction_control(statement)
        wanted = Statement(statement, parameters)
        self._statements.append(wanted)
        return wanted

    def table(self, name: str) -> TransactionTable:
        """A table as this transaction sees it; a name stands for the same one until it ends."""
        self._must_be_open()
        if name not in self._named:
            self._named[name] = self.at(self._lake.table(name))
        return self._named[name]

    def at(self, table: Table) -> TransactionTable:
        """A table that was looked up before, as this transaction sees it."""
        self._must_be_open()
        if self._cut is None:
            heads = self._lake.store.heads()
            self._cut = {head.table_id: head.version for head in heads.values()}
        if table.table_id not in self._cut:
            raise TableNotFoundError.named(
                table.name,
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
        """The tables used so far."""
        return tuple(self._tables.values())

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise _misused("the transaction is not open", "it was used outside of its with block")

    def _commit(self) -> None:
        changed = [table for table in self._tables.values() if table.has_changes]
        if not changed:
            self._commit_statements()
            return
        requests = [table.request(self.id, self._txn, self._told) for table in changed]
        try:
            must_be_ready(self._lake, [table.target for table in changed], requests)
            inside = self._execute if self._statements else None
            done = self._lake.commits.commit_all(requests, inside=inside)
        except CommitStateUnknownError:
            # The files may belong to versions, so they stay; on Ctrl-C as well.
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
                "it is unknown whether the transaction's statements were committed",
                cause=f"the answer was lost: {error.problem}",
                remedy="check whether they took effect before you run them again",
                commit_id=self.id,
            ) from error

    def _execute(self, log: LockedLog) -> None:
        for wanted in self._statements:
            wanted.rows = log.execute(wanted.text, wanted.parameters)

    def _discard_files(self, requests: Sequence[CommitRequest] = ()) -> None:
        sent = {request.table_id: request for request in requests}
        for table_id, table in self._tables.items():
            table.discard_files(sent.get(table_id))


def _misused(problem: str, cause: str) -> ValidationError:
    remedy = "begin a new one: with lake.transaction() as tx: …"
    return ValidationError(problem, cause=cause, remedy=remedy)
