"""Rows as a table takes them: conformed to its schema, its constraints enforced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.conform import conform
from deltasql.data.layout import Layout, layout_of
from deltasql.data.reading.row_filter import row_mask
from deltasql.data.writing.lengths import check_lengths
from deltasql.errors import SchemaMismatchError, UnsupportedFeatureError
from deltasql.log.predicates.predicate import bind, parse
from deltasql.spec.actions import Metadata


def fitted(metadata: Metadata, data: Any) -> pa.Table | pa.RecordBatchReader:
    """Rows as a table takes them, its constraints checked; those of a Table at once."""
    layout = layout_of(metadata)
    _must_fit_arrow(layout)
    if not (layout.takes_any and isinstance(data, pa.Table) and data.schema.equals(layout.logical)):
        data = conform(data, layout.schema, arrow_schema=layout.logical)
        data = check_lengths(data, layout.limits)
    return checked(data, layout)


def check_from_arrow(metadata: Metadata) -> None:
    """Raise unless rows can be written from Arrow alone, with the table's rules enforced."""
    _must_fit_arrow(layout_of(metadata))


def check_types(layout: Layout) -> None:
    """Raise unless the table's types and rules can be written without Spark."""
    if layout.obstacle is not None:
        is_void = layout.obstacle.endswith("of type void")
        remedy = "cast the column to a type, such as pa.string(), or " if is_void else ""
        raise _unwritable(
            layout.obstacle, f"{remedy}write the table with Spark (see docs/features.md)"
        )


def _must_fit_arrow(layout: Layout) -> None:
    check_types(layout)
    if layout.computes is not None:
        raise _unwritable(layout.computes, "write the table with Spark, or with append")


def _unwritable(cause: str, remedy: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "these rows can't be written without Spark", cause=cause, remedy=remedy
    )


def checked(
    rows: pa.Table | pa.RecordBatchReader, layout: Layout
) -> pa.Table | pa.RecordBatchReader:
    """The rows, with every CHECK constraint of the table enforced."""
    for name, text in layout.constraints:
        predicate = bind(parse(text), layout.schema)
        rows = _each(rows, partial(row_mask, predicate), f"CHECK constraint {name}: {text}")
    return rows


def must_satisfy(
    rows: pa.Table | pa.RecordBatchReader, mask: Callable[[Any], Any], where: str
) -> pa.Table | pa.RecordBatchReader:
    """The rows of an overwrite, each of which must satisfy the overwrite's condition."""
    return _each(rows, mask, f"the overwrite's own condition {where}")


def _each(
    rows: pa.Table | pa.RecordBatchReader, mask: Callable[[Any], Any], rule: str
) -> pa.Table | pa.RecordBatchReader:
    def check(batch: Any) -> Any:
        # As in Delta, a row breaks a rule that is null for it.
        kept = pc.sum(pc.fill_null(mask(batch), fill_value=False)).as_py() or 0
        if kept < batch.num_rows:
            raise SchemaMismatchError(
                f"{batch.num_rows - kept} rows break {rule}",
                cause="the condition is false or null for them",
                remedy="leave these rows out, or change the condition",
            )
        return batch

    if isinstance(rows, pa.Table):
        return check(rows)
    return pa.RecordBatchReader.from_batches(rows.schema, (check(batch) for batch in rows))
