"""Rows in the order of a curve through several columns, so that files have bounds in all of them.

Z-order: the bits of each column's rank, interleaved. With ranks, values of any kind and
distribution use the whole range. A Hilbert curve is a Z-order of ranks that were transformed
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.data.hilbert import hilbert_axes

# How many bits of a number Arrow can shift and compare.
_BITS: Final = 62
_MOST_BITS: Final = 20


def in_zorder(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The indices of the rows along the Z-order curve of the columns; nulls come first."""
    bits = _bits(columns)
    ranks = [_rank(rows.column(name), bits) for name in columns]
    return pc.sort_indices(interleaved(ranks, bits))


def in_hilbert_order(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The indices of the rows along the Hilbert curve of the columns."""
    bits = _bits(columns)
    ranks = [_rank(rows.column(name), bits) for name in columns]
    return pc.sort_indices(interleaved(hilbert_axes(ranks, bits), bits))


def interleaved(ranks: Sequence[pa.Array], bits: int) -> pa.Array:
    """Numbers of `bits` bits each as one number, bit by bit."""
    curve: pa.Array | None = None
    for bit in range(bits):
        for place, rank in enumerate(ranks):
            part = pc.shift_left(
                pc.bit_wise_and(pc.shift_right(rank, bit), pa.scalar(1, pa.int64())),
                # The first column gets the highest bit of each round.
                pa.scalar(bit * len(ranks) + len(ranks) - 1 - place, pa.int64()),
            )
            curve = part if curve is None else pc.bit_wise_or(curve, part)
    return curve


def _bits(columns: Sequence[str]) -> int:
    return min(_MOST_BITS, _BITS // len(columns))


def _rank(column: pa.ChunkedArray, bits: int) -> pa.Array:
    """The rank of each value among the distinct ones, spread over `bits` bits."""
    whole = column.combine_chunks()
    ranks = pc.rank(whole, [("", "ascending", "at_start")], tiebreaker="dense")
    ranks = pc.subtract(ranks.cast(pa.int64()), pa.scalar(1, pa.int64()))
    highest = pc.max(ranks).as_py()
    if not highest:
        return ranks
    return pc.divide(pc.multiply(ranks, pa.scalar((1 << bits) - 1, pa.int64())), highest)
