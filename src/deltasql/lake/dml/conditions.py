"""Where the rows are that satisfy a condition."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.expressions.conditions import TARGET, Condition
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.session import Session
from deltasql.data.reading.placed import FILE, as_places
from deltasql.data.reading.scan import ROW
from deltasql.lake.dml.operation import TableAt
from deltasql.spec.actions import AddFile

Places = dict[int, "array[int]"]


def find_rows(
    session: Session, table: TableAt, files: Sequence[AddFile], condition: Condition
) -> Places:
    """The places of the rows that satisfy a condition, by the number of their file."""
    columns = () if condition.is_whole else condition.columns
    rows = table.rows.read(files, columns=columns, predicate=condition.predicate)
    if condition.is_whole:
        return gathered(batch.select([ROW, FILE]) for batch in rows)
    engine = session.engine
    with engine.reading(table.rows.schema(columns), rows) as name:
        return gathered(
            engine.stream(
                f"SELECT {ROW}, {FILE} FROM {name} AS {quoted(TARGET)} "  # noqa: S608
                f"WHERE {condition.sql} ORDER BY {FILE}, {ROW}"
            )
        )


def gathered(batches: Iterable[pa.RecordBatch]) -> Places:
    """Places from batches of rows and files, ascending within each file."""
    found: Places = {}
    for batch in batches:
        rows, files = batch.column(0), batch.column(1)
        for number in pc.unique(files).to_pylist():
            mine = rows.filter(pc.equal(files, number))
            found.setdefault(number, array("Q")).extend(as_places(mine))
    return found
