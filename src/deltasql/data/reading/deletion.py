"""The deleted rows of a data file."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.objectstore import ObjectStore
from deltasql.places import uri_of
from deltasql.spec.actions import AddFile, DeletionVector, RemoveFile
from deltasql.spec.deletion_vectors import Inline, decode, locate, unframe
from deltasql.spec.paths import is_elsewhere, object_key

# 512 MB of them: what a file says of its own rows may be made up, too.
_MOST_ROWS: Final = 1 << 26


def find_object(objects: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    """The store and the key of a path in the log; absolute paths must be allowed."""
    if is_elsewhere(path):
        return objects.resolve(uri_of(path, objects.location))
    return objects, object_key(path)


def deleted_rows(
    objects: ObjectStore, vector: DeletionVector, *, rows: int | None, path: str
) -> array[int]:
    """The physical indexes of the deleted rows, ascending; `rows` are those of the data file."""
    if rows is not None and vector.cardinality > rows:
        raise LogFormatError(
            f"the deletion vector of {path} deletes {vector.cardinality} rows",
            cause=f"the file has {rows}",
            remedy="restore the data file and the log from copies that belong together",
        )
    if vector.cardinality > _MOST_ROWS:
        raise UnsupportedFeatureError(
            f"the deletion vector of {path} deletes {vector.cardinality} rows",
            cause=f"more than {_MOST_ROWS:,} are not held in memory: a small file may claim them",
            remedy="read it with Spark, or purge its deleted rows there",
        )
    place = locate(vector)
    if isinstance(place, Inline):
        return decode(place.bitmap, cardinality=vector.cardinality)
    store, key = find_object(objects, place.path)
    # The version byte is at the file's start, and the vector usually follows it.
    if place.offset == 1:
        content = store.read(key, length=1 + place.length)
        version, frame = content[:1], content[1:]
    else:
        version = store.read(key, length=1)
        frame = store.read(key, offset=place.offset, length=place.length)
    bitmap = unframe(
        frame, version=version[0] if version else 0, size=vector.size_in_bytes, source=place.path
    )
    return decode(bitmap, cardinality=vector.cardinality)


def lists_of(rows: Sequence[array[int]]) -> pa.ListArray:
    """Deleted rows of several files as Arrow, without an object for each of them."""
    ends = accumulate((len(item) for item in rows), initial=0)
    pieces = [
        pa.Array.from_buffers(pa.uint64(), len(item), [None, pa.py_buffer(item)]) for item in rows
    ]
    values = pa.concat_arrays(pieces) if pieces else pa.array([], pa.uint64())
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values).cast(
        pa.list_(pa.uint64())
    )


def deleted_in(objects: ObjectStore, file: AddFile | RemoveFile) -> array[int]:
    """The deleted rows of a file of the log, ascending; none without a vector."""
    if file.deletion_vector is None:
        return array("Q")
    rows = record_count(load_stats(file.stats))
    return deleted_rows(objects, file.deletion_vector, rows=rows, path=file.path)


class RowDeleter:
    """Takes the deleted rows out of batches that carry their rows' places in the file."""

    __slots__ = ("_deleted",)

    def __init__(self, deleted: array[int], *, rows: int, path: str) -> None:
        if deleted and deleted[-1] >= rows:
            raise LogFormatError(
                f"the deletion vector of {path} deletes row {deleted[-1]}",
                cause=f"the file has {rows} rows",
                remedy="restore the data file and the log from copies that belong together",
            )
        self._deleted = deleted

    def keep_mask(self, start: int, count: int) -> pa.Array | None:
        """True for the live rows of [start, start + count); None if all are live."""
        first = bisect_left(self._deleted, start)
        last = bisect_left(self._deleted, start + count, first)
        if first == last:
            return None
        slots = [None, pa.py_buffer(self._deleted[first:last])]
        gone = pa.Array.from_buffers(pa.uint64(), last - first, slots)
        return pc.invert(pc.is_in(pa.arange(start, start + count).cast(pa.uint64()), gone))
