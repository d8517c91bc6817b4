"""How much of a matrix of cases is run: all of it by `make test-full`, and what matters by
`make test`.

Choices are the same each time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations, cycle, islice, product
from typing import Any
from zlib import crc32

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


# What lies above the databases, whose own tests are tests/store, tests/integrity, tests/faults and
# tests/stress. Of the two that are embedded, which share their code, each case gets one.
ABOVE_STORES = ("tests/adoption/", "tests/lake/", "tests/maintenance/", "tests/mirror/")
EMBEDDED = ("sqlite", "duckdb")


def is_in_turn(case: str, database: str) -> bool:
    """Whether a case, as its id has it, is run on a database: on PostgreSQL, and on one more."""
    if FULL or database not in EMBEDDED or not case.startswith(ABOVE_STORES):
        return True
    # Without the database it is the same for all.
    function, _, given = case.partition("[")
    others = [part for part in given.rstrip("]").split("-") if part != database]
    return EMBEDDED[crc32(f"{function} {others}".encode()) % len(EMBEDDED)] == database
