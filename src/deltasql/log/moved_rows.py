"""Finds rows again: where a compaction has put them, and which rows of a file a commit deleted.

A compaction writes the live rows of the files that it removes one after the other, in the order of
their paths, into those that it adds. So it is enough to know how many rows of each removed file
were live. If it sorts them, the place of each row is recorded as well, unless there are too many. A
commit file has an order of its own, which means nothing here.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from deltasql.errors import LogFormatError
from deltasql.log.contenders import Winner
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.spec.actions import AddFile, Metadata, Protocol, RemoveFile

# For at most this many rows the place of each is recorded: four megabytes of a commit.
MOST_ORDERED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class MovedRows:
    """What became of the rows of the files that a compaction removed."""

    # By path: the place of the file's first live row among all rows, and how many it had.
    _removed: dict[str, tuple[int, int]]
    # In order: the new files, and the place after the last row of each.
    _added: Sequence[AddFile]
    _ends: Sequence[int]
    # The places of the rows after they were sorted; None if they were not.
    _order: Sequence[int] | None = None

    @classmethod
    def of(
        cls, winner: Winner, row_counts: Sequence[int] | None, row_order: bytes | None = None
    ) -> MovedRows | None:
        """What a commit moved; None if that is unknown."""
        removes = sorted(winner.all_of(RemoveFile), key=_path)
        adds = sorted(winner.all_of(AddFile), key=_path)
        counts = [record_count(load_stats(add.stats)) for add in adds]
        known = [count for count in counts if count is not None]
        if (
            row_counts is None
            or not only_moves(winner)
            or len(row_counts) != len(removes)
            or len(known) != len(adds)
            or sum(known) != sum(row_counts)
        ):
            return None
        order = None if row_order is None else _unpacked(row_order, sum(row_counts))
        if row_order is not None and order is None:
            return None
        ends = list(accumulate(row_counts))
        starts = [end - count for end, count in zip(ends, row_counts, strict=True)]
        places = zip(starts, row_counts, strict=True)
        return cls(
            {remove.path: place for remove, place in zip(removes, places, strict=True)},
            adds,
            list(accumulate(known)),
            order,
        )

    def live_rows(self, path: str) -> range:
        """The live rows of a removed file, counted without the deleted ones."""
        return range(self._removed[path][1])

    def find(self, path: str, rows: Iterable[int]) -> list[tuple[AddFile, int]]:
        """The new file, and the row in it, for each of these live rows of a removed file."""
        start, count = self._removed[path]
        found = []
        for row in rows:
            if row >= count:
                raise LogFormatError(
                    f"{path} had no live row {row} when it was compacted",
                    cause=f"it had {count}",
                    remedy="run the operation again",
                )
            place = start + row if self._order is None else self._order[start + row]
            at = bisect_right(self._ends, place)
            before = self._ends[at - 1] if at else 0
            found.append((self._added[at], place - before))
        return found


def pack(places: array[int]) -> bytes:
    """The places of sorted rows, 32-bit numbers, in the form in which they are recorded."""
    little = places if sys.byteorder == "little" else _swapped(places)
    return zlib.compress(little.tobytes(), level=1)


def _unpacked(packed: bytes, count: int) -> array[int] | None:
    """That many places, each of them once; None if these are not."""
    if count > MOST_ORDERED:
        return None
    found = array("i")
    try:
        found.frombytes(zlib.decompressobj().decompress(packed, count * found.itemsize + 1))
    except (zlib.error, ValueError):
        return None
    found = found if sys.byteorder == "little" else _swapped(found)
    return found if len(found) == count and set(found) == set(range(count)) else None


def _swapped(places: array[int]) -> array[int]:
    found = array("i", places)
    found.byteswap()
    return found


def _path(file: AddFile | RemoveFile) -> str:
    return file.path


def only_moves(winner: Winner) -> bool:
    """Whether a commit merely moved rows to other files."""
    if winner.all_of(Metadata) or winner.all_of(Protocol):
        return False
    files = [*winner.all_of(AddFile), *winner.all_of(RemoveFile)]
    return bool(files) and not any(file.data_change for file in files)


def among_live(rows: Iterable[int], deleted: array[int]) -> list[int]:
    """Physical rows of a file, none of them deleted, as places among its live ones."""
    return [row - bisect_left(deleted, row) for row in rows]
