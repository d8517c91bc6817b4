"""The Hilbert curve through a grid of any number of dimensions, for whole columns at a time.

Skilling's transform (Programming the Hilbert curve, AIP Conference Proceedings 707, 2004): it turns
coordinates into numbers whose bits, interleaved as in a Z-order, count along the curve.
Unlike in a Z-order, each step leads to a neighbour: a run of rows is one piece of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc


@cache
def _zero() -> pa.Scalar:
    # Not while this is imported: PyArrow imports pandas for its first value, a fifth of a second.
    return pa.scalar(0, pa.int64())


def hilbert_axes(axes: Sequence[pa.Array], bits: int) -> list[pa.Array]:
    """Coordinates of `bits` bits, int64, as numbers to interleave, the first axis first."""
    found = list(axes)
    if len(found) < 2:
        return found
    for bit in range(bits - 1, 0, -1):
        below = pa.scalar((1 << bit) - 1, pa.int64())
        for number, axis in enumerate(found):
            is_set = _has(axis, bit)
            if number == 0:
                found[0] = pc.bit_wise_xor(axis, pc.if_else(is_set, below, _zero()))
                continue
            # Invert where the bit is set, and exchange with the first axis where it is not.
            swapped = pc.bit_wise_and(pc.bit_wise_xor(found[0], axis), below)
            found[0] = pc.bit_wise_xor(found[0], pc.if_else(is_set, below, swapped))
            found[number] = pc.bit_wise_xor(axis, pc.if_else(is_set, _zero(), swapped))
    for number in range(1, len(found)):
        found[number] = pc.bit_wise_xor(found[number], found[number - 1])
    return _gray(found, bits)


def _gray(axes: list[pa.Array], bits: int) -> list[pa.Array]:
    turned: pa.Array | None = None
    for bit in range(bits - 1, 0, -1):
        below = pa.scalar((1 << bit) - 1, pa.int64())
        part = pc.if_else(_has(axes[-1], bit), below, _zero())
        turned = part if turned is None else pc.bit_wise_xor(turned, part)
    return axes if turned is None else [pc.bit_wise_xor(axis, turned) for axis in axes]


def _has(axis: pa.Array, bit: int) -> pa.Array:
    mask = pa.scalar(1 << bit, pa.int64())
    return pc.not_equal(pc.bit_wise_and(axis, mask), _zero())
