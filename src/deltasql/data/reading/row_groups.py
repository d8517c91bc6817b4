"""Row groups that a predicate can't match are left unread."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import orjson
import pyarrow.parquet as pq

from deltasql.log.pruning.files import Pruner


def matching_row_groups(
    metadata: pq.FileMetaData,
    *,
    pruner: Pruner | None,
    partition_values: Mapping[str, str | None],
    columns: Mapping[str, tuple[str, ...]],
) -> frozenset[int]:
    """The row groups that may hold a matching row.

    `columns` are the file's columns whose bounds may be trusted, with their paths in stats.
    """
    everything = frozenset(range(metadata.num_row_groups))
    # A single group was already judged by the file's own stats.
    if pruner is None or metadata.num_row_groups < 2:
        return everything
    names = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    places = {path: names[name] for name, path in columns.items() if name in names}
    return frozenset(
        group
        for group in everything
        if pruner.may_match(
            partition_values=partition_values, stats=_stats(metadata.row_group(group), places)
        )
    )


def _stats(group: Any, places: Mapping[tuple[str, ...], int]) -> str:
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for path, index in places.items():
        found = group.column(index).statistics
        if found is None:
            continue
        name = path[0]
        if found.has_null_count:
            nulls[name] = found.null_count
        bounds = _bounds(found)
        if bounds is not None:
            lows[name], highs[name] = bounds
    content = {"numRecords": group.num_rows, "minValues": lows, "maxValues": highs}
    return orjson.dumps(content | {"nullCount": nulls}).decode()


def _bounds(found: Any) -> tuple[Any, Any] | None:
    if not found.has_min_max:
        return None
    try:
        low, high = found.min, found.max
    except (UnicodeDecodeError, OverflowError, ValueError):
        return None  # cut within a character, or beyond what Python can hold
    return (low, high) if _is_plain(low) and _is_plain(high) else None


def _is_plain(value: Any) -> bool:
    """Integers, strings and dates: floats have NaN, the others a form of their own."""
    if isinstance(value, bool | datetime):
        return False
    return isinstance(value, int | str | date)
