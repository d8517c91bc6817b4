"""Spark frames over several tables in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deltasql.commit.commit_logging import after_commit
from deltasql.errors import TableNotFoundError, ValidationError
from deltasql.lake import writing
from deltasql.lake.transaction import Statement, Transaction, TransactionTable
from deltasql.log.feed import CHANGE_TYPE
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.attaching import catalog_of
from deltasql.spark.catalog.staging import Block
from deltasql.spark.dml.operation import DmlContext
from deltasql.spark.dml.tables import TransactionSparkTable
from deltasql.spark.native import evolution
from deltasql.spark.native.options import write_options
from deltasql.spec.actions import AddFile, CdcFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasql.spark.database import Database


class AlreadyHappened(Exception):  # noqa: N818 - no error: nothing is left to do
    """The application's transaction is already in its tables."""


class SparkTransaction:
    """Reads from one consistent cut with its own writes; all of its writes count, or none.

    Commits at the end of the block. If the block raises, or another writer was faster on any of the
    tables, nothing is committed and the new files are deleted.
    """

    def __init__(
        self,
        database: Database,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._database = database
        self._app = (app_id, app_version)
        self._inner: Transaction = database.lake.transaction(
            app_id=app_id, app_version=app_version, commit_metadata=commit_metadata
        )
        self._block: Block | None = None
        # Whether to leave with `AlreadyHappened` as soon as a table shows that it has.
        self.stops_early = False

    def __enter__(self) -> Self:
        database = self._database
        is_attached = catalog_of(database.lake) is not None
        blocks.must_be_outside(database.spark, database.lake, is_attached=is_attached)
        blocks.enter(database.spark, self.begin())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A stopped session has no thread left to take out.
        with suppress(Exception):
            blocks.leave(self._database.spark)
        self.end(kind, error, trace)

    def begin(self) -> Block:
        """Open it; the caller says who takes part."""
        self._inner.__enter__()
        self._block = blocks.begin(self._database.lake, self._inner)
        return self._block

    def end(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Commit it, or discard it if there is an error."""
        database = self._database
        catalog = catalog_of(database.lake)
        blocks.end(None if catalog is None else database.spark, self._opened())
        if kind is None:
            try:
                self._complete_feeds()
            except BaseException as failure:
                self._inner.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._inner.__exit__(kind, error, trace)
        if catalog is not None:
            refresh(database.spark, catalog, self.versions)

    def _opened(self) -> Block:
        if self._block is None:
            raise ValidationError("the transaction has not begun", remedy="use it in a with block")
        return self._block

    @property
    def versions(self) -> Mapping[str, int]:
        """The version that each changed table got, once the transaction has committed."""
        return self._inner.versions

    def read(self, name: str, where: str | None = None) -> DataFrame:
        """The rows of a table at the cut, with this transaction's own writes.

        Reads of a table that the transaction changes are part of the conflict check.
        """
        table = self._table(name)
        database = self._database
        snapshot = table.base()
        database.set_credentials(table.location)
        predicate = None
        if where is not None:
            predicate = database.reader.condition(where, snapshot.state).predicate
        table.has_read(predicate)
        return database.reader.frame(table.location, snapshot, where)

    def write(self, df: DataFrame, name: str, mode: str = "append", **options: Any) -> None:
        """Write rows to a table that exists: modes and options as those of `db.write`."""
        if mode not in ("append", "overwrite"):
            raise ValidationError(
                f"a transaction can't write with mode={mode!r}",
                cause="its tables exist already",
                remedy='use "append" or "overwrite"',
            )
        table = self._table(name)
        database = self._database
        database.set_credentials(table.location)
        wanted = write_options(mode, options)
        if wanted.commit_metadata is not None:
            raise ValidationError(
                "a write in a transaction has no commit_metadata of its own",
                cause="all writes to a table are one commit",
                remedy="give it to db.transaction()",
            )
        abandon = table.abandon(table.version)
        table.take(
            database.writer.prepare(table.location, table.base(), df, wanted, abandon=abandon)
        )

    def table(self, name: str) -> TransactionSparkTable:
        """A table with the methods `delete`, `update` and `merge`."""
        table = self._table(name)

        def take(write: writing.Write) -> None:
            if write.actions:
                table.take(write)
                return
            table.rests_on(write.reads)
            if self._app[0] is not None:
                # Even a commit without changes must be recorded in the table.
                table.take(writing.Write(actions=(), operation="WRITE"))

        return TransactionSparkTable(self._database, table, take)

    def sql_execute(self, statement: str, parameters: Sequence[Any] = ()) -> Statement:
        """Run a statement on the application's own tables, in the lake's database.

        It runs when the transaction commits, in the same database transaction.
        """
        return self._inner.sql_execute(statement, parameters)

    def _table(self, name: str) -> TransactionTable:
        if self._database.lake.store.table(name) is None:
            raise TableNotFoundError.named(
                name,
                cause="a transaction writes to tables that exist",
                remedy="create it before: db.create_table(name, schema)",
            )
        table = self._inner.table(name)
        app_id, app_version = self._app
        if self.stops_early and app_id is not None and app_version is not None:
            seen = table.base().txns.get(app_id, -1)
            # If it is in one of its tables, it is in all of them.
            if seen >= app_version:
                raise AlreadyHappened
        return table

    # --- the change feed ----------------------------------------------------------------

    def _complete_feeds(self) -> None:
        """Change feeds that record row by row must be complete: see `FeedDebt`.

        Spark writes what the table's own rules keep Arrow from writing.
        """
        for table in self._inner.tables:
            debt = table.feed_debt
            if debt.is_due:
                context = self._database.context(table)
                files = _changes(context, debt.added, "insert")
                try:
                    files += _changes(context, debt.removed, "delete")
                except BaseException:
                    context.discard(files)
                    raise
                debt.settle()
                table.take(writing.Write(actions=files, operation="CHANGES", files=files))


def refresh(spark: SparkSession, catalog: str, names: Iterable[str]) -> None:
    """Make Spark reload frames that it keeps in memory, as after its own statements."""
    jvm_session: Any = spark._jsparkSession
    with after_commit("refreshing", *names):
        if not jvm_session.sharedState().cacheManager().isEmpty():
            for name in names:
                spark.catalog.refreshTable(f"{catalog}.{name}")


def _changes(context: DmlContext, files: Sequence[AddFile], kind: str) -> list[CdcFile]:
    from pyspark.sql import functions as sql

    if not files:
        return []
    rows = context.rows(files).select("*", sql.lit(kind).alias(CHANGE_TYPE))
    written = context.write(evolution.unchanged(context.state), rows).actions
    return [item for item in written if isinstance(item, CdcFile)]
