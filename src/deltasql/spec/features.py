"""Every Delta table feature that deltasql knows, and what it does about each.

The table below is the truth; `docs/features.md` repeats it for people, and a test keeps the two the
same. A feature that is not here is unknown: its tables are not written, and not read either if
readers must know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from deltasql.errors import UnsupportedFeatureError
from deltasql.spec import properties
from deltasql.spec.actions import Action, AddFile, DomainMetadata, Metadata, RemoveFile
from deltasql.spec.schema import (
    ArrayType,
    DeltaType,
    MapType,
    Primitive,
    StructField,
    StructType,
)

FENCE: Final = "deltasql"
"""The writer-only feature that keeps foreign writers out of a table whose log is in SQL."""


# yes: rows are written as the feature requires. unused: fine until the table uses it.
Append = Literal["yes", "unused", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature: who must know it, what turns it on, and how far deltasql supports it."""

    name: str
    reader: bool = False
    legacy_reader: int | None = None
    legacy_writer: int | None = None
    property: str | None = None
    values: tuple[str, ...] = ("true",)
    needs: tuple[str, ...] = ()
    preview: str | None = None
    read: bool = True
    commit: bool = True
    append: Append = "yes"
    note: str = ""


_TABLE: tuple[Feature, ...] = (
    Feature(
        name="appendOnly",
        legacy_writer=2,
        property=properties.APPEND_ONLY,
        note="removes that change data are refused",
    ),
    Feature(
        name="invariants",
        legacy_writer=2,
        note="`delta.invariants` expressions by DuckDB, inside structs by Spark alone",
    ),
    Feature(
        name="checkConstraints",
        legacy_writer=3,
        note="plain comparisons by Arrow, other expressions by DuckDB",
    ),
    Feature(
        name="changeDataFeed",
        legacy_writer=4,
        property=properties.CHANGE_FEED,
        note=(
            "`cdc` actions are kept as they are; `overwrite` with a condition and `replace_where` "
            "write them, as delete, update and merge do"
        ),
    ),
    Feature(
        name="generatedColumns",
        legacy_writer=4,
        note="computed or checked by DuckDB; an expression that it can't evaluate needs Spark",
    ),
    Feature(
        name="columnMapping",
        reader=True,
        legacy_reader=2,
        legacy_writer=5,
        property=properties.COLUMN_MAPPING_MODE,
        values=("name", "id"),
        note="modes `name` and `id`",
    ),
    Feature(
        name="identityColumns",
        legacy_writer=6,
        note="numbered by `append`, `overwrite` and `merge`; two that do so at once conflict, "
        "and an append is written again",
    ),
    Feature(
        name="deletionVectors",
        reader=True,
        property=properties.DELETION_VECTORS,
        note="read always, also when the property is off",
    ),
    Feature(
        name="rowTracking",
        property=properties.ROW_TRACKING,
        needs=("domainMetadata",),
        note="row ids are assigned by the commit; `optimize` and Spark's delete, update and merge "
        "keep those of rewritten rows, `overwrite` and `replace_where` give the rows "
        "that stay new ones; `optimize` refuses tables that map columns by id as well",
    ),
    Feature(name="domainMetadata", note="`delta.*` domains only with the feature they belong to"),
    Feature(
        name="clustering",
        needs=("domainMetadata",),
        note="the clustering columns are kept; rows are written in the order they come, and "
        "`optimize` sorts them by the columns",
    ),
    Feature(name="timestampNtz", reader=True, note="turned on by a timestamp_ntz column"),
    Feature(
        name="v2Checkpoint",
        reader=True,
        property=properties.CHECKPOINT_POLICY,
        values=("v2",),
        note="the mirror writes V2 checkpoints for such tables",
    ),
    Feature(
        name="vacuumProtocolCheck",
        reader=True,
        note="whatever deletes files checks the writer protocol first",
    ),
    Feature(
        name="inCommitTimestamp",
        property=properties.TIMESTAMPS,
        note="the database's clock, strictly growing",
    ),
    Feature(
        name="typeWidening",
        reader=True,
        property=properties.TYPE_WIDENING,
        preview="typeWidening-preview",
        note="older files are widened as they are read",
    ),
    Feature(name="typeWidening-preview", reader=True, note="as typeWidening"),
    Feature(
        name="allowColumnDefaults",
        note="defaults fill columns that rows lack; `DEFAULT` sets them in `update` and `merge`",
    ),
    Feature(
        name="variantType",
        reader=True,
        preview="variantType-preview",
        append="unused",
        note="the log is read and written; variant columns need Spark",
    ),
    Feature(name="variantType-preview", reader=True, append="unused", note="as variantType"),
    Feature(
        name="variantShredding",
        reader=True,
        property=properties.VARIANT_SHREDDING,
        preview="variantShredding-preview",
        append="unused",
        note="as variantType",
    ),
    Feature(name="variantShredding-preview", reader=True, append="unused", note="as variantType"),
    Feature(name=FENCE, note="the fence: only deltasql writes; `release` removes it"),
    Feature(
        name="icebergCompatV1",
        property=properties.ICEBERG_COMPAT_V1,
        needs=("columnMapping",),
        commit=False,
        append="no",
        note="requires partition columns inside data files, which can't be checked from a log",
    ),
    Feature(
        name="icebergCompatV2",
        property=properties.ICEBERG_COMPAT_V2,
        needs=("columnMapping",),
        commit=False,
        append="no",
        note="asks for nested field ids and partition columns inside data files",
    ),
    Feature(
        name="icebergCompatV3",
        property=properties.ICEBERG_COMPAT_V3,
        needs=("columnMapping", "rowTracking"),
        commit=False,
        append="no",
        note="as icebergCompatV2",
    ),
    Feature(
        name="icebergWriterCompatV1", commit=False, append="no", note="builds on icebergCompatV2"
    ),
    Feature(
        name="icebergWriterCompatV3", commit=False, append="no", note="builds on icebergCompatV3"
    ),
    Feature(
        name="materializePartitionColumns",
        commit=False,
        append="no",
        note="asks for partition columns inside data files",
    ),
    Feature(
        name="checkpointProtection",
        commit=False,
        append="no",
        note="ties log cleanup to checkpoints that deltasql does not track",
    ),
    Feature(
        name="catalogManaged",
        reader=True,
        read=False,
        commit=False,
        append="no",
        note="another catalog decides what the commits are",
    ),
    Feature(
        name="catalogOwned-preview",
        reader=True,
        read=False,
        commit=False,
        append="no",
        note="as catalogManaged",
    ),
    Feature(
        name="catalogOwned",
        reader=True,
        read=False,
        commit=False,
        append="no",
        note="as catalogManaged",
    ),
    Feature(
        name="coordinatedCommits-preview",
        property=properties.COMMIT_COORDINATOR,
        values=(),
        needs=("inCommitTimestamp", "vacuumProtocolCheck"),
        commit=False,
        append="no",
        note="another coordinator decides what the commits are",
    ),
    Feature(
        name="redirectReaderWriter-preview",
        reader=True,
        read=False,
        commit=False,
        append="no",
        note="the table is elsewhere",
    ),
    Feature(
        name="redirectWriterOnly-preview",
        commit=False,
        append="no",
        note="writers are sent elsewhere",
    ),
)
FEATURES: Final[Mapping[str, Feature]] = {feature.name: feature for feature in _TABLE}

