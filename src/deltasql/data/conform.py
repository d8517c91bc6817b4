"""A user's Arrow data made to fit a table's schema, and the schema widened to fit the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import arrow_type, from_arrow, to_arrow
from deltasql.data.cast import cast_incoming
from deltasql.data.reshape import ReshapeError, Rules, entries_type, reshape
from deltasql.data.row_dicts import table_of_dicts
from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.spec.properties import GENERATION_EXPRESSION
from deltasql.spec.schema import ArrayType, DeltaType, MapType, Primitive, StructField, StructType


def conform(
    data: Any, schema: StructType, *, arrow_schema: pa.Schema | None = None
) -> pa.Table | pa.RecordBatchReader:
    """The data with the table's columns, types and order, or `SchemaMismatchError`.

    Columns match by name without regard to case; absent nullable ones become null. A Table or
    RecordBatch gives a Table; a stream gives a reader that conforms as it is read. `arrow_schema`
    is that of the table, if the caller has it at hand.
    """
    source = as_arrow(data)
    target = to_arrow(schema) if arrow_schema is None else arrow_schema
    if isinstance(source, pa.Table):
        if source.schema.equals(target) and _is_flat(schema):
            for position, item in enumerate(schema.fields):
                if not item.nullable:
                    _check_required([item], [source.column(position)])
            return source
        batches = source.to_batches() or [pa.RecordBatch.from_pylist([], schema=source.schema)]
        return pa.Table.from_batches(
            [_conform_batch(batch, schema, target) for batch in batches], target
        )
    return pa.RecordBatchReader.from_batches(target, _conformed(source, schema, target))


def _conformed(
    source: pa.RecordBatchReader, schema: StructType, target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    # An empty stream must fit, too.
    _conform_batch(pa.RecordBatch.from_pylist([], schema=source.schema), schema, target)
    for batch in source:
        yield _conform_batch(batch, schema, target)


def as_arrow(data: Any) -> pa.Table | pa.RecordBatchReader:
    """Anything that speaks Arrow: as a Table if it is in memory, as a reader if it streams."""
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except pa.ArrowInvalid as error:
        # One column, not a table.
        raise _no_arrow(data) from error
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        return _of_items(data)
    if callable(getattr(data, "scanner", None)):
        # A PyArrow dataset.
        return data.scanner().to_reader()
    if callable(getattr(data, "collect", None)) and hasattr(data, "collect_schema"):
        # A Polars lazy frame.
        return as_arrow(data.collect())
    raise _no_arrow(data)


def _of_items(data: Iterable[Any]) -> pa.Table | pa.RecordBatchReader:
    """Batches, tables, or rows as dicts: a list becomes a Table, a generator a reader."""
    items = _batches(data)
    first = next(items, None)
    if isinstance(first, Mapping) and isinstance(data, Sequence):
        return table_of_dicts(data)
    if first is None:
        raise ValidationError(
            f"an empty {type(data).__qualname__} has no columns",
            cause="it has no rows that would tell their names and types",
            remedy="pass an empty table instead: schema.empty_table()",
        )
    if not isinstance(first, pa.RecordBatch):
        raise _no_arrow(first)
    batches = _alike(chain([first], items), first.schema)
    if isinstance(data, Sequence):
        return pa.Table.from_batches(batches, first.schema)
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _batches(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, pa.Table):
            yield from item.to_batches() or [pa.RecordBatch.from_pylist([], item.schema)]
        else:
            yield item


def _alike(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            raise _no_arrow(batch)
        if not batch.schema.equals(schema):
            raise SchemaMismatchError(
                "the batches have different schemas",
                cause=f"the first has {_columns_of(schema)}, another {_columns_of(batch.schema)}",
                remedy="give them the same schema, or write them one by one",
            )
        yield batch


def _columns_of(schema: pa.Schema) -> str:
    return ", ".join(f"{item.name} {item.type}" for item in schema)[:200]


def _no_arrow(data: Any) -> ValidationError:
    return ValidationError(
        f"can't write a {type(data).__module__}.{type(data).__qualname__}",
        cause="it is not Arrow data",
        remedy="pass a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars frame, "
        "a list of batches or of dicts, or anything with __arrow_c_stream__",
    )


def _conform_batch(batch: pa.RecordBatch, schema: StructType, target: pa.Schema) -> pa.RecordBatch:
    columns = []
    try:
        there = _match(list(batch.schema), schema.fields, "")
        for item, wanted, index in zip(schema.fields, target, there, strict=True):
            if index < 0:
                columns.append(pa.nulls(batch.num_rows, wanted.type))
                continue
            column = batch.column(index)
            columns.append(reshape(column, item.type, wanted.type, rules=_RULES, where=item.name))
    except ReshapeError as error:
        raise SchemaMismatchError(
            f"the column {error.where!r} does not fit the table",
            cause=error.reason,
            remedy="cast the column before writing",
            column=error.where,
        ) from None
    _check_required(schema.fields, columns)
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _match(fields: Sequence[pa.Field], wanted: Sequence[StructField], where: str) -> list[int]:
    """The index of each wanted field; refuses unknown fields and absent required ones."""
    index: dict[str, int] = {}
    for position, item in enumerate(fields):
        if index.setdefault(item.name.lower(), position) != position:
            raise SchemaMismatchError(
                f"the data has two columns {_at(where, item.name)!r}",
                cause="column names in Delta are case-insensitive",
                remedy="rename or drop one of them",
            )
    found = [index.pop(item.name.lower(), -1) for item in wanted]
    if index:
        names = ", ".join(sorted(_at(where, fields[position].name) for position in index.values()))
        raise SchemaMismatchError(
            f"the table has no column {names}",
            cause="the data holds columns that the schema lacks",
            remedy='drop them, or let the schema grow with schema_mode="merge"',
        )
    for item, position in zip(wanted, found, strict=True):
        if position < 0 and not item.nullable:
            raise _required(_at(where, item.name), "the data lacks it")
    return found


_RULES = Rules(match=_match, cast=cast_incoming)


# --- NOT NULL -------------------------------------------------------------------------


def _is_flat(schema: StructType) -> bool:
    return {type(item.type) for item in schema.fields} <= {Primitive}


def _check_required(fields: Sequence[StructField], columns: Sequence[Any]) -> None:
    for item, column in zip(fields, columns, strict=True):
        if not item.nullable and column.null_count:
            raise _required(item.name, "the data holds nulls")
        if not isinstance(item.type, Primitive):
            _check_nested(column, item.type, item.name)


def _check_nested(column: Any, kind: DeltaType, where: str) -> None:
    match kind:
        case StructType(fields):
            present = column.drop_null() if column.null_count else column
            for position, item in enumerate(fields):
                child = pc.struct_field(present, [position])
                if not item.nullable and child.null_count:
                    raise _required(_at(where, item.name), "the data holds nulls")
                _check_nested(child, item.type, _at(where, item.name))
        case ArrayType(element, contains_null):
            elements = pc.list_flatten(column)
            if not contains_null and elements.null_count:
                raise _required(f"{where}[]", "the data holds nulls")
            _check_nested(elements, element, f"{where}[]")
        case MapType(key, value, contains_null):
            entries = pc.list_flatten(column.cast(entries_type(column.type)))
            items = pc.struct_field(entries, [1])
            if not contains_null and items.null_count:
                raise _required(f"{where}[value]", "the data holds nulls")
            _check_nested(pc.struct_field(entries, [0]), key, f"{where}[key]")
            _check_nested(items, value, f"{where}[value]")


def _required(where: str, cause: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the column {where!r} must have a value in every row",
        cause=f"it is NOT NULL and {cause}",
        remedy="fill it before writing",
        column=where,
    )


# --- schema_mode="merge" --------------------------------------------------------------


def merge(schema: StructType, incoming: pa.Schema, *, column_mapping: bool = False) -> StructType:
    """The schema with the data's new columns appended, nullable, in structs too.

    Under column mapping the caller must still give the new fields an id and a physical name.
    """
    fresh = from_arrow(incoming, column_mapping=column_mapping)
    return _merge_struct(schema, fresh, "")


def check_added(fields: Iterable[StructField]) -> None:
    """Refuse new columns that the table would compute: existing rows lack them."""
    for item in fields:
        if GENERATION_EXPRESSION in item.metadata:
            raise ValidationError(
                f"the column {item.name!r:.80} can't be added: it is generated",
                cause="existing rows would break its expression; Delta refuses it, too",
                remedy="create the table with it, or add a plain column",
            )


def _merge_struct(old: StructType, new: StructType, where: str) -> StructType:
    by_name = {item.name.lower(): item for item in new.fields}
    merged = []
    for item in old.fields:
        other = by_name.pop(item.name.lower(), None)
        kind = item.type
        if other is not None:
            kind = _merge_type(item.type, other.type, _at(where, item.name))
        merged.append(item if kind is item.type else replace(item, type=kind))
    added = [replace(item, nullable=True) for item in by_name.values()]
    check_added(added)
    if not added and all(a is b for a, b in zip(merged, old.fields, strict=True)):
        return old
    return StructType((*merged, *added))


def _merge_type(old: DeltaType, new: DeltaType, where: str) -> DeltaType:
    match old, new:
        case StructType(), StructType():
            return _merge_struct(old, new, where)
        case ArrayType(), ArrayType():
            element = _merge_type(old.element, new.element, f"{where}[]")
            return old if element is old.element else replace(old, element=element)
        case MapType(), MapType():
            key = _merge_type(old.key, new.key, f"{where}[key]")
            value = _merge_type(old.value, new.value, f"{where}[value]")
            same = key is old.key and value is old.value
            return old if same else replace(old, key=key, value=value)
    if new == Primitive("void") or _fits(old, new):
        return old
    raise SchemaMismatchError(
        f"the column {where!r} is {_shown(old)} and the data has {_shown(new)}",
        cause="merging adds columns; it does not change types",
        remedy=f"cast the data to {_shown(old)}, or change the column's type first",
        column=where,
    )


def _fits(old: DeltaType, new: DeltaType) -> bool:
    """Whether values of the new type fit into the old one: then nothing has to change."""
    if old == new:
        return True
    order = ["byte", "short", "integer", "long"]
    if not isinstance(old, Primitive) or not isinstance(new, Primitive):
        return False
    if old.name in order and new.name in order:
        return order.index(new.name) < order.index(old.name)
    return (new.name, old.name) in {("float", "double"), ("timestamp_ntz", "timestamp")}


def _shown(kind: DeltaType) -> str:
    return kind.name if isinstance(kind, Primitive) else str(arrow_type(kind))


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
