"""A condition on the rows of a table: as the log understands it, and as the engine evaluates it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.expressions import dialect
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.predicates import understood
from deltasql.data.expressions.session import Session, relation_of
from deltasql.data.reading.placed import FILE, as_places
from deltasql.data.reading.scan import ROW
from deltasql.errors import DeltaSqlError, ValidationError
from deltasql.lake.dml.operation import TableAt
from deltasql.log.predicates.predicate import Predicate, bind, parse
from deltasql.log.state import TableState
from deltasql.spec.actions import AddFile

TARGET = "target"
Places = dict[int, "array[int]"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; `predicate` is the part the log understands, all of it if `is_whole`."""

    text: str
    predicate: Predicate | None
    is_whole: bool
    sql: str = ""
    columns: tuple[str, ...] = ()


def condition_of(session: Session, state: TableState, text: str) -> Condition:
    """A WHERE text on a table's rows."""
    if not isinstance(text, str):
        raise ValidationError(
            f"a condition must be text, not {type(text).__name__}",
            remedy="write it as in SQL: amount > 10",
        )
    try:
        return Condition(text, bind(parse(text), state.schema), is_whole=True)
    except DeltaSqlError:
        # The log can't express this condition.
        pass
    node = dialect.parse(session.engine, text)
    relation = relation_of(state.schema, TARGET)
    translator = session.translator(relation)
    sql = translator.condition(node)

    def own(names: Sequence[str]) -> tuple[str, ...] | None:
        found = translator.scope.find(names)
        return None if found is None else (found.column, *found.path)

    predicate, _ = understood(node, state.schema, own)
    columns = tuple(sorted(name for _, name in translator.used))
    return Condition(text, predicate, is_whole=False, sql=sql, columns=columns)


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
