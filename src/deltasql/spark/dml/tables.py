"""A table as PySpark programs change it: `delete`, `update`, `merge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from deltasql.commit.discarding import Abandon
from deltasql.errors import (
    CommitError,
    CommitStateUnknownError,
    ValidationError,
    VersionConflictError,
)
from deltasql.lake import writing
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.dml.verbs import retries_of
from deltasql.lake.dml.words import one_of
from deltasql.lake.looking.public import TABLE as PUBLIC
from deltasql.lake.snapshot import Snapshot
from deltasql.lake.table import Table
from deltasql.lake.upkeep.optimizing import OptimizeReport
from deltasql.lake.writing import txn_actions
from deltasql.objectstore import ObjectStore
from deltasql.spark.dml import merge_run, row_changes
from deltasql.spark.dml.merge_builder import TARGET, Merge, MergeBuilder
from deltasql.spark.dml.operation import DmlContext, Outcome
from deltasql.spark.dml.optimize_builder import Engine, OptimizeBuilder
from deltasql.spec.actions import Action
from deltasql.telemetry import tracing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from deltasql.spark.database import Database


class DmlTable(Protocol):
    """Where a table's operations read from and commit to: the lake, or a transaction."""

    @property
    def name(self) -> str:
        """The table's name."""

    @property
    def location(self) -> str:
        """Where the table's files are."""

    @property
    def objects(self) -> ObjectStore:
        """The object store at the table's location."""

    def base(self) -> Snapshot:
        """The table as operations see it."""

    def abandon(self, after: int) -> Abandon:
        """A function that deletes the new files, written after a version, of an operation that
        failed.
        """


