"""Whether a metaData action and a protocol action may become those of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from deltasql.errors import LogFormatError, UnsupportedFeatureError, ValidationError
from deltasql.log.feed import FEED_COLUMNS
from deltasql.log.state import TableState
from deltasql.log.validation.identity import check_identity
from deltasql.log.validation.properties import check_properties
from deltasql.log.validation.values import check_json, check_text, check_texts
from deltasql.spec import codec
from deltasql.spec.actions import Metadata, Protocol
from deltasql.spec.features import all_fields, needed_features, type_names
from deltasql.spec.partition_values import LONGEST_NAME, is_too_long
from deltasql.spec.properties import (
    COLUMN_MAPPING_MODE,
    FIELD_ID,
    MAX_COLUMN_ID,
    PHYSICAL_NAME,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
)
from deltasql.spec.protocol import check_well_formed, check_writable, implied_features, upgraded
from deltasql.spec.schema import DeltaType, Primitive, StructField, StructType, parse_schema

_ROW_ID_COLUMNS = (
    ROW_ID_COLUMN,
    ROW_COMMIT_VERSION_COLUMN,
)
# Each struct takes three levels of JSON: a hundred nested structs.
_SCHEMA_DEPTH = 300
_LONGEST_TYPE_NAME = 40
_MAX_PRECISION = 38


def check_protocol(
    protocol: Protocol, before: TableState | None, *, dropping: Collection[str] = ()
) -> None:
    """Check that deltasql can write the protocol, and that it keeps what the previous one had."""
    for name in (*(protocol.reader_features or ()), *(protocol.writer_features or ())):
        check_text(name, "protocol")
    check_json(protocol.extra, "protocol")
    try:
        check_well_formed(protocol)
    except LogFormatError as error:
        raise ValidationError(error.problem, cause=error.cause, remedy=error.remedy) from None
    check_writable(protocol)
    if before is None:
        return
    old, new = implied_features(before.protocol), implied_features(protocol)
    lost = ((old[0] - new[0]) | (old[1] - new[1])).difference(dropping)
    if lost:
        raise ValidationError(
            f"the protocol action drops {', '.join(sorted(lost))}",
            cause="the table's history may depend on what its protocol has promised so far",
            remedy="list every feature the table has, and add the new ones",
            features=tuple(sorted(lost)),
        )
    needed = needed_features(before.schema, before.properties).intersection(dropping)
    if needed - new[1]:
        raise ValidationError(
            f"the table still needs {', '.join(sorted(needed))}",
            cause="its schema or its properties make use of it",
            remedy="change the metadata first",
            features=tuple(sorted(needed)),
        )


def check_metadata(after: TableState, before: TableState | None) -> None:
    """Check the metadata of `after` by itself, against its protocol, and against `before`."""
    metadata = after.metadata
    _check_plain_fields(metadata)
    schema = _checked_schema(metadata)
    _check_partition_columns(metadata, schema)
    check_identity(schema, None if before is None else before.schema)
    check_properties(after, before)
    _check_features(after.protocol, metadata, schema)
    if after.column_mapping != "none":
        _check_mapping(metadata, schema)
    if before is not None:
        _check_mapping_change(after, before)
    if after.has_change_feed:
        _check_feed_columns(schema)
    if after.has_row_ids:
        _check_row_id_columns(metadata, schema)


def _check_plain_fields(metadata: Metadata) -> None:
    for name, text in (
        ("id", metadata.id),
        ("name", metadata.name),
        ("description", metadata.description),
    ):
        if text is not None:
            check_text(text, f"metaData.{name}")
    if not metadata.id:
        raise ValidationError("metaData.id is empty", remedy="give the table a unique id")
    if metadata.format.provider != "parquet":
        raise ValidationError(
            f"metaData.format.provider is {metadata.format.provider!r:.80}",
            cause="Delta's data files are Parquet",
            remedy='set it to "parquet"',
        )
    _check_strings(metadata.configuration, "metaData.configuration")
    _check_strings(metadata.format.options, "metaData.format.options")
    check_json(metadata.extra, "metaData")
    check_json(metadata.format.extra, "metaData.format")


def _check_strings(values: Any, where: str) -> None:
    check_texts(values, where)
    empty = [key for key, value in values.items() if value is None]
    if empty:
        raise ValidationError(
            f"{where} has no value for {empty[0]!r:.80}",
            cause="property values are always strings",
            remedy="leave the key out, or write its value as a string",
        )


# --- schema ---------------------------------------------------------------------------


def _checked_schema(metadata: Metadata) -> StructType:
    where = "metaData.schemaString"
    check_text(metadata.schema_string, where)
    try:
        check_json(
            codec.loads(metadata.schema_string, source=where), where, max_depth=_SCHEMA_DEPTH
        )
        schema = parse_schema(metadata.schema_string, source=where)
    except UnsupportedFeatureError:
        raise
    except (LogFormatError, ValueError) as error:
        raise ValidationError(
            f"{where} is not a schema",
            cause=f"{getattr(error, 'problem', error)} {getattr(error, 'cause', '')}".strip(),
            remedy="write the schema as the Delta spec does",
        ) from None
    _check_names(schema.fields, where)
    for field in all_fields(schema):
        if isinstance(field.type, StructType):
            _check_names(field.type.fields, f"column {field.name!r:.80}")
    for name in type_names(schema):
        _check_type(name)
    return schema


def _check_names(fields: Iterable[StructField], where: str) -> None:
    seen: set[str] = set()
    for field in fields:
        lowered = field.name.lower()
        if not lowered:
            raise ValidationError(f"{where} has a column without a name", remedy="name it")
        if lowered in seen:
            raise ValidationError(
                f"{where} has two columns {field.name!r:.80}",
                cause="names are case-insensitive",
                remedy="rename one of them",
            )
        seen.add(lowered)


def _check_type(name: str) -> None:
    fits = len(name) <= _LONGEST_TYPE_NAME
    decimal = Primitive(name).decimal if fits else None
    if decimal is not None:
        precision, scale = decimal
        fits = 1 <= precision <= _MAX_PRECISION and 0 <= scale <= precision
    if not fits:
        raise ValidationError(
            f"{name!r:.60} is not a type a column can have",
            cause="a decimal has 1 to 38 digits, its scale included",
            remedy="use decimal(38,18), or a double",
        )


def _check_partition_columns(metadata: Metadata, schema: StructType) -> None:
    names = metadata.partition_columns
    lowered = [name.lower() for name in names]
    if len(set(lowered)) != len(names):
        raise ValidationError(
            "metaData.partitionColumns names a column twice",
            cause="names are case-insensitive",
            remedy="name each partition column once",
        )
    for name in names:
        if is_too_long(name):
            raise ValidationError(
                f"the table can't be partitioned by {name!r:.80}",
                cause=f"the name has more than {LONGEST_NAME} bytes",
                remedy="rename the column, or partition by another",
            )
        field = schema.field(name)
        if field is None or not _may_partition(field.type):
            raise ValidationError(
                f"the table can't be partitioned by {name!r:.80}",
                cause="the schema has no such column"
                if field is None
                else "it is not a plain scalar",
                remedy="partition by scalar columns of the schema",
            )
    if names and len(names) == len(schema.fields):
        raise ValidationError(
            "every column is a partition column",
            cause="data files hold the other columns, and there are none",
            remedy="leave at least one column out of the partitioning",
        )


def _may_partition(kind: DeltaType) -> bool:
    return isinstance(kind, Primitive) and kind.name not in ("void", "variant")


# --- properties -----------------------------------------------------------------------


def _check_features(protocol: Protocol, metadata: Metadata, schema: StructType) -> None:
    wanted = upgraded(protocol, schema, metadata.configuration)
    if wanted is not None:
        missing = implied_features(wanted)[1] - implied_features(protocol)[1]
        raise ValidationError(
            f"the protocol lacks {', '.join(sorted(missing)) or 'a reader feature'}",
            cause="the schema or the properties make use of it",
            remedy="commit the protocol that `deltasql.spec.protocol.upgraded` gives along with it",
            features=tuple(sorted(missing)),
        )
    if "clustering" in implied_features(protocol)[1] and metadata.partition_columns:
        raise ValidationError(
            "a clustered table can't be partitioned",
            cause="the Delta spec allows one or the other",
            remedy="drop the partition columns, or the clustering",
        )


def _check_feed_columns(schema: StructType) -> None:
    for field in schema.fields:
        if FEED_COLUMNS.intersection((field.name.lower(), field.physical_name.lower())):
            raise ValidationError(
                f"a table with a change data feed can't have a column {field.name!r:.80}",
                cause="the feed has a column of that name itself",
                remedy="rename the column, or turn delta.enableChangeDataFeed off",
            )


def _check_row_id_columns(metadata: Metadata, schema: StructType) -> None:
    taken = {name.lower() for field in schema.fields for name in (field.name, field.physical_name)}
    for key in _ROW_ID_COLUMNS:
        name = metadata.configuration.get(key)
        if not name or name.lower() in taken:
            raise ValidationError(
                f"row tracking is on and {key} is {'missing' if not name else 'taken'}",
                cause="moved rows keep their ids in a column of that name, hidden from readers",
                remedy="set the property to a name that no column has",
            )
        taken.add(name.lower())


# --- column mapping -------------------------------------------------------------------


def _check_mapping(metadata: Metadata, schema: StructType) -> None:
    ids = [_mapped_id(field) for field in all_fields(schema)]
    if len(set(ids)) != len(ids):
        raise _bad_mapping("two columns have the same id")
    _check_physical_names(schema.fields)
    for field in all_fields(schema):
        if isinstance(field.type, StructType):
            _check_physical_names(field.type.fields)
    largest = _max_column_id(metadata)
    if largest is None or largest < max(ids, default=0):
        raise _bad_mapping(f"{MAX_COLUMN_ID} is missing, or below the largest id")


def _mapped_id(field: StructField) -> int:
    number, name = field.metadata.get(FIELD_ID), field.metadata.get(PHYSICAL_NAME)
    if type(number) is not int or type(name) is not str or not name:
        raise _bad_mapping(f"column {field.name!r:.80} lacks its id or its physical name")
    return number


def _check_physical_names(fields: Iterable[StructField]) -> None:
    names = [field.physical_name.lower() for field in fields]
    if len(set(names)) != len(names):
        raise _bad_mapping("two columns have the same physical name")


def _max_column_id(metadata: Metadata) -> int | None:
    text = metadata.configuration.get(MAX_COLUMN_ID, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _bad_mapping(cause: str) -> ValidationError:
    return ValidationError(
        "the schema does not fit the table's column mapping",
        cause=cause,
        remedy=f"give every column {FIELD_ID} and {PHYSICAL_NAME}, never used before",
    )


def _check_mapping_change(after: TableState, before: TableState) -> None:
    old, new = before.column_mapping, after.column_mapping
    if old != new and (old, new) != ("none", "name"):
        raise ValidationError(
            f"{COLUMN_MAPPING_MODE} can't go from {old} to {new}",
            cause="existing data files, or the changes in them, could no longer be read",
            remedy="keep the mode, and name it again where the table is replaced; a table without "
            "one may change to name",
        )
    largest = _max_column_id(after.metadata)
    known = _max_column_id(before.metadata)
    if new != "none" and known is not None and (largest or 0) < known:
        raise _bad_mapping(f"{MAX_COLUMN_ID} goes down from {known} to {largest}")
