"""Where each row of a sorted bin went, as it is recorded with the commit."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.log.moved_rows import MOST_ORDERED, pack
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.spec.actions import AddFile


def packed_places(added: Sequence[AddFile], indices: pa.Array) -> bytes | None:
    """The place of each old row among the new files' rows, in order of path; None if too many.

    `added` are the new files in the order in which they were written, `indices` the old rows.
    """
    counts = [record_count(load_stats(add.stats)) or 0 for add in added]
    if len(indices) > MOST_ORDERED or sum(counts) != len(indices):
        return None
    starts = [end - count for end, count in zip(accumulate(counts), counts, strict=True)]
    # Whoever looks for a row later knows the files only by their paths.
    by_path = sorted(range(len(added)), key=lambda number: added[number].path)
    pieces = [indices.slice(starts[number], counts[number]) for number in by_path]
    places = pc.sort_indices(pa.concat_arrays(pieces)).cast(pa.int32()) if pieces else pa.array([])
    found = array("i")
    found.frombytes(places.buffers()[1].to_pybytes()[: 4 * len(places)] if len(places) else b"")
    return pack(found)
