"""Changed metadata of a table, ready to be committed."""

from dataclasses import replace

from deltasql.spec.schema import StructType, parse_schema, render_schema

ON = "delta.enableInCommitTimestamps"
SINCE = "delta.inCommitTimestampEnablementVersion"
SINCE_TIME = "delta.inCommitTimestampEnablementTimestamp"
ROW_IDS = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
}


def changed(table, **properties):
    """The table's metadata with other properties."""
    metadata = table.snapshot().metadata
    return replace(metadata, configuration={**metadata.configuration, **properties})


def with_columns(table, *fields, without=()):
    """The table's metadata with more columns, others in their place, or fewer."""
    metadata = table.snapshot().metadata
    given = {field.name: field for field in fields}
    kept = [
        given.pop(field.name, field)
        for field in parse_schema(metadata.schema_string).fields
        if field.name not in without
    ]
    schema = StructType((*kept, *given.values()))
    return replace(metadata, schema_string=render_schema(schema))
