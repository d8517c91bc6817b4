"""New tables: from rows, with the rows in version 0, or from a schema alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltasql.lake.dml.metrics import write_metrics
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.new_table import version_zero
from deltasql.lake.writing import commit_info
from deltasql.spark.native import evolution
from deltasql.spark.native.evolution import Plan
from deltasql.spark.native.modes import Job, Writer, schema_of
from deltasql.spark.native.options import WriteOptions
from deltasql.spec.actions import Action, AddFile, Metadata, Protocol
from deltasql.spec.schema import StructType, parse_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType as SparkStruct

    from deltasql.lake.catalog import Lake
    from deltasql.spark.native.gateway import Gateway


def create_from(
    lake: Lake,
    writer: Writer,
    frame: DataFrame,
    name: str,
    location: str,
    options: WriteOptions,
    extra: Sequence[Action],
) -> WriteResult | None:
    """Write rows and create their table in one commit; None if the name has been taken."""
    schema = evolution.as_new(schema_of(frame))
    names = evolution.partition_names(schema, options.partition_by)
    first = version_zero(schema, names, options.properties, options.description)
    plan = Plan(_only(first, Metadata), _only(first, Protocol))
    check = options.replace_where
    plan, files = writer.files(Job(location, None, plan, options), frame, check=check)
    rows = [item for item in files if isinstance(item, AddFile)]
    metrics = write_metrics(rows)
    told = commit_info(metrics, options.commit_metadata)
    actions = [plan.protocol, plan.metadata, *rows, *extra, *told]
    created = lake.create_with(
        name,
        location,
        actions,
        operation="CREATE TABLE AS SELECT",
        operation_params={"partitionBy": list(names), "properties": dict(options.properties)},
        files=files,
    )
    return None if created is None else WriteResult(0, metrics)


def schema_from(gateway: Gateway, schema: SparkStruct | str) -> StructType:
    """A Delta schema from a Spark one, or from the columns of a CREATE TABLE."""
    text = gateway.columns_of(schema) if isinstance(schema, str) else schema.json()
    return parse_schema(text, source="the schema")


def _only(actions: Sequence[Action], kind: type) -> Any:
    return next(action for action in actions if isinstance(action, kind))
