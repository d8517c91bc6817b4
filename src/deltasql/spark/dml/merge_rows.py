"""The rows of a merge: the clause for each row, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltasql.errors import SchemaMismatchError
from deltasql.log.feed import CHANGE_TYPE
from deltasql.spark.dml.assignments import (
    as_column,
    column_names,
    completed,
    new_values,
    quoted,
)
from deltasql.spark.dml.merge_builder import Clause, Merge, Side
from deltasql.spark.dml.operation import DmlContext
from deltasql.spark.dml.row_changes import as_row, once, unfolded
from deltasql.spark.native.evolution import Plan
from deltasql.spec.properties import IDENTITY_START

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

CLAUSE = "__deltasql_clause"
_NUMBER = "__deltasql_number_"
_KEPT = -1
_DROPPED = -2


class MergeRows:
    """Makes the rows that a merge writes."""

    def __init__(self, context: DmlContext, plan: Plan, merge: Merge, source_alias: str) -> None:
        self._context = context
        self._merge = merge
        self.source_alias = source_alias
        self._schema: StructType = context.schema(plan)

    def target(self, rows: DataFrame) -> DataFrame:
        """Rows of the table under its alias, with the columns and types that the merge gives it."""
        return self._widened(rows).alias(self._merge.target_alias)

    def clause(self, side: Side) -> Column:
        """The number of the clause for a row of one side; negative if there is none."""
        from pyspark.sql import functions as sql

        found = sql.lit(_DROPPED if side == "not matched" else _KEPT)
        for number, clause in reversed(list(enumerate(self._merge.clauses))):
            if clause.side != side:
                continue
            if clause.condition is None:
                found = sql.lit(number)
            else:
                found = sql.when(as_column(clause.condition), sql.lit(number)).otherwise(found)
        return found

    def changing(self, joined: DataFrame) -> DataFrame:
        """The rows of the target that are updated or deleted."""
        from pyspark.sql import functions as sql

        return joined.where(sql.col(CLAUSE) >= 0)

    def result(self, joined: DataFrame, *, keeps: bool) -> DataFrame:
        """What the target's rows become; `keeps` includes the unchanged ones."""
        from pyspark.sql import functions as sql

        rows = joined if keeps else self.changing(joined)
        if not self._context.has_feed:
            deletes = [n for n, clause in enumerate(self._merge.clauses) if clause.verb == "delete"]
            rows = rows.where(~sql.col(CLAUSE).isin(deletes)) if deletes else rows
        ids = self._context.row_ids
        old = {name: self._target_column(name) for name in self._schema.names}
        new = [
            self._values(joined, clause, old) | ids.changed() if clause.verb == "update" else None
            for clause in self._merge.clauses
        ]
        return self._rows(rows, old | ids.kept(), new)

    def inserted(self, absent: DataFrame, *, with_changes: bool) -> DataFrame:
        """The new rows, from the source's rows without a match."""
        from pyspark.sql import functions as sql

        rows = absent.withColumn(CLAUSE, self.clause("not matched"))
        rows = rows.where(sql.col(CLAUSE) >= 0)
        # Before anything else: evaluated twice, it would give two numbers.
        for field in self._numbered():
            rows = rows.withColumn(
                _NUMBER + field.name, self._context.gateway.identity_values(field)
            )
        rows = rows.alias(self.source_alias)
        numbers = {item.name: sql.col(quoted(_NUMBER + item.name)) for item in self._numbered()}
        ids = self._context.row_ids
        new = [
            self._values(rows, clause, {}, numbers) | ids.new() if clause.verb == "insert" else None
            for clause in self._merge.clauses
        ]
        nothing = {f.name: sql.lit(None).cast(f.dataType) for f in self._schema.fields}
        return self._rows(rows, nothing | ids.new(), new, with_changes=with_changes)

    @property
    def numbered(self) -> list[str]:
        """Identity columns for which inserted rows get new values."""
        return [field.name for field in self._numbered()]

    def _numbered(self) -> list[StructField]:
        inserts = [self._given(clause) for clause in self._merge.of("not matched")]
        return [
            item
            for item in self._schema.fields
            if IDENTITY_START in item.metadata
            and any(item.name.lower() not in set_ for set_ in inserts)
        ]

    def _given(self, clause: Clause) -> set[str]:
        values = self._all_of_source(clause) if clause.values is None else clause.values
        return {
            name.lower()
            for name in column_names(values, self._merge.target_alias, self._schema.names)
        }

    def _rows(
        self,
        rows: DataFrame,
        old: Mapping[str, Column],
        new: Sequence[Mapping[str, Column] | None],
        *,
        with_changes: bool = True,
    ) -> DataFrame:
        from pyspark.sql import functions as sql

        more = self._context.row_ids.names
        if self._context.has_feed and with_changes:
            made = list(new)
            for number, values in enumerate(new):
                if values is not None:
                    applies = sql.col(CLAUSE) == number
                    rows, made[number] = once(rows, values, applies, str(number))
            every = self._with_changes(old, made)
            return completed(unfolded(rows, every), self._schema, *more, CHANGE_TYPE)
        chosen = [_chosen(name, old, new).alias(name) for name in old]
        return completed(rows.select(*chosen), self._schema, *more)

    # --- the values of a row ------------------------------------------------------------

    def _values(
        self,
        rows: DataFrame,
        clause: Clause,
        old: Mapping[str, Column],
        numbers: Mapping[str, Column] | None = None,
    ) -> dict[str, Column]:
        values = self._all_of_source(clause) if clause.values is None else clause.values
        alias = self._merge.target_alias
        return new_values(rows, self._schema, values, alias=alias, old=old, numbers=numbers)

    def _all_of_source(self, clause: Clause) -> dict[str, str | Column]:
        from pyspark.sql import functions as sql

        there = {name.lower(): name for name in self._merge.source.columns}
        missing = [
            item.name
            for item in self._schema.fields
            if item.name.lower() not in there and IDENTITY_START not in item.metadata
        ]
        if missing and not self._merge.evolves:
            raise SchemaMismatchError(
                f"the source has no column {', '.join(missing)}",
                cause=f"a clause {clause.verb}s all columns of rows {clause.side}",
                remedy="name the columns to set, or allow the difference: withSchemaEvolution()",
            )
        return {
            quoted(name): sql.col(f"{quoted(self.source_alias)}.{quoted(there[name.lower()])}")
            for name in self._schema.names
            if name.lower() in there
        }

    def _with_changes(
        self, old: Mapping[str, Column], new: Sequence[Mapping[str, Column] | None]
    ) -> Column:
        """Each row as an array: the row of the table, and the changes for the feed."""
        from pyspark.sql import functions as sql

        every = sql.array(as_row(old, None))
        for number, values in enumerate(new):
            verb = self._merge.clauses[number].verb
            if verb == "delete":
                becomes = [as_row(old, "delete")]
            elif values is None:
                continue
            elif verb == "insert":
                becomes = [as_row(values, None), as_row(values, "insert")]
            else:
                becomes = [
                    as_row(values, None),
                    as_row(old, "update_preimage"),
                    as_row(values, "update_postimage"),
                ]
            every = sql.when(sql.col(CLAUSE) == number, sql.array(*becomes)).otherwise(every)
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
                # Nullability and inner comments may differ; a real change is a cast.
                rows = rows.withColumn(item.name, sql.col(quoted(item.name)).cast(item.dataType))
        return rows


def _chosen(
    name: str, old: Mapping[str, Column], new: Sequence[Mapping[str, Column] | None]
) -> Column:
    """The value of a column: the old one, unless the row's clause sets it."""
    from pyspark.sql import functions as sql

    found = old[name]
    for number, values in enumerate(new):
        if values is not None:
            found = sql.when(sql.col(CLAUSE) == number, values[name]).otherwise(found)
    return found
