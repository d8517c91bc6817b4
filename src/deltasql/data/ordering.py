"""Rows in the order of a curve through several columns, so that files bound all of them.

Z-order: the bits of each column's rank, interleaved. Ranks make every kind of value, however it
is spread, use the whole range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

# The bits of one number that Arrow can shift and compare.
_BITS: Final = 62
_MOST_BITS: Final = 20


def in_zorder(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows sorted along the Z-order curve of the columns; nulls come first."""
    if rows.num_rows < 2:
        return rows
    bits = min(_MOST_BITS, _BITS // len(columns))
    ranks = [_rank(rows.column(name), bits) for name in columns]
    curve: pa.Array | None = None
    for bit in range(bits):
        for place, rank in enumerate(ranks):
            part = pc.shift_left(
                pc.bit_wise_and(pc.shift_right(rank, bit), pa.scalar(1, pa.int64())),
                # The first column has the highest bit of each round.
                pa.scalar(bit * len(ranks) + len(ranks) - 1 - place, pa.int64()),
            )
            curve = part if curve is None else pc.bit_wise_or(curve, part)
    return rows.take(pc.sort_indices(curve))


def _rank(column: pa.ChunkedArray, bits: int) -> pa.Array:
    """The rank of each value among the distinct ones, spread over so many bits."""
    whole = column.combine_chunks()
    ranks = pc.rank(whole, [("", "ascending", "at_start")], tiebreaker="dense")
    ranks = pc.subtract(ranks.cast(pa.int64()), pa.scalar(1, pa.int64()))
    highest = pc.max(ranks).as_py()
    if not highest:
        return ranks
    return pc.divide(pc.multiply(ranks, pa.scalar((1 << bits) - 1, pa.int64())), highest)
