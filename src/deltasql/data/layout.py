"""How a table's rows lie in its files: physical names, field ids, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from deltasql.data.arrow_schema import arrow_type, to_arrow
from deltasql.data.writing import lengths
from deltasql.data.writing.stats import Indexed, indexed
from deltasql.errors import (
    DeltaSqlError,
    LogFormatError,
    UnsupportedFeatureError,
    ValidationError,
)
from deltasql.log.predicates.predicate import bind, parse
from deltasql.spec.actions import Metadata
from deltasql.spec.properties import COLUMN_MAPPING_MODE, CONSTRAINT_PREFIX, PHYSICAL_NAME
from deltasql.spec.protocol import arrow_writer_computes, arrow_writer_obstacle
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    Primitive,
    StructField,
    StructType,
    parse_schema,
)

_MODES = ("none", "name", "id")
_FIELD_ID = b"PARQUET:field_id"
_VOID = Primitive("void")


@dataclass(frozen=True, slots=True)
class Layout:
    """What a writer needs to know about a table; `stored` are the positions that go into files.

    `obstacle` says why its rows can't be written from Arrow; None if they can. `computes` says what
    is computed from them, and `engine_rules` whether that is a rule that Arrow can't express.
    `limits` are the lengths of texts, `constraints` the names and texts of the CHECK constraints.
    If it `takes_any`, no value of the right type can be wrong.
    """

    schema: StructType
    obstacle: str | None
    computes: str | None
    engine_rules: bool
    constraints: tuple[tuple[str, str], ...]
    limits: tuple[lengths.Limit, ...]
    partition: tuple[StructField, ...]
    partition_positions: tuple[int, ...]
    stored: tuple[int, ...]
    logical: pa.Schema
    physical: pa.Schema
    leaves: tuple[Indexed, ...]
    takes_any: bool


def layout_of(metadata: Metadata) -> Layout:
    """The layout of a table, cached: small appends come in thousands."""
    return _layout(
        metadata.schema_string,
        tuple(metadata.partition_columns),
        tuple(metadata.configuration.items()),
    )


@lru_cache(maxsize=256)
def _layout(
    schema_string: str,
    partition_columns: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
) -> Layout:
    configuration = dict(properties)
    declared = parse_schema(schema_string)
    schema = physical_schema(declared, configuration.get(COLUMN_MAPPING_MODE, "none").lower())
    partition = [_partition_field(schema, name) for name in partition_columns]
    stored = [item for item in schema.fields if item not in partition and item.type != _VOID]
    if not stored:
        raise ValidationError(
            "the table has no column to store",
            cause="every column partitions the table, or is void",
            remedy="leave one column out of partition_by",
        )
    kept = StructType(tuple(stored))
    limits = lengths.limits(declared)
    constraints = tuple(
        (key.removeprefix(CONSTRAINT_PREFIX), text)
        for key, text in properties
        if key.startswith(CONSTRAINT_PREFIX)
    )
    unknown = _unknown(schema, constraints)
    return Layout(
        schema=schema,
        # The declared schema: without column mapping the other one lacks the columns' metadata.
        obstacle=arrow_writer_obstacle(declared, configuration) or lengths.obstacle(declared),
        computes=unknown or arrow_writer_computes(declared),
        engine_rules=unknown is not None,
        constraints=constraints,
        limits=limits,
        partition=tuple(partition),
        partition_positions=tuple(schema.fields.index(item) for item in partition),
        stored=tuple(schema.fields.index(item) for item in stored),
        logical=to_arrow(schema),
        physical=pa.schema([_physical_field(item) for item in stored]),
        leaves=tuple(indexed(kept, configuration)),
        takes_any=not limits
        and all(item.nullable and isinstance(item.type, Primitive) for item in schema.fields),
    )


def _unknown(schema: StructType, constraints: Sequence[tuple[str, str]]) -> str | None:
    """The first CHECK constraint that Arrow can't express."""
    for name, text in constraints:
        try:
            bind(parse(text), schema)
        except DeltaSqlError as error:
            return f"the CHECK constraint {name}: {text} needs an engine: {error.problem}"
    return None


