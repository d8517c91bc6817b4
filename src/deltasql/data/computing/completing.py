"""Completes rows for a table that computes something: columns that they lack, or its rules.

Generated columns are computed, or compared with the values given; defaults and identity values fill
in for absent columns; CHECK constraints and invariants are evaluated by the embedded engine if
Arrow can't express them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltasql.data.computing.identity import (
    Numbers,
    is_identity,
    marks_of,
    numbers_of,
    takes_values,
    with_marks,
)
from deltasql.data.computing.new_rows import ROW, NewRows
from deltasql.data.conform import as_arrow, conform
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.session import Session
from deltasql.data.layout import Layout, layout_of
from deltasql.data.writing import fitting
from deltasql.data.writing.lengths import check_lengths
from deltasql.errors import SchemaMismatchError, UnsupportedFeatureError
from deltasql.spec.actions import Metadata
from deltasql.spec.properties import CURRENT_DEFAULT, GENERATION_EXPRESSION, INVARIANTS
from deltasql.spec.schema import StructField, StructType, parse_schema

Batches = Iterable[pa.RecordBatch]


@dataclass(slots=True)
class Completed:
    """Rows as a table takes them and, once they are read, the metadata that they lead to."""

    rows: pa.Table | pa.RecordBatchReader
    _numbers: list[Numbers] = field(default_factory=list)

    def metadata(self, before: Metadata) -> Metadata:
        """The metadata of the table, with its identity columns advanced."""
        return with_marks(before, marks_of(self._numbers))


@contextmanager
def completed(metadata: Metadata, data: Any, *, memory_limit: str) -> Iterator[Completed]:
    """Anything that speaks Arrow as rows of a table, every column filled and every rule obeyed.

    The rows of a table that computes nothing are `fitted`. Others stream, and must be read inside
    the block.
    """
    layout = layout_of(metadata)
    if layout.computes is None:
        yield Completed(fitting.fitted(metadata, data))
        return
    fitting.check_types(layout)
    declared = parse_schema(metadata.schema_string)
    source = as_arrow(data)
    there = _there(declared, source.schema)
    numbers = [numbers_of(item) for item in declared.fields if is_identity(item)]
    numbers = [item for item in numbers if item.name not in there]
    given = conform(source, _only(layout.schema, declared, there))
    schema = given.schema
    for item in numbers:
        schema = schema.append(pa.field(item.name, pa.int64()))
    batches = _numbered(given, numbers, schema)
    filled = there | {item.name for item in numbers}
    if not _needs_engine(declared, layout, filled):
        rows = conform(
            pa.RecordBatchReader.from_batches(schema, batches),
            layout.schema,
            arrow_schema=layout.logical,
        )
        yield Completed(fitting.checked(check_lengths(rows, layout.limits), layout), numbers)
        return
    with ExitStack() as closing:
        session = closing.enter_context(Session(memory_limit, keeps_order=True))
        name = closing.enter_context(session.engine.reading(schema, batches))
        new = NewRows(session, declared, metadata.configuration)
        values = new.completing(filled)
        chosen = ", ".join(f"{sql} AS {quoted(column)}" for column, sql in values.items())
        query = f"SELECT {chosen} FROM {name} AS {quoted(ROW)}"  # noqa: S608
        made = _fitted(new.made(query, there), layout)
        yield Completed(pa.RecordBatchReader.from_batches(layout.logical, made), numbers)


def completed_table(metadata: Metadata, data: pa.Table, *, memory_limit: str) -> pa.Table:
    """The same at once, for rows that are written later; refuses identity columns."""
    if layout_of(metadata).computes is None:
        return fitting.fitted(metadata, data)
    for item in parse_schema(metadata.schema_string).fields:
        if is_identity(item):
            raise UnsupportedFeatureError(
                "these rows can't be collected",
                cause=f"{item.name!r} is an identity column, numbered when rows are committed",
                remedy="use append",
            )
    with completed(metadata, data, memory_limit=memory_limit) as found:
        return found.rows if isinstance(found.rows, pa.Table) else found.rows.read_all()


def _there(declared: StructType, incoming: pa.Schema) -> set[str]:
    """The columns for which the rows have values."""
    names = {name.lower() for name in incoming.names}
    found = [item for item in declared.fields if item.name.lower() in names]
    for item in found:
        if is_identity(item) and not takes_values(item):
            raise SchemaMismatchError(
                f"the column {item.name!r} can't be written",
                cause="it is GENERATED ALWAYS AS IDENTITY",
                remedy="drop it from the rows; the table numbers them",
                column=item.name,
            )
    return {item.name for item in found}


def _only(schema: StructType, declared: StructType, there: set[str]) -> StructType:
    fields = zip(schema.fields, declared.fields, strict=True)
    return StructType(tuple(item for item, told in fields if told.name in there))


def _numbered(
    given: pa.Table | pa.RecordBatchReader, numbers: list[Numbers], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in given.to_batches() if isinstance(given, pa.Table) else given:
        more = [item.take(batch.num_rows) for item in numbers]
        yield pa.RecordBatch.from_arrays([*batch.columns, *more], schema=schema)


def _needs_engine(declared: StructType, layout: Layout, filled: set[str]) -> bool:
    """Whether an expression has to be evaluated that Arrow can't express."""
    if layout.engine_rules:
        return True
    return any(_computes(item, item.name in filled) for item in declared.fields)


def _computes(item: StructField, is_filled: bool) -> bool:  # noqa: FBT001
    if INVARIANTS in item.metadata or GENERATION_EXPRESSION in item.metadata:
        return True
    return CURRENT_DEFAULT in item.metadata and not is_filled


def _fitted(batches: Batches, layout: Layout) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = conform(pa.table(batch), layout.schema, arrow_schema=layout.logical)
        yield from check_lengths(rows, layout.limits).to_batches()
