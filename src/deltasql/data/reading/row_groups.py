"""Row groups that a predicate can't match are not read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final

import orjson
import pyarrow as pa

from deltasql.data.reading.chunk_statistics import ChunkStatistics
from deltasql.data.reading.footer import ParquetFile
from deltasql.log.pruning.files import Pruner

_EPOCH: Final = date(1970, 1, 1)
# Parquet's numbers for physical types, and the bytes in a value.
_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
_WIDTHS: Final = {_INT32: 4, _INT64: 8}


def matching_row_groups(
    file: ParquetFile,
    *,
    pruner: Pruner | None,
    partition_values: Mapping[str, str | None],
    columns: Mapping[str, tuple[str, ...]],
) -> frozenset[int]:
    """The row groups that may hold a matching row.

    `columns` are the file's columns whose bounds may be trusted, with their paths in stats.
    """
    metadata = file.metadata
    everything = frozenset(range(metadata.num_row_groups))
    # A single group was already checked by the file's own stats.
    if pruner is None or metadata.num_row_groups < 2:
        return everything
    names = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    places = {path: names[name] for name, path in columns.items() if name in names}
    types = {item.name: item.type for item in file.schema_arrow}
    known = file.statistics(places.values())
    return frozenset(
        group
        for group in everything
        if pruner.may_match(
            partition_values=partition_values,
            stats=_stats(
                metadata.row_group(group).num_rows,
                {path: known[group][index] for path, index in places.items()},
                {path: types[name] for name, path in columns.items()},
            ),
        )
    )


def _stats(
    rows: int,
    known: Mapping[tuple[str, ...], ChunkStatistics],
    types: Mapping[tuple[str, ...], pa.DataType],
) -> str:
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for path, found in known.items():
        name = path[0]
        if found.nulls is not None and 0 <= found.nulls <= rows:
            nulls[name] = found.nulls
        low, high = (_value(found, bound, types[path]) for bound in (found.low, found.high))
        if low is not None and high is not None:
            lows[name], highs[name] = low, high
    content = {"numRecords": rows, "minValues": lows, "maxValues": highs}
    return orjson.dumps(content | {"nullCount": nulls}).decode()


def _value(found: ChunkStatistics, bound: bytes | None, wanted: pa.DataType) -> Any:
    """A bound of a signed integer, a string or a date; None for other types and invalid bounds.

    Floats have NaN, and the other types an encoding of their own.
    """
    if bound is None:
        return None
    if found.physical_type == _BYTE_ARRAY and (
        pa.types.is_string(wanted) or pa.types.is_large_string(wanted)
    ):
        try:
            return bound.decode()
        except UnicodeDecodeError:
            return None  # cut within a character
    if len(bound) != _WIDTHS.get(found.physical_type or 0):
        return None
    number = int.from_bytes(bound, "little", signed=True)
    if pa.types.is_signed_integer(wanted):
        return number
    if pa.types.is_date32(wanted):
        try:
            return _EPOCH + timedelta(days=number)
        except OverflowError:
            return None  # beyond what Python can hold
    return None
