"""A Delta schema as an Arrow schema, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.types as pat

from deltasql.errors import LogFormatError, UnsupportedFeatureError, ValidationError
from deltasql.spec import codec
from deltasql.spec.properties import (
    CURRENT_DEFAULT,
    DELTA_PREFIX,
    EXISTS_DEFAULT,
    FIELD_ID,
    IDENTITY_ALLOWS_EXPLICIT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
    PHYSICAL_NAME,
)
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    Primitive,
    StructField,
    StructType,
    parse_schema,
)

_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_FROM_ARROW: dict[pa.DataType, str] = {kind: name for name, kind in _SIMPLE.items()} | {
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.date64(): "date",
}
MAX_PRECISION = 38
# Metadata keys of Arrow itself, and of the file that a field was read from.
_OF_FILES = ("PARQUET:", "ARROW:", "pandas")
# What Delta and Spark keep in a field's metadata for themselves.
_COMPUTING = (DELTA_PREFIX, CURRENT_DEFAULT, EXISTS_DEFAULT, "__")
# Arrow's metadata is text; these values of Delta's are numbers or booleans.
_NOT_TEXTS = (IDENTITY_START, IDENTITY_STEP, IDENTITY_HIGH_WATER_MARK, IDENTITY_ALLOWS_EXPLICIT)
# Spark refuses these in the names of Parquet columns; column mapping hides them from Spark.
_SPECIAL = frozenset(" ,;{}()\n\t=")


def to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that the table's rows have."""
    return pa.schema([_to_field(item) for item in schema.fields])


def described(schema: StructType) -> pa.Schema:
    """The same with what people say of their columns: comments, and metadata of their own.

    Without what makes a table compute: columns of another table are columns without that.
    """
    return pa.schema([_described(item) for item in schema.fields])


def _described(item: StructField) -> pa.Field:
    said = {
        key: value
        for key, value in item.metadata.items()
        if isinstance(value, str) and not key.startswith(_COMPUTING)
    }
    return _to_field(item).with_metadata(said) if said else _to_field(item)


def _to_field(item: StructField) -> pa.Field:
    return pa.field(item.name, arrow_type(item.type), item.nullable)


def arrow_type(kind: DeltaType) -> pa.DataType:
    """The Arrow type of a Delta type."""
    match kind:
        case Primitive(name):
            return _primitive(kind, name)
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), contains_null))
        case MapType(key, value, contains_null):
            return pa.map_(
                arrow_type(key), pa.field("value", arrow_type(value), nullable=contains_null)
            )
        case StructType(fields):
            return pa.struct([_to_field(item) for item in fields])


def _primitive(kind: Primitive, name: str) -> pa.DataType:
    simple = _SIMPLE.get(name)
    if simple is not None:
        return simple
    decimal = kind.decimal
    if decimal is not None and 1 <= decimal[0] <= MAX_PRECISION and 0 <= decimal[1] <= decimal[0]:
        return pa.decimal128(*decimal)
    raise UnsupportedFeatureError(
        f"the type {name} has no Arrow equivalent here",
        cause="deltasql reads and writes all scalar types of Delta except variant",
        remedy="read the other columns, or read the table with Spark",
    )


@runtime_checkable
class ArrowSchema(Protocol):
    """The schema of any library that speaks Arrow: PyArrow, Polars, deltalake, arro3."""

    def __arrow_c_schema__(self) -> object:
        """The schema as Arrow's capsule."""
        ...


def schema_of(given: ArrowSchema | Sequence[ArrowSchema]) -> pa.Schema:
    """A schema of any library, or a list of fields, as PyArrow's."""
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, ArrowSchema):
        try:
            return pa.schema(given)
        except pa.ArrowInvalid as error:
            raise _no_field(given, str(error)) from None
    fields = []
    for item in given:
        if not isinstance(item, ArrowSchema):
            raise _no_field(item, "a list of columns consists of Arrow fields")
        fields.append(item if isinstance(item, pa.Field) else pa.field(item))
    return pa.schema(fields)


def from_deltalake(given: Any) -> StructType | None:
    """The schema of deltalake's `Schema`, or of its fields, as it says it; None for all others.

    As Arrow exports it, a variant is a struct of binaries.
    """
    items = given if isinstance(given, list | tuple) else [given]
    if not items or not all(type(item).__module__.startswith("deltalake.") for item in items):
        return None
    told: list[Any] = []
    for item in items:
        said = codec.loads(item.to_json())
        told += said["fields"] if said.get("type") == "struct" else [said]
    _forget_files(told)
    return parse_schema(codec.dumps({"type": "struct", "fields": told}).decode())


def _forget_files(said: Any) -> None:
    """Leave out how the columns of one table are called in its files."""
    if isinstance(said, list):
        for item in said:
            _forget_files(item)
    elif isinstance(said, dict):
        metadata = said.get("metadata")
        if isinstance(metadata, dict):
            for key in (FIELD_ID, PHYSICAL_NAME):
                metadata.pop(key, None)
        for key in ("fields", "type", "elementType", "keyType", "valueType"):
            _forget_files(said.get(key))


