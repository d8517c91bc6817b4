"""Rows deleted by marking them: the new deletion vectors of an operation, in one object."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deltasql.data.reading.deletion import deleted_in
from deltasql.data.writing import vector_files
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile


@dataclass(frozen=True, slots=True)
class VectorFile:
    """An object that holds new deletion vectors."""

    path: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A file and all of its deleted rows, including those of its old vector."""

    add: AddFile
    deleted: array[int]

    @property
    def is_whole(self) -> bool:
        """Whether no row is left."""
        return len(self.deleted) == row_count(self.add)


def row_count(add: AddFile) -> int | None:
    """The physical rows of a file, if its stats say how many."""
    return record_count(load_stats(add.stats))


def live_rows(add: AddFile) -> int | None:
    """The rows of a file that are not deleted, if its stats say how many it has."""
    count = row_count(add)
    vector = add.deletion_vector
    return count if count is None or vector is None else count - vector.cardinality


def with_old(objects: ObjectStore, add: AddFile, lost: array[int]) -> array[int]:
    """The rows to delete and those deleted already, ascending."""
    if add.deletion_vector is None:
        return lost
    return array("Q", sorted({*deleted_in(objects, add), *lost}))


def write_vectors(
    objects: ObjectStore, marks: Sequence[Mark], new_id: Callable[[], str]
) -> tuple[list[AddFile], list[VectorFile]]:
    """The actions that replace the marked files, and the object that was written."""
    left = [mark for mark in marks if not mark.is_whole]
    if not left:
        return [], []
    written = vector_files.write_vectors(
        objects, {mark.add.path: mark.deleted for mark in left}, new_id=new_id
    )
    added = [
        replace(
            mark.add,
            deletion_vector=written.vectors[mark.add.path],
            stats=vector_files.loosened(mark.add.stats),
            data_change=True,
        )
        for mark in left
    ]
    return added, [VectorFile(written.path)]
