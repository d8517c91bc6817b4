"""Schemas for the tests of pruning."""

from __future__ import annotations

from deltasql.log.pruning.stats_columns import stats_columns
from deltasql.spec.schema import Primitive, StructField, StructType


def schema_of(**types):
    return StructType(tuple(StructField(name, Primitive(kind)) for name, kind in types.items()))


SCHEMA = schema_of(
    i="integer",
    s="string",
    d="double",
    m="decimal(10,2)",
    day="date",
    at="timestamp",
    wall="timestamp_ntz",
    empty="string",
    b="boolean",
)
COLUMNS = stats_columns(SCHEMA, [])
