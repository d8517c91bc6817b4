"""`delete`, `update` and `merge` of a table, committed at once or in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from deltasql.data.expressions.conditions import TARGET
from deltasql.data.expressions.session import Session
from deltasql.data.writing.properties import FileOptions, WriterProperties
from deltasql.data.writing.writer import PLAIN
from deltasql.errors import (
    CommitError,
    CommitStateUnknownError,
    ValidationError,
    VersionConflictError,
)
from deltasql.lake import writing
from deltasql.lake.dml import merge_run, row_changes
from deltasql.lake.dml.literals import assignments
from deltasql.lake.dml.merge_builder import SOURCE, Merge, MergeBuilder
from deltasql.lake.dml.operation import TableAt
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.dml.words import one_of
from deltasql.spec.actions import Action
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from deltasql.lake.table import Table
    from deltasql.lake.transaction.table import TransactionTable

Operation = Callable[[Session, TableAt], row_changes.Outcome]


@dataclass(frozen=True, slots=True)
class Wishes:
    """How an operation is committed: how often it is retried, and what is recorded about it."""

    retries: int
    metadata: Mapping[str, Any] | None
    options: FileOptions


class TableVerbs:
    """The verbs of a table; each is one commit."""

    def delete(  # noqa: PLR0913 - the public names
        self,
        where: str | None = None,
        *,
        predicate: str | None = None,
        condition: str | None = None,
        retries: int = 0,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> WriteResult:
        """Delete the rows of a condition, by default all; returns the version, with metrics.

        After a conflict with another writer it is run again on the newer version, up to `retries`
        times (`max_commit_retries` is the same). With `app_id` and `app_version` it happens once,
        however often it is called. `writer` and `target_file_size` say how files are written.
        """
        wanted = one_of(where, predicate, condition)

        def run(session: Session, table: TableAt) -> row_changes.Outcome:
            return row_changes.delete(session, table, wanted)

        options = FileOptions(writer, target_file_size)
        wishes = Wishes(retries_of(retries, max_commit_retries), commit_metadata, options)
        return self._run(run, wishes, writing.txn_actions(app_id, app_version))

    def update(  # noqa: PLR0913 - the public names
        self,
        where: str | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - delta-spark's name
        *,
        predicate: str | None = None,
        condition: str | None = None,
        updates: Mapping[str, Any] | None = None,
        new_values: Mapping[str, Any] | None = None,
        retries: int = 0,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> WriteResult:
        """Set columns in the rows that satisfy a condition, by default in all.

        `update("id = 200", {"amount": "amount + 1"})`: strings are SQL expressions; in `new_values`
        they are plain strings. Results and retries are those of `delete`.
        """
        wanted = one_of(where, predicate, condition)
        values = assignments(one_of(set, updates), new_values)

        def run(session: Session, table: TableAt) -> row_changes.Outcome:
            return row_changes.update(session, table, wanted, values)

        options = FileOptions(writer, target_file_size)
        wishes = Wishes(retries_of(retries, max_commit_retries), commit_metadata, options)
        return self._run(run, wishes, writing.txn_actions(app_id, app_version))

    def merge(  # noqa: PLR0913 - the public names
        self,
        source: Any,
        on: str | None = None,
        *,
        predicate: str | None = None,
        condition: str | None = None,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        retries: int = 0,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> MergeBuilder[WriteResult]:
        """Merge rows into the table; see `MergeBuilder` for the clauses, then `execute()`.

        `merge_schema` is delta-rs' name for `with_schema_evolution()`.
        """
        txn = writing.txn_actions(app_id, app_version)
        merge = merge_of(source, one_of(on, predicate, condition), source_alias, target_alias)
        merge = replace(merge, evolves=merge_schema)
        options = FileOptions(writer, target_file_size)
        wishes = Wishes(retries_of(retries, max_commit_retries), commit_metadata, options)

        def execute(asked: Merge) -> WriteResult:
            with new_session(cast("Table", self).memory_limit) as session:
                run = merge_run.prepared(session, asked)
                return self._run(run, wishes, txn)

        return MergeBuilder(merge, execute)

    def _run(self, operation: Operation, wishes: Wishes, txn: Sequence[Action]) -> WriteResult:
        table = cast("Table", self)
        with tracing.span("dml", table=table.name), table.present():
            for attempt in range(wishes.retries + 1):
                write, result = _at(table, operation, wishes.options)
                if not write.actions and not txn:
                    return result
                if not write.actions:
                    write = writing.Write(actions=(), operation="WRITE")
                try:
                    return table.commit_write(write, txn, wishes.metadata)
                except (CommitStateUnknownError, VersionConflictError):
                    raise
                except CommitError:
                    if attempt == wishes.retries:
                        raise
        raise AssertionError("unreachable")


class TransactionVerbs:
    """The verbs of a table inside a transaction; each returns its metrics."""

    def delete(
        self,
        where: str | None = None,
        *,
        predicate: str | None = None,
        condition: str | None = None,
    ) -> Mapping[str, int]:
        """Delete the rows of a condition, by default all, when the transaction commits."""
        wanted = one_of(where, predicate, condition)
        return self._run(lambda session, table: row_changes.delete(session, table, wanted))

    def update(
        self,
        where: str | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - delta-spark's name
        *,
        predicate: str | None = None,
        condition: str | None = None,
        updates: Mapping[str, Any] | None = None,
        new_values: Mapping[str, Any] | None = None,
    ) -> Mapping[str, int]:
        """Set columns in the rows that satisfy a condition, by default in all."""
        wanted, values = (
            one_of(where, predicate, condition),
            assignments(one_of(set, updates), new_values),
        )
        return self._run(lambda session, table: row_changes.update(session, table, wanted, values))

    def merge(
        self,
        source: Any,
        on: str | None = None,
        *,
        predicate: str | None = None,
        condition: str | None = None,
        source_alias: str | None = None,
        target_alias: str | None = None,
    ) -> MergeBuilder[Mapping[str, int]]:
        """Merge rows into the table; see `MergeBuilder` for the clauses, then `execute()`."""
        merge = merge_of(source, one_of(on, predicate, condition), source_alias, target_alias)

        def execute(asked: Merge) -> Mapping[str, int]:
            with new_session(cast("TransactionTable", self).memory_limit) as session:
                return self._run(merge_run.prepared(session, asked))

        return MergeBuilder(merge, execute)

    def _run(self, operation: Operation) -> Mapping[str, int]:
        table = cast("TransactionTable", self)
        table.must_be_open()
        write, result = _at(table, operation)
        if write.actions:
            table.take(write)
        else:
            table.rests_on(write.reads)
        return result.metrics


def retries_of(ours: int, theirs: int | None) -> int:
    """How often an operation is retried, under our name for it or delta-rs'."""
    found = ours if theirs is None else theirs
    if found < 0:
        raise ValidationError(f"retries can't be {found}", remedy="pass 0 or more")
    return found


def _at(
    table: Table | TransactionTable, operation: Operation, options: FileOptions = PLAIN
) -> tuple[writing.Write, WriteResult]:
    """What an operation does to the table as it is now."""
    snapshot = table.base()
    at = TableAt(
        objects=table.objects,
        snapshot=snapshot,
        abandon=table.abandon(snapshot.version),
        options=options,
    )
    with new_session(table.memory_limit) as session, snapshot.held():
        write, metrics = operation(session, at)
    return write, WriteResult(snapshot.version, metrics)


def new_session(memory_limit: str) -> Session:
    """An engine for one operation, whose current time is now."""
    return Session(memory_limit)


def merge_of(
    source: Any, on: str | None, source_alias: str | None, target_alias: str | None
) -> Merge:
    """A merge without clauses."""
    if not isinstance(on, str):
        raise ValidationError(
            f"the condition of a merge must be text, not {type(on).__name__}",
            remedy="write it as in SQL: target.id = source.id",
        )
    return Merge(
        source=source,
        condition=on,
        source_alias=source_alias or SOURCE,
        target_alias=target_alias or TARGET,
    )
