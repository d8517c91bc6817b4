"""`delete` and `update`: which files they touch, and what is written in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltasql.errors import ValidationError
from deltasql.lake import writing
from deltasql.log.feed import CHANGE_TYPE
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.log.removal import Removable, WholeFile, every_row, rewritten
from deltasql.spark.dml.assignments import as_column, completed, new_values, quoted
from deltasql.spark.dml.operation import DmlContext, reads_of
from deltasql.spark.dml.vectors import Marked, can_mark, mark
from deltasql.spark.native import evolution
from deltasql.spark.native.reading import Condition
from deltasql.spec.actions import AddFile, CdcFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    Values = Mapping[str, str | Column]
    Params = Mapping[str, Any]
    Renewal = Callable[[DataFrame], DataFrame | None]

_NEW = "__deltasql_new"


def delete(context: DmlContext, given: str | Column | None) -> writing.Write | None:
    """Delete the rows of a condition, by default all; None when there are none."""
    if given is None:
        gone = every_row(context.files(None))
        return context.outcome(operation="DELETE", params={}, reads=reads_of(None, gone), gone=gone)
    condition = context.condition(given)
    predicate = condition.predicate
    found = context.sorted_files(condition)
    params = _params(condition)
    whole, candidates = found.whole, found.partial
    if not candidates:
        reads = reads_of(predicate, whole)
        return context.outcome(operation="DELETE", params=params, reads=reads, gone=whole)
    if context.has_feed and whole:
        # Beside change files there is no other word for rows that went: they are read, too.
        whole, candidates = [], [*whole, *candidates]
    change = _Change(context, candidates, as_column(given), whole)
    if context.marks_rows and can_mark(candidates):
        return change.marked("DELETE", params, predicate, change.deleted_rows)
    if len(candidates) == 1 and can_mark(candidates) and not context.has_feed:
        return change.deleted_from_one(params, predicate)
    return change.rewritten("DELETE", params, predicate, change.without_deleted)


def update(
    context: DmlContext, given: str | Column | None, values: Values | None
) -> writing.Write | None:
    """Set columns in the rows of a condition, by default in all; None when there are none."""
    if not values:
        raise ValidationError(
            "the update sets no column",
            cause="`set` is missing or empty, so that every row would be written as it was",
            remedy='name columns and their values: update("id = 200", {"v": "7"})',
        )
    condition = context.condition("true" if given is None else given)
    candidates = context.files(condition.predicate)
    change = _Change(context, candidates, as_column("true" if given is None else given))

    def updated(rows: DataFrame) -> DataFrame:
        return change.updated(rows, values)

    params = {} if given is None else _params(condition)
    if context.marks_rows and can_mark(candidates):
        return change.marked("UPDATE", params, condition.predicate, updated)
    return change.rewritten("UPDATE", params, condition.predicate, updated)


class _Change:
    """One delete or update on the files that it may touch; `whole` go unread beside them."""

    def __init__(
        self,
        context: DmlContext,
        candidates: Sequence[AddFile],
        condition: Column,
        whole: Sequence[WholeFile] = (),
    ) -> None:
        from pyspark.sql import functions as sql

        self._context = context
        self._candidates = candidates
        self._whole = whole
        self._condition = condition
        self._matches = sql.coalesce(condition.cast("boolean"), sql.expr("false"))
        self._plan = evolution.unchanged(context.state)
        self._schema: StructType = context.schema(self._plan)

    def rewritten(
        self, name: str, params: Params, predicate: Predicate | None, new: Renewal
    ) -> writing.Write | None:
        """Files with a row of the condition give way to what `new` makes of all their rows."""
        context = self._context
        touched = context.writer.touched(
            context.location, context.state, self._candidates, self._condition
        )
        written: Sequence[AddFile | CdcFile] = ()
        frame = new(context.rows_to_move(touched)) if touched else None
        if frame is not None:
            written = context.write(self._plan, frame).actions
        gone: list[Removable] = [*self._whole, *rewritten(touched)]
        return context.outcome(
            operation=name,
            params=params,
            reads=reads_of(predicate, gone),
            gone=gone,
            added=written,
            files=written,
        )

    def deleted_from_one(self, params: Params, predicate: Predicate | None) -> writing.Write | None:
        """The same for the only file, without a look before: its count tells if a row went."""
        context = self._context
        frame = self.without_deleted(context.rows_to_move(self._candidates))
        written = context.write(self._plan, frame).actions
        gone: list[Removable] = [*self._whole, *rewritten(self._candidates)]
        if _rows_in(written) == _rows_in(self._candidates):
            context.discard(written)
            gone, written = [*self._whole], ()
        return context.outcome(
            operation="DELETE",
            params=params,
            reads=reads_of(predicate, gone),
            gone=gone,
            added=written,
            files=written,
        )

    def marked(
        self, name: str, params: Params, predicate: Predicate | None, new: Renewal
    ) -> writing.Write | None:
        """Rows of the condition are marked as deleted; `new` makes rows and changes of them."""
        context = self._context
        rows = context.placed_rows(self._candidates).where(self._condition)
        found = mark(context, self._candidates, rows) if self._candidates else Marked()
        written: Sequence[AddFile | CdcFile] = ()
        if found.gone:
            frame = new(context.rows_to_move(found.gone).where(self._condition))
            try:
                written = () if frame is None else context.write(self._plan, frame).actions
            except BaseException:
                context.discard(found.files)
                raise
        gone: list[Removable] = [*self._whole, *rewritten(found.gone)]
        return context.outcome(
            operation=name,
            params=params,
            reads=reads_of(predicate, gone),
            gone=gone,
            added=[*found.added, *written],
            files=[*found.files, *written],
        )

    # --- what becomes of the rows -------------------------------------------------------

    def without_deleted(self, rows: DataFrame) -> DataFrame:
        """The rows that stay; with a change feed, those that go as well, as changes."""
        from pyspark.sql import functions as sql

        if not self._context.has_feed:
            return rows.where(~self._matches)
        change = sql.when(self._matches, sql.lit("delete"))
        return rows.select("*", change.alias(CHANGE_TYPE))

    def deleted_rows(self, rows: DataFrame) -> DataFrame | None:
        """The deleted rows as changes, where there is a change feed."""
        from pyspark.sql import functions as sql

        if not self._context.has_feed:
            return None
        return rows.select("*", sql.lit("delete").alias(CHANGE_TYPE))

    def updated(self, rows: DataFrame, values: Values) -> DataFrame:
        """All rows with their new values; with a change feed, also before and after."""
        from pyspark.sql import functions as sql

        ids = self._context.row_ids
        old = {name: sql.col(quoted(name)) for name in self._schema.names}
        new = new_values(rows, self._schema, values, alias="target", old=old, structs_first=True)
        old, new = old | ids.kept(), new | ids.changed()
        if not self._context.has_feed:
            chosen = [
                sql.when(self._matches, new[name]).otherwise(old[name]).alias(name) for name in old
            ]
            return completed(rows.select(*chosen), self._schema, *ids.names)
        rows, new = once(rows, new, self._matches, "")
        after = [
            as_row(new, None),
            as_row(old, "update_preimage"),
            as_row(new, "update_postimage"),
        ]
        kept = sql.array(as_row(old, None))
        every = sql.when(self._matches, sql.array(*after)).otherwise(kept)
        return completed(unfolded(rows, every), self._schema, *ids.names, CHANGE_TYPE)


def as_row(values: Mapping[str, Column], change: str | None) -> Column:
    """A row, and what kind of change it is; none for a row of the table itself."""
    from pyspark.sql import functions as sql

    kind = sql.lit(change).cast("string").alias(CHANGE_TYPE)
    return sql.struct(*(value.alias(name) for name, value in values.items()), kind)


def once(
    rows: DataFrame, values: Mapping[str, Column], where: Column, suffix: str
) -> tuple[DataFrame, dict[str, Column]]:
    """Values computed in a column of their own: the table and its feed get the same random one.

    Only the rows of `where` have them, lest others fail on what does not concern them.
    """
    from pyspark.sql import functions as sql

    name = _NEW + suffix
    row = sql.struct(*(value.alias(key) for key, value in values.items()))
    made = rows.withColumn(name, sql.when(where, row))
    return made, {key: sql.col(name).getField(key) for key in values}


def unfolded(rows: DataFrame, every: Column) -> DataFrame:
    """The rows of an array of rows."""
    from pyspark.sql import functions as sql

    return rows.select(sql.explode(every).alias("row")).select("row.*")


def _rows_in(files: Iterable[AddFile | CdcFile]) -> int:
    """The live rows of files that say how many they have."""
    return sum(
        (record_count(load_stats(add.stats)) or 0)
        - (0 if add.deletion_vector is None else add.deletion_vector.cardinality)
        for add in files
        if isinstance(add, AddFile)
    )


def _params(condition: Condition) -> dict[str, Any]:
    return {"predicate": [condition.text]}
