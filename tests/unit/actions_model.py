"""Actions made up by hypothesis, and small ones made by hand."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from deltasql.log.state import TableState
from deltasql.spec.actions import (
    AddFile,
    CdcFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
    UnknownAction,
)
from deltasql.spec.protocol import protocol_for
from deltasql.spec.schema import Primitive, StructField, StructType, render_schema

# --- by hypothesis --------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
BOOLS = st.booleans()
TEXT_MAPS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
STRING_MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | BOOLS | st.integers(-(10**40), 10**40) | FLOATS | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
# Prefixed, so that none is a field of the spec.
EXTRAS = st.dictionaries(TEXTS.map(lambda name: "x" + name), VALUES, max_size=3)


def _some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


VECTORS = st.builds(
    DeletionVector,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=TEXTS,
    size_in_bytes=INTS,
    cardinality=LONGS,
    offset=_some(INTS),
    max_row_index=_some(LONGS),
    extra=EXTRAS,
)
ADDS = st.builds(
    AddFile,
    path=TEXTS,
    size=LONGS,
    modification_time=LONGS,
    partition_values=TEXT_MAPS,
    data_change=BOOLS,
    stats=_some(TEXTS),
    tags=_some(TEXT_MAPS),
    deletion_vector=_some(VECTORS),
    base_row_id=_some(LONGS),
    default_row_commit_version=_some(LONGS),
    clustering_provider=_some(TEXTS),
    extra=EXTRAS,
)
REMOVES = st.builds(
    RemoveFile,
    path=TEXTS,
    deletion_timestamp=_some(LONGS),
    data_change=BOOLS,
    extended_file_metadata=_some(BOOLS),
    partition_values=_some(TEXT_MAPS),
    size=_some(LONGS),
    stats=_some(TEXTS),
    tags=_some(TEXT_MAPS),
    deletion_vector=_some(VECTORS),
    base_row_id=_some(LONGS),
    default_row_commit_version=_some(LONGS),
    extra=EXTRAS,
)
CDCS = st.builds(
    CdcFile,
    path=TEXTS,
    size=LONGS,
    partition_values=TEXT_MAPS,
    data_change=BOOLS,
    tags=_some(TEXT_MAPS),
    extra=EXTRAS,
)
METADATAS = st.builds(
    Metadata,
    id=TEXTS,
    schema_string=TEXTS,
    partition_columns=st.lists(TEXTS, max_size=3).map(tuple),
    configuration=STRING_MAPS,
    format=st.builds(Format, provider=TEXTS, options=STRING_MAPS, extra=EXTRAS),
    name=_some(TEXTS),
    description=_some(TEXTS),
    created_time=_some(LONGS),
    extra=EXTRAS,
)
PROTOCOLS = st.builds(
    Protocol,
    min_reader_version=INTS,
    min_writer_version=INTS,
    reader_features=_some(st.lists(TEXTS, max_size=3).map(tuple)),
    writer_features=_some(st.lists(TEXTS, max_size=3).map(tuple)),
    extra=EXTRAS,
)
TXNS = st.builds(Txn, app_id=TEXTS, version=LONGS, last_updated=_some(LONGS), extra=EXTRAS)
DOMAINS = st.builds(DomainMetadata, domain=TEXTS, configuration=TEXTS, removed=BOOLS, extra=EXTRAS)
INFOS = st.builds(
    CommitInfo,
    in_commit_timestamp=_some(LONGS),
    timestamp=_some(LONGS),
    operation=_some(TEXTS),
    operation_parameters=_some(st.dictionaries(TEXTS, VALUES, max_size=3)),
    engine_info=_some(TEXTS),
    is_blind_append=_some(BOOLS),
    read_version=_some(LONGS),
    isolation_level=_some(TEXTS),
    txn_id=_some(TEXTS),
    user_name=_some(TEXTS),
    extra=EXTRAS,
)
UNKNOWNS = st.builds(UnknownAction, TEXTS.map(lambda name: "x" + name), VALUES)
ACTIONS = st.one_of(
    ADDS, REMOVES, CDCS, METADATAS, PROTOCOLS, TXNS, DOMAINS, INFOS, UNKNOWNS
)  # fmt: skip

# --- by hand --------------------------------------------------------------------------

STATS = '{"numRecords":10,"minValues":{"id":1},"maxValues":{"id":10},"nullCount":{"id":0}}'


def column(name: str, kind: str = "long", **more: Any) -> StructField:
    return StructField(name, Primitive(kind), **more)


SCHEMA = StructType((column("id"), column("name", "string"), column("day", "date")))


def add(path: str = "a.parquet", **more: Any) -> AddFile:
    return AddFile(**{"path": path, "size": 1, "modification_time": 1, **more})


def remove(path: str = "a.parquet", **more: Any) -> RemoveFile:
    return RemoveFile(**{"path": path, "deletion_timestamp": 1, **more})


def vector(**more: Any) -> DeletionVector:
    given = {
        "storage_type": "u",
        "path_or_inline_dv": "ab^-aqEH.-t@S}K{vb[*k^",
        "size_in_bytes": 34,
        "cardinality": 1,
    }
    return DeletionVector(**{**given, **more})


def metadata(
    schema: StructType = SCHEMA, *, by: tuple[str, ...] = (), **properties: str
) -> Metadata:
    """Metadata whose properties are given as `delta_appendOnly="true"`."""
    configuration = {key.replace("_", "."): value for key, value in properties.items()}
    return Metadata(
        id="m",
        schema_string=render_schema(schema),
        partition_columns=by,
        configuration=configuration,
    )


def state(
    schema: StructType = SCHEMA,
    *,
    by: tuple[str, ...] = (),
    version: int = 4,
    features: tuple[str, ...] = (),
    **properties: str,
) -> TableState:
    """A table with the features that its schema and properties need, and those named."""
    meta = metadata(schema, by=by, **properties)
    asked = {f"delta.feature.{name}": "supported" for name in features}
    return TableState(
        version=version,
        in_commit_timestamp=1,
        metadata=meta,
        metadata_version=0,
        protocol=protocol_for(schema, {**meta.configuration, **asked}, fence=True),
        protocol_version=0,
    )
