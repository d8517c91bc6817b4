"""Ids and physical names for the columns of a table with column mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from deltasql.spec.properties import FIELD_ID, MAX_COLUMN_ID, PHYSICAL_NAME
from deltasql.spec.schema import ArrayType, DeltaType, MapType, StructField, StructType

_MANY_DIGITS = 12


def max_column_id(configuration: Mapping[str, str]) -> int:
    """The highest id that the properties give; 0 if they don't, or are invalid."""
    text = configuration.get(MAX_COLUMN_ID, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MANY_DIGITS else 0


def assign_column_mapping(
    schema: StructType, *, highest: int, new_id: Callable[[], str]
) -> tuple[StructType, int]:
    """Give every field that lacks them an id and a physical name; returns the highest id."""
    assigner = _Assigner(max(highest, _highest(schema)), new_id)
    return assigner.struct(schema), assigner.highest


class _Assigner:
    def __init__(self, highest: int, new_id: Callable[[], str]) -> None:
        self.highest = highest
        self._new_id = new_id

    def struct(self, schema: StructType) -> StructType:
        return StructType(tuple(self._field(item) for item in schema.fields))

    def _field(self, item: StructField) -> StructField:
        metadata = dict(item.metadata)
        if FIELD_ID not in metadata:
            self.highest += 1
            metadata[FIELD_ID] = self.highest
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = f"col-{self._new_id()}"
        return replace(item, type=self._type(item.type), metadata=metadata)

    def _type(self, kind: DeltaType) -> DeltaType:
        match kind:
            case StructType():
                return self.struct(kind)
            case ArrayType(element, contains_null):
                return ArrayType(self._type(element), contains_null)
            case MapType(key, value, contains_null):
                return MapType(self._type(key), self._type(value), contains_null)
            case _:
                return kind


def _highest(kind: DeltaType) -> int:
    match kind:
        case StructType(fields):
            own = (item.field_id or 0 for item in fields)
            inner = (_highest(item.type) for item in fields)
            return max((*own, *inner), default=0)
        case ArrayType(element, _):
            return _highest(element)
        case MapType(key, value, _):
            return max(_highest(key), _highest(value))
        case _:
            return 0
