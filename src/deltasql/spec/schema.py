"""A table's schema as the Delta spec writes it: `schemaString` parsed, and back.

The text in the log stays the truth (rule 43: keep it verbatim); these values are for
reading it and for building new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec import codec
from deltasql.spec.properties import FIELD_ID, PHYSICAL_NAME

PRIMITIVES = frozenset(
    {"string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary"}
    | {"date", "timestamp", "timestamp_ntz", "variant", "void"}
)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(-?\d{1,2})\s*\)")
_SIZED_TEXT = re.compile(r"(?:var)?char\(\s*\d+\s*\)")


@dataclass(frozen=True, slots=True)
class Primitive:
    """A scalar type by its Delta name, including `decimal(p,s)`."""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale, for decimals."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list."""

    element: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """A map."""

    key: DeltaType
    value: DeltaType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class StructField:
    """A column, or a field of a nested struct."""

    name: str
    type: DeltaType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def physical_name(self) -> str:
        """The name in data files, stats and partition values."""
        return str(self.metadata.get(PHYSICAL_NAME, self.name))

    @property
    def field_id(self) -> int | None:
        """The Parquet field id under column mapping."""
        value = self.metadata.get(FIELD_ID)
        return int(value) if value is not None else None


@dataclass(frozen=True, slots=True)
class StructType:
    """A table's columns, or the fields of a nested struct."""

    fields: tuple[StructField, ...] = ()

    def field(self, name: str) -> StructField | None:
        """The field of that name; names are unique regardless of case."""
        wanted = name.lower()
        return next((item for item in self.fields if item.name.lower() == wanted), None)

    def leaves(self) -> Iterator[Leaf]:
        """Every column that may have stats: the scalars reached through structs alone."""
        for item in self.fields:
            yield from _leaves(item, (), ())


DeltaType: TypeAlias = Primitive | ArrayType | MapType | StructType


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar column and its path, by logical and by physical names."""

    path: tuple[str, ...]
    physical_path: tuple[str, ...]
    type: Primitive


def _leaves(item: StructField, path: tuple[str, ...], physical: tuple[str, ...]) -> Iterator[Leaf]:
    path, physical = (*path, item.name), (*physical, item.physical_name)
    if isinstance(item.type, StructType):
        for child in item.type.fields:
            yield from _leaves(child, path, physical)
    elif isinstance(item.type, Primitive):
        yield Leaf(path, physical, item.type)


def parse_schema(text: str, *, source: str = "schemaString") -> StructType:
    """The schema in a `metaData.schemaString`."""
    try:
        parsed = _parse_type(codec.loads(text, source=source), source)
    except RecursionError:
        raise LogFormatError(f"{source}: nested too deeply") from None
    if not isinstance(parsed, StructType):
        raise LogFormatError(f"{source}: a table's schema must be a struct")
    return parsed


def render_schema(schema: StructType) -> str:
    """The `schemaString` of a schema."""
    return codec.dumps(_render_type(schema)).decode()


def _parse_type(value: Any, source: str) -> DeltaType:
    if isinstance(value, str):
        return _parse_primitive(value, source)
    if not isinstance(value, dict):
        raise LogFormatError(f"{source}: a type must be a name or an object, not {value!r:.80}")
    try:
        match value.get("type"):
            case "struct":
                return StructType(tuple(_parse_field(item, source) for item in value["fields"]))
            case "array":
                element = _parse_type(value["elementType"], source)
                return ArrayType(element, bool(value.get("containsNull", True)))
            case "map":
                return MapType(
                    _parse_type(value["keyType"], source),
                    _parse_type(value["valueType"], source),
                    bool(value.get("valueContainsNull", True)),
                )
            case other:
                raise UnsupportedFeatureError(
                    f"{source}: unknown type {other!r:.80}",
                    cause="deltasql knows the types of the Delta spec only",
                    remedy="see docs/features.md",
                    features=(f"type {other!s:.80}",),
                )
    except (KeyError, TypeError, ValueError) as error:
        raise LogFormatError(f"{source}: malformed type", cause=repr(error)) from None


def _parse_primitive(name: str, source: str) -> Primitive:
    if name in PRIMITIVES or _DECIMAL.fullmatch(name):
        return Primitive(name)
    if name == "decimal":
        return Primitive("decimal(10,0)")
    if _SIZED_TEXT.fullmatch(name):
        return Primitive("string")
    raise UnsupportedFeatureError(
        f"{source}: unknown type {name!r:.80}",
        cause="deltasql knows the types of the Delta spec only",
        remedy="see docs/features.md",
        features=(f"type {name:.80}",),
    )


def _parse_field(value: Mapping[str, Any], source: str) -> StructField:
    name = value["name"]
    if not isinstance(name, str):
        raise LogFormatError(f"{source}: a field's name must be a string, not {name!r:.80}")
    return StructField(
        name=name,
        type=_parse_type(value["type"], f"{source}.{name}"),
        nullable=bool(value.get("nullable", True)),
        metadata=dict(value.get("metadata") or {}),
    )


def _render_type(value: DeltaType) -> Any:
    match value:
        case Primitive(name):
            return name
        case ArrayType(element, contains_null):
            return {
                "type": "array",
                "elementType": _render_type(element),
                "containsNull": contains_null,
            }
        case MapType(key, item, contains_null):
            return {
                "type": "map",
                "keyType": _render_type(key),
                "valueType": _render_type(item),
                "valueContainsNull": contains_null,
            }
        case StructType(fields):
            return {"type": "struct", "fields": [_render_field(item) for item in fields]}


def _render_field(value: StructField) -> dict[str, Any]:
    return {
        "name": value.name,
        "type": _render_type(value.type),
        "nullable": value.nullable,
        "metadata": dict(value.metadata),
    }
