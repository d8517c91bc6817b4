"""The rows of a merge: both sides joined, the clause of each row found, its result made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltasql.errors import SchemaMismatchError
from deltasql.spark.assignments import as_column, completed, new_values, quoted
from deltasql.spark.enforcement import ansi_casts
from deltasql.spark.evolution import Plan
from deltasql.spark.merging import Clause, Merge, Side
from deltasql.spark.row_changes import as_row, unfolded
from deltasql.spark.scene import CHANGE_TYPE, FILE, ROW, Scene
from deltasql.spec.actions import AddFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_IN_TARGET = "__deltasql_in_target"
IN_SOURCE = "__deltasql_in_source"
_CLAUSE = "__deltasql_clause"
_KEY = "__deltasql_key"
_KEPT = -1
_DROPPED = -2


class MergeRows:
    """Makes the rows that a merge writes, and finds those it deletes."""

    def __init__(self, scene: Scene, plan: Plan, merge: Merge, source_alias: str) -> None:
        self._scene = scene
        self._merge = merge
        self._source = source_alias
        self._schema: StructType = scene.schema(plan)

    def joined(
        self, touched: Sequence[AddFile], source: DataFrame, condition: Column, *, inserts: bool
    ) -> DataFrame:
        """Target and source side by side, and the number of the clause for each row."""
        from pyspark.sql import functions as sql

        here = self._widened(self._scene.placed_rows(touched))
        target = here.withColumn(_IN_TARGET, sql.expr("true")).alias(self._merge.target_alias)
        there = source.withColumn(IN_SOURCE, sql.expr("true")).alias(self._source)
        rows = target.join(there, condition, "full_outer" if inserts else "left_outer")
        return rows.withColumn(_CLAUSE, self._clause())

    def once(self, joined: DataFrame) -> DataFrame:
        """Each row of the target once, where only deletes see them several times."""
        from pyspark.sql import functions as sql

        # A row without a target stays as it is.
        key = sql.coalesce(ROW, sql.monotonically_increasing_id())
        return joined.withColumn(_KEY, key).dropDuplicates([FILE, _KEY])

    def changing(self, joined: DataFrame) -> DataFrame:
        """The rows of the target that are updated or deleted."""
        from pyspark.sql import functions as sql

        return joined.where(sql.col(_IN_TARGET) & (sql.col(_CLAUSE) >= 0))

    def result(self, joined: DataFrame, *, keeps: bool) -> DataFrame:
        """The rows to write; `keeps` those too that nothing happens to."""
        from pyspark.sql import functions as sql

        wanted = sql.col(_CLAUSE) >= (_KEPT if keeps else 0)
        rows = joined.where(wanted)
        if not self._scene.has_feed:
            deletes = [n for n, clause in enumerate(self._merge.clauses) if clause.verb == "delete"]
            rows = rows.where(~sql.col(_CLAUSE).isin(deletes)) if deletes else rows
        with ansi_casts(joined.sparkSession):
            old = {name: self._target_column(name) for name in self._schema.names}
            new = [self._values(joined, clause, old) for clause in self._merge.clauses]
            if self._scene.has_feed:
                every = self._with_changes(old, new)
                return completed(unfolded(rows, every), self._schema, CHANGE_TYPE)
            chosen = [self._chosen(name, old, new).alias(name) for name in self._schema.names]
            return completed(rows.select(*chosen), self._schema)

    def inserted(self, absent: DataFrame) -> DataFrame:
        """The rows that an insert-only merge writes, from those of the source without a match."""
        from pyspark.sql import functions as sql

        clauses = self._merge.clauses
        rows = absent.withColumn(_CLAUSE, self._first(clauses, range(len(clauses))))
        rows = rows.where(sql.col(_CLAUSE) >= 0).alias(self._source)
        with ansi_casts(absent.sparkSession):
            new = [self._values(rows, clause, {}) for clause in clauses]
            chosen = [self._chosen(name, {}, new).alias(name) for name in self._schema.names]
            return completed(rows.select(*chosen), self._schema)

    # --- the clause of a row ------------------------------------------------------------

    def _clause(self) -> Column:
        from pyspark.sql import functions as sql

        here, there = sql.col(_IN_TARGET).isNotNull(), sql.col(IN_SOURCE).isNotNull()
        return (
            sql.when(here & there, self._of_side("matched", _KEPT))
            .when(here, self._of_side("not matched by source", _KEPT))
            .otherwise(self._of_side("not matched", _DROPPED))
        )

    def _of_side(self, side: Side, otherwise: int) -> Column:
        numbers = [n for n, clause in enumerate(self._merge.clauses) if clause.side == side]
        return self._first([self._merge.clauses[n] for n in numbers], numbers, otherwise)

    def _first(
        self, clauses: Sequence[Clause], numbers: Sequence[int], otherwise: int = _DROPPED
    ) -> Column:
        from pyspark.sql import functions as sql

        found = sql.lit(otherwise)
        for number, clause in reversed(list(zip(numbers, clauses, strict=True))):
            if clause.condition is None:
                found = sql.lit(number)
            else:
                found = sql.when(as_column(clause.condition), sql.lit(number)).otherwise(found)
        return found

    # --- the values of a row ------------------------------------------------------------

    def _values(
        self, rows: DataFrame, clause: Clause, old: Mapping[str, Column]
    ) -> dict[str, Column] | None:
        if clause.verb == "delete":
            return None
        values = clause.values
        if values is None:
            values = self._all_of_source(clause)
        before = {} if clause.verb == "insert" else old
        alias = self._merge.target_alias
        return new_values(rows, self._schema, values, alias=alias, old=before)

    def _all_of_source(self, clause: Clause) -> dict[str, str | Column]:
        from pyspark.sql import functions as sql

        there = {name.lower(): name for name in self._merge.source.columns}
        missing = [name for name in self._schema.names if name.lower() not in there]
        if missing and not self._merge.evolves:
            raise SchemaMismatchError(
                f"the source has no column {', '.join(missing)}",
                cause=f"a clause {clause.verb}s all columns of rows {clause.side}",
                remedy="name the columns to set, or allow the difference: withSchemaEvolution()",
            )
        return {
            quoted(name): sql.col(f"{quoted(self._source)}.{quoted(there[name.lower()])}")
            for name in self._schema.names
            if name.lower() in there
        }

    def _chosen(
        self, name: str, old: Mapping[str, Column], new: Sequence[Mapping[str, Column] | None]
    ) -> Column:
        from pyspark.sql import functions as sql

        kind = next(item.dataType for item in self._schema.fields if item.name == name)
        found = old.get(name, sql.lit(None).cast(kind))
        for number, values in enumerate(new):
            if values is not None:
                found = sql.when(sql.col(_CLAUSE) == number, values[name]).otherwise(found)
        return found

    def _with_changes(
        self, old: Mapping[str, Column], new: Sequence[Mapping[str, Column] | None]
    ) -> Column:
        """Each row as an array: the row of the table, and the changes for the feed."""
        from pyspark.sql import functions as sql

        every = sql.array(as_row(old, None))
        for number, values in enumerate(new):
            verb = self._merge.clauses[number].verb
            if values is None:
                becomes = [as_row(old, "delete")]
            elif verb == "insert":
                becomes = [as_row(values, None), as_row(values, "insert")]
            else:
                becomes = [
                    as_row(values, None),
                    as_row(old, "update_preimage"),
                    as_row(values, "update_postimage"),
                ]
            every = sql.when(sql.col(_CLAUSE) == number, sql.array(*becomes)).otherwise(every)
        return every

    def _target_column(self, name: str) -> Column:
        from pyspark.sql import functions as sql

        return sql.col(f"{quoted(self._merge.target_alias)}.{quoted(name)}")

    def _widened(self, rows: DataFrame) -> DataFrame:
        """The target's rows with the columns and types that the merge gives it."""
        from pyspark.sql import functions as sql

        there = {item.name: item.dataType for item in rows.schema.fields}
        for item in self._schema.fields:
            if item.name not in there:
                rows = rows.withColumn(item.name, sql.lit(None).cast(item.dataType))
            elif there[item.name] != item.dataType:
                # Nullability and inner comments differ without harm; a real change is a cast.
                rows = rows.withColumn(item.name, sql.col(quoted(item.name)).cast(item.dataType))
        return rows