_BY_LOWER_NAME = {name.lower(): name for name in FEATURES}
_BY_PROPERTY = [feature for feature in _TABLE if feature.property is not None]
_BY_TYPE = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_BY_COLUMN_METADATA = {
    properties.INVARIANTS: "invariants",
    properties.GENERATION_EXPRESSION: "generatedColumns",
    properties.IDENTITY_START: "identityColumns",
    properties.IDENTITY_STEP: "identityColumns",
    properties.CURRENT_DEFAULT: "allowColumnDefaults",
    properties.TYPE_CHANGES: "typeWidening",
}


def needed_features(schema: StructType, configuration: Mapping[str, str]) -> frozenset[str]:
    """The features that a table with this schema and these properties must have."""
    found = set(_asked_for(configuration))
    for feature in _BY_PROPERTY:
        value = configuration.get(feature.property or "")
        if value is not None and (not feature.values or value.lower() in feature.values):
            found.add(feature.name)
    if any(key.startswith(properties.CONSTRAINT_PREFIX) for key in configuration):
        found.add("checkConstraints")
    for field in all_fields(schema):
        if not field.nullable:
            found.add("invariants")
        found.update(name for key, name in _BY_COLUMN_METADATA.items() if key in field.metadata)
    found.update(_BY_TYPE[name] for name in type_names(schema) if name in _BY_TYPE)
    return with_needs(found)


