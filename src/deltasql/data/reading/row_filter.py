"""Which rows of a batch satisfy a predicate."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.reading.row_compare import (
    Mask,
    Values,
    compare_columns,
    compare_literal,
    is_one_of,
    plain,
)
from deltasql.errors import ValidationError
from deltasql.log.predicates.ast import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    like_regex,
)


def row_mask(bound_predicate: Predicate, rows: pa.Table | pa.RecordBatch) -> Mask:
    """True for the rows to keep, false for the others; unknown is not kept.

    `rows` has the table's logical column names, and every column that the predicate names.
    """
    mask = _evaluate(bound_predicate, rows)
    if isinstance(mask, pa.Scalar):
        mask = pa.repeat(mask, rows.num_rows)
        if isinstance(rows, pa.Table):
            mask = pa.chunked_array([mask])
    return pc.fill_null(mask, fill_value=False)


def _evaluate(predicate: Predicate, rows: Any) -> Mask:
    match predicate:
        case And(parts):
            return _combine(pc.and_kleene, parts, rows)
        case Or(parts):
            return _combine(pc.or_kleene, parts, rows)
        case Not(part):
            return pc.invert(_evaluate(part, rows))
        case Constant(value):
            return pa.scalar(value, pa.bool_())
        case Comparison():
            return _compare(predicate, rows)
    return _test(predicate, rows)


def _combine(kernel: Any, parts: tuple[Predicate, ...], rows: Any) -> Mask:
    mask = _evaluate(parts[0], rows)
    for part in parts[1:]:
        mask = kernel(mask, _evaluate(part, rows))
    return mask


def _compare(predicate: Comparison, rows: Any) -> Mask:
    left, right = _values(predicate.left, rows), predicate.right
    operator = "=" if predicate.operator == "<=>" else predicate.operator
    if isinstance(right, Literal):
        mask = compare_literal(left, operator, right.value)
        return pc.fill_null(mask, fill_value=False) if predicate.operator == "<=>" else mask
    other = _values(right, rows)
    mask = compare_columns(left, operator, other)
    if predicate.operator != "<=>":
        return mask
    both_null = pc.and_(pc.is_null(left), pc.is_null(other))
    return pc.or_(both_null, pc.fill_null(mask, fill_value=False))


def _test(predicate: In | Like | IsNull, rows: Any) -> Mask:
    values = _values(predicate.column, rows)
    match predicate:
        case IsNull():
            return pc.is_null(values)
        case In(_, literals):
            mask = is_one_of(values, [value for value in literals if value is not None])
            missed = pa.scalar(None if None in literals else False, pa.bool_())
            return pc.or_kleene(mask, missed)
        case Like(_, pattern):
            return pc.match_substring_regex(plain(values), rf"\A(?:{like_regex(pattern)})\z")


def _values(column: Column, rows: Any) -> Values:
    """The column's values; a field of a null struct is null."""
    name, *nested = column.path
    values = rows.column(name) if rows.schema.get_field_index(name) >= 0 else None
    for field in nested:
        if values is not None:
            known = values.type.get_field_index(field) >= 0
            values = pc.struct_field(values, [field]) if known else None
    if values is None:
        raise ValidationError(
            f"the rows to filter have no column {column}",
            cause=f"they have {', '.join(rows.schema.names) or 'none'}",
            remedy="read the columns that the predicate names as well",
        )
    return values
