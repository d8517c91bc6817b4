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
# Beyond, values that were read to find rows are read again rather than held.
_MOST_VALUES = 1 << 20


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


def find_values(
    session: Session, table: TableAt, files: Sequence[AddFile], condition: Condition
) -> tuple[Places, pa.Table | None]:
    """The places of the rows that satisfy a condition, and what was read to find them.

    These values come after the row and the file, in the order of files and rows; None if they are
    many, or of a type that the engine changes.
    """
    schema = table.rows.schema(condition.columns)
    kept = [schema.field(name) for name in condition.columns]
    if condition.is_whole or not kept or not all(map(_is_plain, kept)):
        return find_rows(session, table, files, condition), None
    found: Places = {}
    values: list[pa.RecordBatch] = []
    rows = table.rows.read(files, columns=condition.columns, predicate=condition.predicate)
    chosen = ", ".join([ROW, FILE, *(quoted(item.name) for item in kept)])
    engine = session.engine
    with engine.reading(schema, rows) as name:
        for batch in engine.stream(
            f"SELECT {chosen} FROM {name} AS {quoted(TARGET)} "  # noqa: S608
            f"WHERE {condition.sql} ORDER BY {FILE}, {ROW}"
        ):
            _gather(found, batch)
            if sum(part.num_rows for part in values) < _MOST_VALUES:
                values.append(batch)
    if not values or sum(part.num_rows for part in values) != sum(map(len, found.values())):
        return found, None
    return found, pa.Table.from_batches(values)


def _is_plain(item: pa.Field) -> bool:
    kind = item.type
    return bool(
        pa.types.is_signed_integer(kind) or pa.types.is_floating(kind) or pa.types.is_date32(kind)
    )


def gathered(batches: Iterable[pa.RecordBatch]) -> Places:
    """Places from batches of rows and files, ascending within each file."""
    found: Places = {}
    for batch in batches:
        _gather(found, batch)
    return found


def _gather(found: Places, batch: pa.RecordBatch) -> None:
    rows, files = batch.column(0), batch.column(1)
    for number in pc.unique(files).to_pylist():
        mine = rows.filter(pc.equal(files, number))
        found.setdefault(number, array("Q")).extend(as_places(mine))
