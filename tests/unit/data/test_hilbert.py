"""The Hilbert curve: it meets every point once, and each step leads to a neighbour."""

from __future__ import annotations

from itertools import pairwise, product

import pyarrow as pa
import pytest

from deltasql.data.hilbert import hilbert_axes
from deltasql.data.ordering import interleaved


def curve(dimensions: int, bits: int) -> list[tuple[int, ...]]:
    """The points of a grid in the order of the curve."""
    points = list(product(range(1 << bits), repeat=dimensions))
    axes = [pa.array(values, pa.int64()) for values in zip(*points, strict=True)]
    places = interleaved(hilbert_axes(axes, bits), bits).to_pylist()
    assert sorted(places) == list(range(len(points))), "each point has a place of its own"
    return [point for _, point in sorted(zip(places, points, strict=True))]


@pytest.mark.parametrize(
    ("dimensions", "bits"), [(1, 4), (2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (4, 2), (5, 2)]
)
def test_each_step_leads_to_a_neighbour(dimensions: int, bits: int):
    for one, next_one in pairwise(curve(dimensions, bits)):
        assert sum(abs(a - b) for a, b in zip(one, next_one, strict=True)) == 1


def test_it_begins_at_the_origin_and_ends_beside_it():
    assert curve(2, 4)[0] == (0, 0)
    assert curve(2, 4)[-1] == (15, 0)


def test_the_first_curve_of_hilbert():
    assert curve(2, 1) == [(0, 0), (0, 1), (1, 1), (1, 0)]


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_every_quarter_is_a_square(bits: int):
    points = curve(2, bits)
    size = len(points) // 4
    for start in range(0, len(points), size):
        for axis in (0, 1):
            values = {point[axis] for point in points[start : start + size]}
            assert max(values) - min(values) == (1 << (bits - 1)) - 1
