"""Bounds that Parquet's writer finds anyway, for kinds of values that are slow to compare twice."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasql.data.writing.stats import Collector, Indexed

_KINDS = ("string", "float")
# Parquet's writer leaves out the bounds of longer texts.
_LONGEST = 1024


class FooterBounds:
    """Which leaves the footer of a file tells the bounds of, row group by row group."""

    __slots__ = ("_groups", "_leaves")

    def __init__(self, leaves: Sequence[Indexed]) -> None:
        self._leaves = [
            (position, leaf)
            for position, leaf in enumerate(leaves)
            # With a dot in its name, a column could be taken for the field of a struct.
            if leaf.bounds in _KINDS and not leaf.inner and "." not in leaf.path[0]
        ]
        self._groups: list[frozenset[int]] = []

    def of(self, table: pa.Table) -> frozenset[int]:
        """The positions of those leaves for a table that becomes the next row group."""
        found = frozenset(
            position
            for position, leaf in self._leaves
            if leaf.bounds == "float" or _are_short(table.column(leaf.column))
        )
        self._groups.append(found)
        return found

    def tell(self, footer: pq.FileMetaData, collector: Collector) -> None:
        """Give the collector the bounds of all row groups; what is not there is unknown."""
        places = _places(footer)
        is_whole = footer.num_row_groups == len(self._groups)
        for position, leaf in self._leaves:
            place = places.get(leaf.path[0])
            for number, told in enumerate(self._groups):
                if position not in told:
                    continue
                if place is None or not is_whole:
                    collector.forget(position)
                    break
                _tell(footer.row_group(number).column(place), position, collector)


def _are_short(texts: pa.ChunkedArray) -> bool:
    return (pc.max(pc.binary_length(texts)).as_py() or 0) <= _LONGEST


def _places(footer: pq.FileMetaData) -> dict[str, int]:
    """The columns of a file by their paths."""
    return {footer.schema.column(number).path: number for number in range(footer.num_columns)}


def _tell(chunk: pq.ColumnChunkMetaData, position: int, collector: Collector) -> None:
    found = chunk.statistics
    if found is not None and found.has_min_max:
        collector.learn(position, found.min, found.max)
    elif found is None or found.null_count != chunk.num_values:
        collector.forget(position)
