"""Rows of the log as columns of a checkpoint: `add`, `remove` and the few other actions.

JSON texts repeat (partition values, tags), so each distinct one is parsed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.arrow_schema import arrow_type
from deltasql.delta_log.checkpoint.schema import (
    DELETION_VECTOR,
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    REMOVE,
    TEXT_MAP,
    TXN,
    CheckpointShape,
)
from deltasql.delta_log.checkpoint.stats import parse_stats
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.partition_values import parse_value
from deltasql.spec.schema import Primitive
from deltasql.store.interface import TxnRecord

_Object = Mapping[str, Any]


# --- files ----------------------------------------------------------------------------


def adds(batch: pa.RecordBatch, shape: CheckpointShape) -> pa.StructArray:
    """The `add` column for a batch of `rows.FILES_SCHEMA`.

    `dataChange` is false, as in the reference implementation: a checkpoint only restates.
    """
    partitions, places = _distinct(batch.column("partition_values"))
    columns: dict[str, pa.Array] = {
        "path": batch.column("path"),
        "partitionValues": _maps(partitions).take(places),
        "size": batch.column("size"),
        "modificationTime": batch.column("modification_time"),
        "dataChange": pa.repeat(pa.scalar(False), batch.num_rows),  # noqa: FBT003
        "tags": _parsed(batch.column("tags"), _maps, TEXT_MAP),
        "deletionVector": _parsed(batch.column("deletion_vector"), _vectors, DELETION_VECTOR),
        "baseRowId": batch.column("base_row_id"),
        "defaultRowCommitVersion": batch.column("default_row_commit_version"),
        "clusteringProvider": batch.column("clustering_provider"),
        "stats": _stats(batch, shape),
    }
    if shape.stats_parsed is not None:
        columns["stats_parsed"] = parse_stats(batch.column("stats"), shape.stats_parsed)
    if shape.partition_types is not None:
        columns["partitionValues_parsed"] = _typed(partitions, shape.partition_types).take(places)
    fields = list(shape.add)
    return pa.StructArray.from_arrays([columns[item.name] for item in fields], fields=fields)


def _stats(batch: pa.RecordBatch, shape: CheckpointShape) -> pa.Array:
    stats = batch.column("stats")
    if shape.stats != "vectors":
        return stats
    return pc.if_else(
        batch.column("deletion_vector").is_valid(), stats, pa.scalar(None, pa.string())
    )


def removes(batch: pa.RecordBatch) -> pa.StructArray:
    """The `remove` column for tombstones, given as JSON of the actions' own objects.

    A checkpoint does not hold the stats and tags of removes.
    """
    objects = _loads(batch.column("action").to_pylist())
    makers: dict[str, Callable[[Sequence[_Object | None]], pa.Array]] = {
        "partitionValues": _maps,
        "deletionVector": _vectors,
    }
    columns = []
    for item in REMOVE:
        values = [found.get(item.name) for found in objects]
        make = makers.get(item.name)
        columns.append(pa.array(values, item.type) if make is None else make(values))
    return pa.StructArray.from_arrays(columns, fields=list(REMOVE))


def _distinct(texts: pa.Array) -> tuple[list[Any], pa.Array]:
    """The objects of the distinct texts, and the index of each row's object among them."""
    encoded = texts.dictionary_encode()
    return _loads(encoded.dictionary.to_pylist()), encoded.indices


def _loads(texts: Sequence[str]) -> list[Any]:
    try:
        found: list[Any] = orjson.loads(f"[{','.join(texts)}]")
    except ValueError:
        # Unknown fields of a remove may hold numbers that only our codec reads.
        return [codec.loads(text) for text in texts]
    return found


def _parsed(
    texts: pa.Array, make: Callable[[Sequence[_Object | None]], pa.Array], kind: pa.DataType
) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    objects, places = _distinct(texts)
    return make(objects).take(places)


def _maps(objects: Sequence[_Object | None]) -> pa.MapArray:
    """Maps of texts, built column by column, which is faster than row by row."""
    offsets: list[int | None] = [0]
    offsets += accumulate(len(item) if item else 0 for item in objects)
    for place, item in enumerate(objects):
        if item is None:
            # A null offset makes the map that starts there null.
            offsets[place] = None
    keys = [key for item in objects if item for key in item]
    values = [value for item in objects if item for value in item.values()]
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.string())
    )


def _vectors(objects: Sequence[_Object | None]) -> pa.Array:
    if not any(objects):
        return pa.nulls(len(objects), DELETION_VECTOR)
    return pa.array(objects, DELETION_VECTOR)


def _typed(objects: Sequence[_Object], types: Mapping[str, Primitive]) -> pa.StructArray:
    """Typed partition values; a malformed text is an error, since null would mean null."""
    columns = [
        pa.array([parse_value(item.get(name), kind) for item in objects], arrow_type(kind))
        for name, kind in types.items()
    ]
    fields = [pa.field(name, arrow_type(kind)) for name, kind in types.items()]
    return pa.StructArray.from_arrays(columns, fields=fields)


# --- the other actions ----------------------------------------------------------------


def table_actions(
    state: TableState, txns: Sequence[TxnRecord], domains: Mapping[str, str]
) -> dict[str, pa.Array]:
    """Protocol, metaData, txns and domains by their columns' names, in a fixed order."""
    # Null, not empty, unless the version lists features: both mean something to readers.
    protocol = codec.wire_fields(state.protocol)
    seen = sorted(txns, key=lambda txn: txn.app_id)
    return {
        "protocol": pa.array([protocol], PROTOCOL),
        "metaData": pa.array([codec.wire_fields(state.metadata)], METADATA),
        "txn": pa.array([_txn(txn) for txn in seen], TXN),
        "domainMetadata": pa.array(
            [
                {"domain": name, "configuration": configuration, "removed": False}
                for name, configuration in sorted(domains.items())
            ],
            DOMAIN_METADATA,
        ),
    }


def _txn(txn: TxnRecord) -> dict[str, Any]:
    return {"appId": txn.app_id, "version": txn.txn_version, "lastUpdated": txn.last_updated}