def _partition_field(schema: StructType, name: str) -> StructField:
    item = schema.field(name)
    if item is None or not isinstance(item.type, Primitive):
        raise LogFormatError(
            f"the table is partitioned by {name!r}, which is not a scalar column of its schema",
            remedy="correct the table's metaData",
        )
    return item


def physical_schema(schema: StructType, mode: str) -> StructType:
    """The schema with only the physical names and ids that the mapping mode uses."""
    if mode not in _MODES:
        raise UnsupportedFeatureError(
            f"the table maps its columns by {mode!r:.40}",
            cause="deltasql knows the modes none, name and id",
            remedy="read the table with the engine that wrote it",
        )
    if mode == "none":
        return StructType(_plain(schema.fields))
    _check_mapped(schema)
    return schema


def _check_mapped(kind: DeltaType) -> None:
    match kind:
        case StructType(fields):
            for item in fields:
                if item.field_id is None or PHYSICAL_NAME not in item.metadata:
                    raise LogFormatError(
                        f"the column {item.name!r} has no physical name or no id",
                        cause="the table maps its columns, and the schema does not say how for "
                        "this one",
                        remedy="correct the schemaString in the table's metaData",
                    )
                _check_mapped(item.type)
        case ArrayType(element):
            _check_mapped(element)
        case MapType(key, value):
            _check_mapped(key)
            _check_mapped(value)


def _plain(fields: Sequence[StructField]) -> tuple[StructField, ...]:
    return tuple(StructField(item.name, _plain_type(item.type), item.nullable) for item in fields)


def _plain_type(kind: DeltaType) -> DeltaType:
    match kind:
        case StructType(fields):
            return StructType(_plain(fields))
        case ArrayType(element, contains_null):
            return ArrayType(_plain_type(element), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_plain_type(key), _plain_type(value), contains_null)
        case Primitive():
            return kind


def _physical_field(item: StructField) -> pa.Field:
    identity = item.field_id
    metadata = None if identity is None else {_FIELD_ID: str(identity).encode()}
    return pa.field(item.physical_name, _physical_type(item.type), item.nullable, metadata)


def _physical_type(kind: DeltaType) -> pa.DataType:
    match kind:
        case StructType(fields):
            return pa.struct([_physical_field(item) for item in fields])
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", _physical_type(element), contains_null))
        case MapType(key, value, contains_null):
            item = pa.field("value", _physical_type(value), contains_null)
            return pa.map_(_physical_type(key), item)
        case Primitive():
            if kind == _VOID:
                raise UnsupportedFeatureError(
                    "a void field inside another column can't be written",
                    cause="Parquet has no type for it",
                    remedy="give the field a type",
                )
            return arrow_type(kind)


def check_conformed(schema: pa.Schema, layout: Layout) -> None:
    """Raise `ValidationError` unless data of that schema may be written as it is."""
    wanted = layout.logical
    if schema.equals(wanted):
        return
    # NOT NULL was checked on the values, so the fields' flags don't matter.
    if schema.names != wanted.names or schema.types != wanted.types:
        raise ValidationError(
            "the data does not have the table's columns",
            cause=f"it has {', '.join(f'{item.name} {item.type}' for item in schema)}",
            remedy="conform it to the table's schema first",
        )


class _Relabelled:
    """An array under another type of the same layout, through Arrow's C interface."""

    __slots__ = ("_array", "_type")

    def __init__(self, array: pa.Array, kind: pa.DataType) -> None:
        self._array = array
        self._type = kind

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._type.__arrow_c_schema__(), self._array.__arrow_c_array__()[1]


def to_physical(table: pa.Table, layout: Layout) -> pa.Table:
    """The columns that go into files, under their physical names; nothing is copied."""
    if table.schema.equals(layout.physical):
        return table
    columns = []
    for position, wanted in zip(layout.stored, layout.physical, strict=True):
        column = table.column(position)
        if column.type != wanted.type:
            chunks = [pa.array(_Relabelled(chunk, wanted.type)) for chunk in column.chunks]
            column = pa.chunked_array(chunks, type=wanted.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=layout.physical)
