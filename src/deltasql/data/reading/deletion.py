"""The deleted rows of a data file."""

from __future__ import annotations

from array import array
from bisect import bisect_left

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import LogFormatError
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.objectstore import ObjectStore
from deltasql.places import uri_of
from deltasql.spec.actions import AddFile, DeletionVector, RemoveFile
from deltasql.spec.deletion_vectors import Inline, decode, locate, unframe
from deltasql.spec.paths import is_elsewhere, object_key


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
