"""What `replace_where` leaves of files that contained rows of its condition, as frames to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltasql.log.feed import CHANGE_TYPE
from deltasql.log.removal import Sorted
from deltasql.spark.dml.assignments import as_column
from deltasql.spark.native.enforcement import fit
from deltasql.spec.actions import AddFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    Frames = Callable[[Sequence[AddFile]], DataFrame]


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a condition's rows: `old` reads earlier files, `new` those written now.

    `schema` is the table's future one.
    """

    condition: str
    schema: StructType
    old: Frames
    new: Frames

    def rest(self, touched: Sequence[AddFile]) -> DataFrame:
        """The rows that stay."""
        return self._fitted(self.old(touched)).where(~self._matches)

    def changes(self, found: Sorted, written: Sequence[AddFile]) -> DataFrame:
        """The remaining rows, the deleted ones and the new ones, the latter two as changes."""
        from pyspark.sql import functions as sql

        rows = self._fitted(self.old([*found.whole, *found.partial]))
        gone = sql.when(self._matches, sql.lit("delete"))
        came = self.new(written).select("*", sql.lit("insert").alias(CHANGE_TYPE))
        return rows.select("*", gone.alias(CHANGE_TYPE)).unionByName(came)

    @property
    def _matches(self) -> Column:
        from pyspark.sql import functions as sql

        # A row for which the condition is null does not match it.
        return sql.coalesce(as_column(self.condition).cast("boolean"), sql.lit(False))  # noqa: FBT003

    def _fitted(self, rows: DataFrame) -> DataFrame:
        """Rows of the table with the columns that it will have, which they usually have already."""
        have, want = rows.schema.fields, self.schema.fields
        if [(f.name, f.dataType.simpleString()) for f in have] == [
            (f.name, f.dataType.simpleString()) for f in want
        ]:
            return rows
        columns = fit(rows, self.schema)
        lacking = [field for field in want if field.name not in columns.columns]
        return columns.withColumns({field.name: _null(field.dataType) for field in lacking})


def _null(kind: object) -> Column:
    from pyspark.sql import functions as sql

    return sql.lit(None).cast(kind)  # type: ignore[arg-type]
