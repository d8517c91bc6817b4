"""Row tracking: rewritten rows keep their ids.

A row's id is its file's first one plus its position, until the row moves to another file: then it
is a value in a column that the table's properties name and no schema shows. The version that last
changed the row works the same way; a null there stands for the commit that writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltasql.log.state import TableState
from deltasql.spark.dml.assignments import quoted
from deltasql.spec.properties import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class RowIds:
    """The two columns, id and version; none if a table does not track its rows."""

    names: tuple[str, ...] = ()
    # The metadata by which Delta's writer recognises them.
    marks: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: TableState, schema: StructType) -> RowIds:
        """The columns of a table, from the schema of its rows with their ids."""
        names = (state.properties[ROW_ID_COLUMN], state.properties[ROW_COMMIT_VERSION_COLUMN])
        return cls(names, {name: schema[name].metadata for name in names})

    def marked(self, rows: DataFrame) -> DataFrame:
        """The rows as Delta's writer wants them: computed columns have lost their marks."""
        for name, mark in self.marks.items():
            if name in rows.columns:
                rows = rows.withMetadata(name, mark)
        return rows

    # --- the values of a row ------------------------------------------------------------

    def kept(self) -> dict[str, Column]:
        """Both values for a row that merely moves."""
        from pyspark.sql import functions as sql

        return {name: sql.col(quoted(name)) for name in self.names}

    def changed(self) -> dict[str, Column]:
        """Both values for a row that is updated: the same row, as of this version."""
        return {**self.kept(), **{name: _nothing() for name in self.names[1:]}}

    def new(self) -> dict[str, Column]:
        """Both values for a new row."""
        return {name: _nothing() for name in self.names}


def _nothing() -> Column:
    from pyspark.sql import functions as sql

    return sql.lit(None).cast("bigint")