class SparkTable:
    """`db.table(name)`: deltasql's table with delta-spark's methods.

    These take Spark frames and columns; everything else is that of `lake.table(name)`: `history`,
    `detail`, `vacuum`, `restore`, `mirror` …
    """

    def __init__(self, database: Database, table: Table, alias: str = TARGET) -> None:
        self._database = database
        self._table = table
        self._alias = alias

    def __repr__(self) -> str:
        return f"<SparkTable {self.name}>"

    def __getattr__(self, name: str) -> Any:
        # Before `__init__`, as during unpickling, there is no table to ask.
        if name in PUBLIC and "_table" in self.__dict__:
            return getattr(self._table, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted(PUBLIC | {"alias", "toDF"})

    def _repr_html_(self) -> str:
        return self._table._repr_html_()

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    def alias(self, name: str) -> SparkTable:
        """The table under the alias that a merge's conditions use."""
        return SparkTable(self._database, self._table, name)

    def toDF(self) -> DataFrame:  # noqa: N802 - delta-spark's name
        """The rows."""
        return self._database.read(self.name)

    def delete(
        self,
        condition: str | Column | None = None,
        *,
        where: str | Column | None = None,
        predicate: str | Column | None = None,
        retries: int = 0,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int | None = None,
    ) -> WriteResult:
        """Delete the rows of a condition, by default all; returns the version, with metrics.

        After a conflict with another writer, it runs again on the newer version, up to `retries`
        times (`max_commit_retries` is the same). With `app_id` and `app_version`, it happens once,
        however often it is called. `where` and `predicate` are other names for the condition.
        """
        wishes = _wishes(retries, max_commit_retries, app_id, app_version, commit_metadata)
        wanted = _given(condition, where, predicate)
        return self._do(lambda context: row_changes.delete(context, wanted), wishes)

    def update(  # noqa: PLR0913 - the public names
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002 - delta-spark's name
        *,
        where: str | Column | None = None,
        predicate: str | Column | None = None,
        updates: Mapping[str, str | Column] | None = None,
        retries: int = 0,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int | None = None,
    ) -> WriteResult:
        """Set columns in the rows of a condition, by default in all; returns the version.

        `update("id = 200", {"v": "7"})`: values are Spark SQL expressions, or columns. `updates` is
        another name for `set`; the rest is that of `delete`.
        """
        wishes = _wishes(retries, max_commit_retries, app_id, app_version, commit_metadata)
        wanted, values = _given(condition, where, predicate), _values(set, updates)
        return self._do(lambda context: row_changes.update(context, wanted, values), wishes)

    def merge(  # noqa: PLR0913 - the public names
        self,
        source: DataFrame,
        condition: str | Column | None = None,
        *,
        on: str | Column | None = None,
        predicate: str | Column | None = None,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        retries: int = 0,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        max_commit_retries: int | None = None,
    ) -> MergeBuilder[WriteResult]:
        """Merge a frame into the table; see `MergeBuilder` for the clauses.

        `on` and `predicate` are other names for the condition, `merge_schema` is one for
        `withSchemaEvolution()`; `source_alias` and `target_alias` do what `alias` does.
        """
        wishes = _wishes(retries, max_commit_retries, app_id, app_version, commit_metadata)
        wanted = _needed(_given(condition, on, predicate))
        merge = _merge_of(source, wanted, source_alias, target_alias or self._alias)

        def run(asked: Merge, more: int) -> WriteResult:
            often = replace(wishes, retries=max(wishes.retries, more))
            return self._do(lambda context: merge_run.run(context, asked), often)

        return MergeBuilder(replace(merge, evolves=merge_schema), run)

    @overload
    def optimize(
        self, target_size: int | str | None = None, *, engine: Engine = "arrow"
    ) -> OptimizeBuilder: ...

    @overload
    def optimize(
        self, target_size: int | str | None = None, *, engine: Engine = "arrow", **words: Any
    ) -> OptimizeReport: ...

    def optimize(
        self, target_size: int | str | None = None, *, engine: Engine = "arrow", **words: Any
    ) -> OptimizeBuilder | OptimizeReport:
        """Combine small files, or order rows, by delta-spark's methods of what is returned.

        By default, the driver does it, from Arrow. With the engine `spark`, executors do it by
        Delta's own OPTIMIZE, for tables that are too large for one machine. With a word of
        `Table.optimize`, such as `where` or `zorder_by`, it runs at once, as that does.
        """
        if not words:
            return OptimizeBuilder(self._database, self._table, target_size, engine)
        if engine != "arrow":
            raise ValidationError(
                f"the engine {engine!r:.40} does not take {', '.join(sorted(words))}",
                remedy="write .where(…) and .executeCompaction() or .executeZOrderBy(…)",
            )
        return self._table.optimize(target_size=target_size, **words)

    def _do(self, operation: Callable[[DmlContext], Outcome], wishes: _Wishes) -> WriteResult:
        with tracing.span("dml", table=self._table.name), self._database.lake.presence.writing():
            return self._try(operation, wishes)

    def _try(self, operation: Callable[[DmlContext], Outcome], wishes: _Wishes) -> WriteResult:
        extra, retries = wishes.extra, wishes.retries
        for attempt in range(retries + 1):
            context = self._database.context(self._table)
            write, metrics = operation(context)
            if not write.actions and not extra:
                return WriteResult(context.snapshot.version, metrics)
            if not write.actions:
                write = writing.Write(actions=(), operation="WRITE")
            try:
                return self._table.commit_write(write, extra, wishes.metadata)
            except (CommitStateUnknownError, VersionConflictError):
                raise
            except CommitError:
                if attempt == retries:
                    raise
        raise AssertionError("unreachable")


class TransactionSparkTable:
    """`tx.table(name)`: the same methods inside a transaction, which commits them at its end."""

    def __init__(
        self,
        database: Database,
        table: DmlTable,
        take: Callable[[writing.Write], None],
        alias: str = TARGET,
    ) -> None:
        self._database = database
        self._table = table
        self._take = take
        self._alias = alias

    def alias(self, name: str) -> TransactionSparkTable:
        """The table under the alias that a merge's conditions use."""
        return TransactionSparkTable(self._database, self._table, self._take, name)

    def delete(
        self,
        condition: str | Column | None = None,
        *,
        where: str | Column | None = None,
        predicate: str | Column | None = None,
    ) -> Mapping[str, int]:
        """Delete the rows of a condition, by default all; returns the metrics."""
        wanted = _given(condition, where, predicate)
        return self._done(row_changes.delete(self._context(), wanted))

    def update(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002 - delta-spark's name
        *,
        where: str | Column | None = None,
        predicate: str | Column | None = None,
        updates: Mapping[str, str | Column] | None = None,
    ) -> Mapping[str, int]:
        """Set columns in the rows of a condition, by default in all; returns the metrics."""
        wanted, values = _given(condition, where, predicate), _values(set, updates)
        return self._done(row_changes.update(self._context(), wanted, values))

    def merge(
        self,
        source: DataFrame,
        condition: str | Column | None = None,
        *,
        on: str | Column | None = None,
        predicate: str | Column | None = None,
        source_alias: str | None = None,
        target_alias: str | None = None,
    ) -> MergeBuilder[Mapping[str, int]]:
        """Merge a frame into the table; see `MergeBuilder` for the clauses.

        `on` and `predicate` are other names for the condition; `source_alias` and `target_alias`
        do what `alias` does.
        """
        wanted = _needed(_given(condition, on, predicate))
        merge = _merge_of(source, wanted, source_alias, target_alias or self._alias)
        return MergeBuilder(merge, self._merge)

    def _merge(self, merge: Merge, retries: int) -> Mapping[str, int]:
        if retries:
            raise ValidationError(
                "one operation of a transaction can't be retried",
                cause="what conflicts is the transaction, when it commits",
                remedy="run the whole transaction again",
            )
        return self._done(merge_run.run(self._context(), merge))

    def _context(self) -> DmlContext:
        return self._database.context(self._table)

    def _done(self, outcome: Outcome) -> Mapping[str, int]:
        write, metrics = outcome
        self._take(write)
        return metrics


@dataclass(frozen=True, slots=True)
class _Wishes:
    """How an operation is committed."""

    retries: int
    extra: Sequence[Action]
    metadata: Mapping[str, Any] | None


def _wishes(
    retries: int,
    max_commit_retries: int | None,
    app_id: str | None,
    app_version: int | None,
    metadata: Mapping[str, Any] | None,
) -> _Wishes:
    extra = txn_actions(app_id, app_version)
    return _Wishes(retries_of(retries, max_commit_retries), extra, metadata)


def _merge_of(
    source: DataFrame, condition: str | Column, source_alias: str | None, target_alias: str
) -> Merge:
    named = source if source_alias is None else source.alias(source_alias)
    return Merge(source=named, condition=condition, target_alias=target_alias)


def _values(
    *names: Mapping[str, str | Column] | None,
) -> Mapping[str, str | Column] | None:
    return cast("Mapping[str, str | Column] | None", one_of(*names))


def _given(*names: str | Column | None) -> str | Column | None:
    return cast("str | Column | None", one_of(*names))


def _needed(condition: str | Column | None) -> str | Column:
    if condition is None:
        raise ValidationError(
            "a merge needs a condition", remedy="write it as in SQL: target.id = source.id"
        )
    return condition