def with_needs(names: Iterable[str]) -> frozenset[str]:
    """The features and those that they depend on."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(FEATURES[name].needs if name in FEATURES else ())
    return frozenset(found)


def features_of(actions: Iterable[Action]) -> frozenset[str]:
    """The features that the actions of a commit use, beyond its metadata's."""
    found: set[str] = set()
    for action in actions:
        if isinstance(action, DomainMetadata):
            found.add("domainMetadata")
        elif isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
            found.add("deletionVectors")
    return frozenset(found)


def _asked_for(configuration: Mapping[str, str]) -> Iterator[str]:
    """Features requested explicitly: `delta.feature.X = supported`."""
    for key, value in configuration.items():
        if not key.startswith(properties.FEATURE_PREFIX) or value.lower() not in (
            "supported",
            "enabled",
        ):
            continue
        name = key.removeprefix(properties.FEATURE_PREFIX)
        known = _BY_LOWER_NAME.get(name.lower())
        if known is None:
            raise UnsupportedFeatureError(
                f"the table property {key} asks for an unknown feature",
                cause=f"deltasql knows no feature {name!r:.80}",
                remedy="leave the property out; docs/features.md lists the features",
                features=(name,),
            )
        yield known


def stored_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """What goes into `metaData.configuration`: all properties except those about the protocol.

    Delta Spark refuses to commit to tables whose metadata has such keys.
    """
    return {
        key: value
        for key, value in configuration.items()
        if not key.startswith(properties.FEATURE_PREFIX)
        and key not in (properties.MIN_READER_VERSION, properties.MIN_WRITER_VERSION)
    }


def canonical_metadata(actions: Sequence[Action]) -> Sequence[Action]:
    """The actions with property values spelt as Delta spells them.

    Delta Spark takes `NAME` for `name`. Other readers don't, and would find no column.
    """
    if Metadata not in map(type, actions):
        return actions
    return [
        replace(item, configuration=properties.canonical_values(item.configuration))
        if isinstance(item, Metadata)
        else item
        for item in actions
    ]


# --- walking a schema -----------------------------------------------------------------


def all_fields(kind: DeltaType) -> Iterator[StructField]:
    """Every field of a schema, including those inside arrays and maps."""
    match kind:
        case StructType(fields):
            for field in fields:
                yield field
                yield from all_fields(field.type)
        case ArrayType(element):
            yield from all_fields(element)
        case MapType(key, value):
            yield from all_fields(key)
            yield from all_fields(value)


def type_names(kind: DeltaType) -> Iterator[str]:
    """The name of every scalar type in a schema, once per occurrence."""
    match kind:
        case Primitive(name):
            yield name
        case StructType(fields):
            for field in fields:
                yield from type_names(field.type)
        case ArrayType(element):
            yield from type_names(element)
        case MapType(key, value):
            yield from type_names(key)
            yield from type_names(value)
