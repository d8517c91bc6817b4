"""Types and schemas as callers and commits express them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from deltasql.data.arrow_schema import from_arrow
from deltasql.errors import ValidationError
from deltasql.maintenance.altering.columns import around
from deltasql.maintenance.altering.ddl import parse_columns
from deltasql.maintenance.altering.mapping import named_as_in_files
from deltasql.spec import codec
from deltasql.spec.actions import Metadata
from deltasql.spec.column_mapping import max_column_id
from deltasql.spec.properties import MAX_COLUMN_ID
from deltasql.spec.schema import DeltaType, StructField, StructType, render_schema


def delta_type(kind: pa.DataType | str) -> DeltaType:
    """A type, given by Delta's or SQL's name or as an Arrow type."""
    if isinstance(kind, pa.DataType):
        return from_arrow(pa.schema([pa.field("column", kind)])).fields[0].type
    try:
        return parse_columns(f"column {kind}").fields[0].type
    except ValidationError as error:
        raise ValidationError(
            f"{kind!r:.80} is not a Delta type",
            # Without the name of the column that it was parsed as.
            cause=error.cause.rpartition(": ")[2],
            remedy="give a name such as long, string or decimal(10,2), or a pyarrow type",
        ) from None


def rendered(field: StructField) -> Any:
    """A field's type as a schema writes it."""
    return codec.loads(render_schema(StructType((field,))))["fields"][0]["type"]


def changed_column(schema: StructType, column: str) -> dict[str, Any]:
    """What CHANGE COLUMN records about itself."""
    found = around(schema, column)
    told = codec.loads(render_schema(StructType((found,))))["fields"][0]
    return {"column": {**told, "name": column}}


def with_mapping(
    metadata: Metadata, schema: StructType, configuration: Mapping[str, str]
) -> tuple[Metadata, dict[str, str]]:
    """Metadata and properties of a table that gets column mapping."""
    mapped, highest = named_as_in_files(schema, highest=max_column_id(configuration))
    found = {**configuration, MAX_COLUMN_ID: str(highest)}
    return replace(metadata, schema_string=render_schema(mapped)), found