def _no_field(item: object, cause: str) -> ValidationError:
    return ValidationError(
        f"{item!r:.80} is not an Arrow field",
        cause=cause,
        remedy='give pa.field("name", pa.string()), or a text such as "name STRING"',
    )


def from_arrow(schema: pa.Schema, *, column_mapping: bool = False) -> StructType:
    """The Delta schema for Arrow data; with column mapping, names may have any character."""
    check_names(schema.names, column_mapping=column_mapping)
    return StructType(
        tuple(
            StructField(
                item.name,
                _delta_type(item.type, item.name, column_mapping),
                item.nullable,
                _notes(item),
            )
            for item in schema
        )
    )


def _notes(item: pa.Field) -> dict[str, Any]:
    """A field's metadata, such as comments and expressions, but not what belongs to a file."""
    notes: dict[str, Any] = {}
    for key, value in (item.metadata or {}).items():
        name, text = key.decode(errors="replace"), value.decode(errors="replace")
        if name.startswith(_OF_FILES) or name in (FIELD_ID, PHYSICAL_NAME):
            continue
        notes[name] = _plain_value(text) if name in _NOT_TEXTS else text
    return notes


def _plain_value(text: str) -> Any:
    try:
        return codec.loads(text)
    except LogFormatError:
        # An invalid value is refused where the table is created.
        return text


def check_names(names: Iterable[str], *, where: str = "", column_mapping: bool = False) -> None:
    """Raise `ValidationError` unless these can be the columns of one table or struct."""
    seen: set[str] = set()
    for name in names:
        shown = f"{where}.{name}" if where else name
        if not name or "\0" in name:
            raise ValidationError(
                f"a column can't be called {shown!r}",
                cause="the name is empty or contains NUL",
                remedy="rename it",
            )
        if not column_mapping and not _SPECIAL.isdisjoint(name):
            raise ValidationError(
                f"a column can't be called {shown!r}",
                cause="Parquet readers refuse the characters ' ,;{}()=', tab and newline",
                remedy="rename it, or create the table with delta.columnMapping.mode=name",
            )
        if name.lower() in seen:
            raise ValidationError(
                f"there are two columns {shown!r}",
                cause="column names in Delta are case-insensitive",
                remedy="rename one of them",
            )
        seen.add(name.lower())


def _delta_type(kind: pa.DataType, where: str, column_mapping: bool) -> DeltaType:  # noqa: FBT001
    name = _FROM_ARROW.get(kind)
    if name is not None:
        return Primitive(name)
    plain = plain_type(kind)
    if plain != kind:
        return _delta_type(plain, where, column_mapping)
    if pat.is_struct(kind):
        check_names((item.name for item in kind), where=where, column_mapping=column_mapping)
        return StructType(
            tuple(
                StructField(
                    item.name, _nested(item, where, column_mapping), item.nullable, _notes(item)
                )
                for item in kind
            )
        )
    if pat.is_map(kind):
        return MapType(
            _nested(kind.key_field, where, column_mapping),
            _nested(kind.item_field, where, column_mapping),
            kind.item_field.nullable,
        )
    if is_list(kind):
        element = _nested(kind.value_field, where, column_mapping)
        return ArrayType(element, kind.value_field.nullable)
    return Primitive(_scalar(kind, where))


def _nested(item: pa.Field, where: str, column_mapping: bool) -> DeltaType:  # noqa: FBT001
    if pat.is_null(item.type):
        raise _no_type(f"{where}.{item.name}", item.type, "give it a type, such as pa.string()")
    return _delta_type(item.type, f"{where}.{item.name}", column_mapping)


def _scalar(kind: pa.DataType, where: str) -> str:
    if pat.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pat.is_decimal(kind):
        if kind.precision > MAX_PRECISION or not 0 <= kind.scale <= kind.precision:
            raise _no_type(where, kind, f"cast it to at most decimal({MAX_PRECISION}, scale ≥ 0)")
        return f"decimal({kind.precision},{kind.scale})"
    if pat.is_fixed_size_binary(kind):
        return "binary"
    if pat.is_time(kind) or pat.is_duration(kind) or pat.is_interval(kind):
        raise _no_type(where, kind, "cast it to an integer, a string or a timestamp")
    raise _no_type(where, kind, "cast it to a type that Delta has")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, without any dictionary, run-length or extension around them."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pat.is_dictionary(kind) or pat.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    return kind


def is_list(kind: pa.DataType) -> bool:
    """Whether the type is a list in any of Arrow's layouts."""
    return bool(
        pat.is_list(kind)
        or pat.is_large_list(kind)
        or pat.is_fixed_size_list(kind)
        or pat.is_list_view(kind)
        or pat.is_large_list_view(kind)
    )


def _no_type(where: str, kind: pa.DataType, remedy: str) -> ValidationError:
    return ValidationError(
        f"the column {where!r} has the type {kind}", cause="Delta has no such type", remedy=remedy
    )
