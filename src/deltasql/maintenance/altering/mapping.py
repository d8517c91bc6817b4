"""Column mapping for a table that has files already: physical names are those in the files."""

from __future__ import annotations

from dataclasses import replace

from deltasql.spec.properties import FIELD_ID, PHYSICAL_NAME
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    StructField,
    StructType,
)


def named_as_in_files(
    schema: StructType, *, known: StructType | None = None, highest: int = 0
) -> tuple[StructType, int]:
    """A schema without column mapping turned into one with it, and the highest id in use.

    `known` is the schema of the same table with column mapping: its columns keep their ids.
    """
    mapping = _Mapping(highest)
    return mapping.struct(schema, known), mapping.highest


class _Mapping:
    def __init__(self, highest: int) -> None:
        self.highest = highest

    def struct(self, old: StructType, known: StructType | None) -> StructType:
        by_name = {} if known is None else {item.physical_name: item for item in known.fields}
        return StructType(tuple(self._field(item, by_name.get(item.name)) for item in old.fields))

    def _field(self, item: StructField, same: StructField | None) -> StructField:
        number = None if same is None else same.field_id
        if number is None:
            self.highest += 1
            number = self.highest
        metadata = {**item.metadata, FIELD_ID: number, PHYSICAL_NAME: item.name}
        kind = self._type(item.type, None if same is None else same.type)
        return replace(item, type=kind, metadata=metadata)

    def _type(self, kind: DeltaType, same: DeltaType | None) -> DeltaType:
        match kind:
            case StructType():
                return self.struct(kind, same if isinstance(same, StructType) else None)
            case ArrayType(element, null):
                inner = same.element if isinstance(same, ArrayType) else None
                return ArrayType(self._type(element, inner), null)
            case MapType(key, value, null):
                keys = same.key if isinstance(same, MapType) else None
                values = same.value if isinstance(same, MapType) else None
                return MapType(self._type(key, keys), self._type(value, values), null)
            case _:
                return kind
