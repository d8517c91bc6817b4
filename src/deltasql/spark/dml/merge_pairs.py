"""The matching rows of both sides of a merge, found once and used for everything that follows.

Usually few rows match, so they are kept: what is written afterwards takes the target's rows from
their files, and the source's as they came, and looks up which of them have a partner. Neither side
is shuffled again. If there are too many pairs to send to every task, both sides are joined once
more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltasql.spark.dml.assignments import quoted
from deltasql.spark.dml.merge_rows import CLAUSE, MergeRows
from deltasql.spark.dml.operation import FILE, ROW, DmlContext
from deltasql.spark.native.paths import place_of
from deltasql.spec.actions import AddFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE_ROW = "__deltasql_source_row"
# The position of the target's row, beside the source's columns.
_AT_FILE = "__deltasql_at_file"
_AT_ROW = "__deltasql_at_row"
_MATCHED = "__deltasql_matched"


def with_row_numbers(source: DataFrame) -> DataFrame:
    """The source, cut off from its origin, so that reading it again gives the same rows."""
    from pyspark.sql import functions as sql

    numbered = source.withColumn(SOURCE_ROW, sql.monotonically_increasing_id())
    return numbered.localCheckpoint(eager=False)


@dataclass(frozen=True, slots=True)
class Found:
    """Files with a matching row, those of them in which one changes, and what forbids the merge.

    `is_doubled` is set if a row matches several rows of the source. As in Delta, it does not matter
    whether more than one of them would change it.
    """

    matched: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    is_doubled: bool = False
    # How many rows of the target each clause changes, by the clause's number.
    counts: Mapping[int, int] = field(default_factory=dict)


class Pairs:
    """Pairs of a row of the target and a row of the source, with the clause for each."""

    def __init__(
        self,
        context: DmlContext,
        rows: MergeRows,
        candidates: Sequence[AddFile],
        source: DataFrame,
        condition: Column,
    ) -> None:
        from pyspark.sql import functions as sql

        self._rows = rows
        self._context = context
        self._source = source
        self._condition = condition
        target = rows.target(context.placed_rows(candidates))
        self._all = (
            target.join(source, condition, "inner")
            .withColumn(_MATCHED, rows.clause("matched"))
            .select(
                sql.col(FILE).alias(_AT_FILE),
                sql.col(ROW).alias(_AT_ROW),
                _MATCHED,
                sql.col(f"{quoted(rows.source_alias)}.*"),
            )
            .persist()
        )

    def close(self) -> None:
        """Release the memory."""
        self._all.unpersist()

    def found(self, clauses: Sequence[int]) -> Found:
        """Where rows match, and where the clauses with those numbers change them."""
        from pyspark.sql import functions as sql

        by_clause = [sql.count(sql.when(sql.col(_MATCHED) == number, 1)) for number in clauses]
        files = self._all.groupBy(_AT_FILE).agg(
            sql.count(_AT_ROW), sql.count_distinct(_AT_ROW), *by_clause
        )
        found = [
            (place_of(path), pairs, rows, each) for path, pairs, rows, *each in files.collect()
        ]
        sums = [sum(column) for column in zip(*(each for *_, each in found), strict=True)]
        is_doubled = any(pairs > rows for _, pairs, rows, _ in found)
        if is_doubled:
            # Every matching row is deleted, once.
            sums = [sum(rows for _, _, rows, _ in found)]
        return Found(
            frozenset(path for path, *_ in found),
            frozenset(path for path, *_, each in found if any(each)),
            is_doubled,
            dict(zip(clauses, sums, strict=False)),
        )

    def joined(self, files: Sequence[AddFile], *, is_doubled: bool) -> DataFrame:
        """The target's rows in some files, each with its partner and its clause's number."""
        from pyspark.sql import functions as sql

        target = self._rows.target(self._context.placed_rows(files))
        if self._context.gateway.is_small(self._all.select("*")):
            there = self._all.alias(self._rows.source_alias)
            on = (sql.col(FILE) == sql.col(_AT_FILE)) & (sql.col(ROW) == sql.col(_AT_ROW))
            matched = sql.col(_MATCHED)
        else:
            there, on = self._source, self._condition
            matched = sql.when(sql.col(SOURCE_ROW).isNotNull(), self._rows.clause("matched"))
        clause = sql.coalesce(matched, self._rows.clause("not matched by source"))
        rows = target.join(there, on, "left").withColumn(CLAUSE, clause)
        # A row that matches several times can only be deleted.
        return rows.dropDuplicates([FILE, ROW]) if is_doubled else rows

    def absent(self) -> DataFrame:
        """The source's rows without a partner."""
        from pyspark.sql import functions as sql

        met = self._all.select(sql.col(SOURCE_ROW).alias(_MATCHED))
        return self._source.join(met, sql.col(SOURCE_ROW) == sql.col(_MATCHED), "left_anti")

    def marks(self) -> DataFrame:
        """The positions of the target's rows that match and change."""
        from pyspark.sql import functions as sql

        changing = self._all.where(sql.col(_MATCHED) >= 0)
        return changing.select(sql.col(_AT_FILE).alias(FILE), sql.col(_AT_ROW).alias(ROW))
