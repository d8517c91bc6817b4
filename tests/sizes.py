"""How much of a matrix of cases is run: all of it by `make test-full`, and what matters by
`make test`.

Choices are the same each time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations, cycle, islice, product
from typing import Any

FACTOR = float(os.environ.get("DELTASQL_STRESS", "0.1"))
FULL = FACTOR >= 1


def pairwise(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases in which any two values of different factors meet at least once; all cases if FULL."""
    every = list(product(*factors))
    if FULL:
        return every
    missing = {pair for case in every for pair in _pairs(case)}
    chosen = []
    while missing:
        best = max(every, key=lambda case: len(missing & _pairs(case)))
        missing -= _pairs(best)
        chosen.append(best)
    return chosen


def _pairs(case: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    return {(*one, *other) for one, other in combinations(enumerate(case), 2)}


def each_value(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases in which every value of every factor is there at least once; all cases if FULL."""
    if FULL:
        return list(product(*factors))
    length = max(map(len, factors))
    return list(zip(*(islice(cycle(values), length) for values in factors), strict=True))
