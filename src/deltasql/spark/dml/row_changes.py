"""`delete` and `update`: which files they touch, and what is written in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltasql.errors import ValidationError
from deltasql.lake.dml.metrics import Clock, change_metrics, picks_rows, rows_in, total
from deltasql.log.feed import CHANGE_TYPE
from deltasql.log.predicates.predicate import Predicate
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.log.removal import Removable, WholeFile, every_row, rewritten
from deltasql.spark.dml.assignments import as_column, completed, new_values, quoted
from deltasql.spark.dml.operation import DmlContext, Outcome, changed_files, reads_of
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
_DONE = {"DELETE": "Deleted", "UPDATE": "Updated"}


def delete(context: DmlContext, given: str | Column | None) -> Outcome:
    """Delete the rows of a condition, by default all; an empty write if none do."""
    clock = Clock()
    if given is None:
        return _Change(context, [], as_column("true"), clock, every_row(context.files(None))).alone(
            {}, None
        )
    with clock.phase("scanTimeMs"):
        condition = context.condition(given)
        found = context.sorted_files(condition)
    predicate, params = condition.predicate, _params(condition)
    whole, candidates = found.whole, found.partial
    if candidates and context.has_feed and whole:
        # With change files, these must list every deleted row: so whole files are read, too.
        whole, candidates = [], [*whole, *candidates]
    change = _Change(context, candidates, as_column(given), clock, whole)
    if not candidates:
        return change.alone(params, predicate)
    if context.marks_rows and can_mark(candidates):
        return change.marked("DELETE", params, predicate, change.deleted_rows)
    if len(candidates) == 1 and can_mark(candidates) and not context.has_feed:
        return change.deleted_from_one(params, predicate)
    return change.rewritten("DELETE", params, predicate, change.without_deleted)


def update(context: DmlContext, given: str | Column | None, values: Values | None) -> Outcome:
    """Set columns in the rows of a condition, by default in all; an empty write without any."""
    if not values:
        raise ValidationError(
            "the update sets no column",
            cause="`set` is missing or empty, so every row would be rewritten as it is",
            remedy='name columns and their values: update("id = 200", {"v": "7"})',
        )
    clock = Clock()
    with clock.phase("scanTimeMs"):
        condition = context.condition("true" if given is None else given)
        candidates = context.files(condition.predicate)
    change = _Change(
        context,
        candidates,
        as_column("true" if given is None else given),
        clock,
        picks_rows=not condition.is_whole or picks_rows(context.state, condition.predicate),
    )

    def updated(rows: DataFrame) -> DataFrame:
        return change.updated(rows, values)

    params = {} if given is None else _params(condition)
    if context.marks_rows and can_mark(candidates):
        return change.marked("UPDATE", params, condition.predicate, updated)
    return change.rewritten("UPDATE", params, condition.predicate, updated)


class _Change:
    """One delete or update on the files that it may touch; `whole` ones are not read."""

    def __init__(
        self,
        context: DmlContext,
        candidates: Sequence[AddFile],
        condition: Column,
        clock: Clock,
        whole: Sequence[WholeFile] = (),
        *,
        picks_rows: bool = True,
    ) -> None:
        from pyspark.sql import functions as sql

        self._context = context
        self._candidates = candidates
        self._whole = whole
        self._condition = condition
        self._clock = clock
        self._picks_rows = picks_rows
        self._matches = sql.coalesce(condition.cast("boolean"), sql.expr("false"))
        self._plan = evolution.unchanged(context.state)
        self._schema: StructType = context.schema(self._plan)

    def alone(self, params: Params, predicate: Predicate | None) -> Outcome:
        """Delete whole files, without reading their rows."""
        return self._outcome("DELETE", params, predicate, 0)

    def rewritten(
        self, name: str, params: Params, predicate: Predicate | None, new: Renewal
    ) -> Outcome:
        """Replace files with a row of the condition by what `new` makes of all their rows."""
        context = self._context
        with self._clock.phase("scanTimeMs"):
            touched = context.writer.touched(
                context.location, context.state, self._candidates, self._condition
            )
        written: Sequence[AddFile | CdcFile] = ()
        with self._clock.phase("rewriteTimeMs"):
            frame = new(context.rows_to_move(touched.files)) if touched.files else None
            if frame is not None:
                written = context.write(self._plan, frame).actions
        return self._outcome(name, params, predicate, touched.rows, touched.files, written)

    def deleted_from_one(self, params: Params, predicate: Predicate | None) -> Outcome:
        """The same for a single file, in one pass: its row count tells whether any row went."""
        context = self._context
        with self._clock.phase("rewriteTimeMs"):
            frame = self.without_deleted(context.rows_to_move(self._candidates))
            written = context.write(self._plan, frame).actions
        deleted = _rows_in(self._candidates) - _rows_in(written)
        if deleted == 0:
            context.discard(written)
            return self.alone(params, predicate)
        return self._outcome("DELETE", params, predicate, deleted, self._candidates, written)

    def marked(
        self, name: str, params: Params, predicate: Predicate | None, new: Renewal
    ) -> Outcome:
        """Mark rows of the condition as deleted; `new` makes rows and changes of them."""
        context = self._context
        with self._clock.phase("scanTimeMs"):
            rows = context.placed_rows(self._candidates).where(self._condition)
            found = mark(context, self._candidates, rows) if self._candidates else Marked()
        written: Sequence[AddFile | CdcFile] = ()
        if found.gone:
            frame = new(context.rows_to_move(found.gone).where(self._condition))
            try:
                with self._clock.phase("rewriteTimeMs"):
                    written = () if frame is None else context.write(self._plan, frame).actions
            except BaseException:
                context.discard(found.files)
                raise
        return self._outcome(name, params, predicate, found.rows, found.gone, written, found)

    def _outcome(
        self,
        name: str,
        params: Params,
        predicate: Predicate | None,
        rows: int,
        touched: Sequence[AddFile] = (),
        written: Sequence[AddFile | CdcFile] = (),
        vectors: Marked | None = None,
    ) -> Outcome:
        """What is committed; `rows` of the `touched` files were changed."""
        gone: list[Removable] = [*self._whole, *rewritten(touched)]
        marked = vectors or Marked()
        files = changed_files(gone, [*marked.added, *written])
        counts: dict[str, int | None] = {
            _DONE[name]: total([rows, rows_in(self._whole)]),
            "Copied": 0,
        }
        if vectors is None:
            # An update also writes the rows that it changes.
            changed = rows if name == "UPDATE" else 0
            counts["Copied"] = total([files.rows_written, -changed])
        told = files.of_rows()
        if name == "UPDATE":
            told = files.of_update(marks_some=vectors is not None and self._picks_rows)
        return self._context.outcome(
            operation=name,
            params=params,
            reads=reads_of(predicate, gone),
            metrics=change_metrics(counts, told, self._clock),
            gone=gone,
            added=[*marked.added, *written],
            files=[*marked.files, *written],
        )

    # --- the resulting rows -------------------------------------------------------------

    def without_deleted(self, rows: DataFrame) -> DataFrame:
        """The remaining rows; with a change feed, also the deleted ones, as changes."""
        from pyspark.sql import functions as sql

        if not self._context.has_feed:
            return rows.where(~self._matches)
        change = sql.when(self._matches, sql.lit("delete"))
        return rows.select("*", change.alias(CHANGE_TYPE))

    def deleted_rows(self, rows: DataFrame) -> DataFrame | None:
        """The deleted rows as changes, if there is a change feed."""
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
    """A row with its kind of change; None for a row of the table itself."""
    from pyspark.sql import functions as sql

    kind = sql.lit(change).cast("string").alias(CHANGE_TYPE)
    return sql.struct(*(value.alias(name) for name, value in values.items()), kind)


def once(
    rows: DataFrame, values: Mapping[str, Column], where: Column, suffix: str
) -> tuple[DataFrame, dict[str, Column]]:
    """Values computed in a column of their own: the table and its feed get the same random one.

    Only the rows of `where` have them, so that others can't fail on what does not concern them.
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
    """The live rows of files that record how many they have."""
    return sum(
        (record_count(load_stats(add.stats)) or 0)
        - (0 if add.deletion_vector is None else add.deletion_vector.cardinality)
        for add in files
        if isinstance(add, AddFile)
    )


def _params(condition: Condition) -> dict[str, Any]:
    return {"predicate": [condition.text]}
