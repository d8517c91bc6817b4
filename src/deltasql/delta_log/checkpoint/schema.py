"""The columns of a checkpoint, named, typed, ordered and nullable as Delta Spark writes them.

There is one struct for each kind of action, everything in it optional; only the keys of maps
are required. The schema is fixed by the spec, so fields of an action which the spec does not
know stay in the commit files and are not repeated in checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
import pyarrow.types as pat

from deltasql.data.arrow_schema import arrow_type
from deltasql.data.layout import physical_schema
from deltasql.data.writing.stats import indexed
from deltasql.log.state import TableState
from deltasql.spec.properties import STATS_AS_JSON, STATS_AS_STRUCT
from deltasql.spec.schema import DeltaType, Primitive, StructType

TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
TEXT_LIST: Final = pa.list_(pa.field("element", pa.string()))
DELETION_VECTOR: Final = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
TXN: Final = pa.struct(
    [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
)
REMOVE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", TEXT_MAP),
        ("size", pa.int64()),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
METADATA: Final = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", TEXT_LIST),
        ("configuration", TEXT_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL: Final = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", TEXT_LIST),
        ("writerFeatures", TEXT_LIST),
    ]
)
DOMAIN_METADATA: Final = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
CHECKPOINT_METADATA: Final = pa.struct([("version", pa.int64()), ("tags", TEXT_MAP)])
SIDECAR: Final = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", TEXT_MAP),
    ]
)


@dataclass(frozen=True, slots=True)
class CheckpointShape:
    """What the checkpoints of a table hold besides the fixed fields, by its properties.

    `stats_parsed` and `partition_values_parsed` are None when they are not wanted; the fields of
    both have physical names. `stats` may be only for files with deletion vectors.
    """

    stats: Literal["all", "vectors", "none"]
    stats_parsed: pa.StructType | None
    partition_types: Mapping[str, Primitive] | None

    @property
    def partition_values_parsed(self) -> pa.StructType | None:
        """The type of the typed partition values."""
        if self.partition_types is None:
            return None
        return pa.struct([(name, arrow_type(kind)) for name, kind in self.partition_types.items()])

    @property
    def add(self) -> pa.StructType:
        """The type of `add`."""
        optional = (
            ("stats", None if self.stats == "none" else pa.string()),
            ("stats_parsed", self.stats_parsed),
            ("partitionValues_parsed", self.partition_values_parsed),
        )
        return pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", TEXT_MAP),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("tags", TEXT_MAP),
                ("deletionVector", DELETION_VECTOR),
                ("baseRowId", pa.int64()),
                ("defaultRowCommitVersion", pa.int64()),
                ("clusteringProvider", pa.string()),
                *((name, kind) for name, kind in optional if kind is not None),
            ]
        )

    def classic(self) -> pa.Schema:
        """The columns of a classic checkpoint."""
        return pa.schema(
            [
                ("txn", TXN),
                ("add", self.add),
                ("remove", REMOVE),
                ("metaData", METADATA),
                ("protocol", PROTOCOL),
                ("domainMetadata", DOMAIN_METADATA),
            ]
        )

    def v2(self) -> pa.Schema:
        """The columns of the top file of a V2 checkpoint."""
        own = [("checkpointMetadata", CHECKPOINT_METADATA), ("sidecar", SIDECAR)]
        return pa.schema([*self.classic(), *(pa.field(name, kind) for name, kind in own)])

    def sidecar(self) -> pa.Schema:
        """The columns of a sidecar."""
        return pa.schema([("add", self.add), ("remove", REMOVE)])


def shape_of(state: TableState) -> CheckpointShape:
    """The shape of a table's checkpoints.

    Typed stats are written if the table asks for them: that is the spec's default, though not the
    reference implementation's. They repeat what `stats` says, at a price. A table that wants
    neither keeps the stats of files with deletion vectors, because readers need their row counts
    (rule 20) and delta-rs does not read such a file without them.
    """
    typed = _flag(state, STATS_AS_STRUCT, default=False)
    as_json = _flag(state, STATS_AS_JSON, default=True)
    bare = not as_json and not typed
    return CheckpointShape(
        stats="all" if as_json else "vectors" if bare and state.has_deletion_vectors else "none",
        stats_parsed=stats_type(state) if typed else None,
        partition_types=_partition_types(state) if typed and state.partition_columns else None,
    )


def _partition_types(state: TableState) -> dict[str, Primitive]:
    types = state.partition_types.items()
    return {name: kind for name, kind in types if isinstance(kind, Primitive)}


def _flag(state: TableState, key: str, *, default: bool) -> bool:
    text = state.properties.get(key, "").strip().lower()
    return default if text not in ("true", "false") else text == "true"


# --- typed stats ----------------------------------------------------------------------


def stats_type(state: TableState) -> pa.StructType:
    """The type of `stats_parsed`: the columns that have stats, by the current schema."""
    schema = physical_schema(state.schema, state.column_mapping)
    skip = {name.lower() for name in state.partition_columns}
    stored = StructType(tuple(item for item in schema.fields if item.name.lower() not in skip))
    leaves = indexed(stored, state.properties)
    bounds = {leaf.path for leaf in leaves if leaf.bounds is not None}
    counts = {leaf.path for leaf in leaves}
    low_high = _selected(stored, (), bounds, None)
    nulls = _selected(stored, (), counts, pa.int64())
    fields = [pa.field("numRecords", pa.int64())]
    # Parquet has no struct without fields.
    if low_high is not None:
        fields += [pa.field("minValues", low_high), pa.field("maxValues", low_high)]
    if nulls is not None:
        fields.append(pa.field("nullCount", nulls))
    return pa.struct([*fields, pa.field("tightBounds", pa.bool_())])


def _selected(
    schema: StructType,
    above: tuple[str, ...],
    wanted: set[tuple[str, ...]],
    count: pa.DataType | None,
) -> pa.StructType | None:
    """The struct of the wanted leaves, with their own types or as counts."""
    fields = []
    for item in schema.fields:
        path = (*above, item.physical_name)
        kind: pa.DataType | None = None
        if isinstance(item.type, StructType):
            kind = _selected(item.type, path, wanted, count)
        elif path in wanted and not _is_void(item.type):
            kind = count or arrow_type(item.type)
        if kind is not None:
            fields.append(pa.field(item.physical_name, kind))
    return pa.struct(fields) if fields else None


def _is_void(kind: DeltaType) -> bool:
    return kind == Primitive("void")


# --- how columns are encoded ----------------------------------------------------------


def leaf_paths(schema: pa.Schema) -> Iterator[str]:
    """The Parquet paths of the columns."""
    for item in schema:
        yield from _leaf_paths(item.type, item.name)


def _leaf_paths(kind: pa.DataType, path: str) -> Iterator[str]:
    if pat.is_struct(kind):
        for item in kind:
            yield from _leaf_paths(item.type, f"{path}.{item.name}")
    elif pat.is_map(kind):
        yield f"{path}.key_value.key"
        yield f"{path}.key_value.value"
    elif pat.is_list(kind):
        yield f"{path}.list.element"
    else:
        yield path
