"""How many rows make a file of the requested size.

Delta's writer starts a new file after a number of rows, never after a number of bytes. The size of
a row comes from the table's own files; if they don't tell, from a sample of the rows, which the
same writer writes and which is deleted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow.compute as pc

from deltasql.lake.snapshot import Snapshot

# A smaller file is mostly footer and first pages, and says little about a full one.
_INFORMATIVE = 64 << 10
_SAMPLE_ROWS = 20_000

# Writes a sample of that many rows; returns its bytes, and how many rows there were.
Sample = Callable[[int], tuple[int, int]]


def rows_per_file(target: int | None, like: Snapshot | None, sample: Sample) -> int | None:
    """The most rows that a file may have; None if no size was requested.

    `like` is the table, if its files contain rows of the same schema.
    """
    if target is None:
        return None
    width = (None if like is None else bytes_a_row(like)) or _ratio(*sample(_SAMPLE_ROWS))
    return None if width is None else max(1, int(target / width))


def bytes_a_row(snapshot: Snapshot) -> float | None:
    """The bytes per row in the first of the table's files that tell; None if none does."""
    for batch in snapshot.batches():
        large = batch.filter(pc.greater_equal(batch.column("size"), _INFORMATIVE))
        counted = large.filter(pc.is_valid(large.column("num_records")))
        found = _ratio(_sum(counted.column("size")), _sum(counted.column("num_records")))
        if found is not None:
            return found
    return None


def _ratio(size: int, rows: int) -> float | None:
    return size / rows if rows else None


def _sum(values: Sequence[int]) -> int:
    return pc.sum(values).as_py() or 0
