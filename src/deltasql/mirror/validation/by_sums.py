"""The mirror's files compared with SQL's by sums: enough to know that very many of them agree.

The sums may be made in many places at once. Where they differ, the comparison file by file says
which files it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from deltasql.delta_log.listing import FoundCheckpoint, LogListing
from deltasql.delta_log.names import LOG, commit_name
from deltasql.delta_log.reading import checkpoint_actions, checkpoint_fault
from deltasql.errors import LogFormatError
from deltasql.log.file_sums import FileSum, FileSums
from deltasql.log.replay import FileKey, Replay
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, RemoveFile
from deltasql.store.checking.content import hashes_of_add
from deltasql.store.checking.summing import PathSum, RowSums
from deltasql.store.interface import LogStore
from deltasql.store.rows import key_of

# Beyond this, the commits after a checkpoint are too many to be replayed in memory.
_MOST_FILES: Final = 200_000
_NOT_FILES: Final = ("protocol", "metaData", "txn", "domainMetadata")


class Summer(Protocol):
    """Makes sums over very many files, wherever it can."""

    def rows(self, log: LogStore, table_id: int, version: int) -> RowSums:
        """The sums over the rows of a version's live files."""

    def checkpoint(
        self, objects: ObjectStore, found: FoundCheckpoint, *, without: Set[bytes]
    ) -> FileSums:
        """The sums over a checkpoint's files in Parquet, without the files of some keys."""

    def paths(self, batches: Iterable[pa.RecordBatch]) -> PathSum:
        """The sum over batches of path and size."""


@dataclass(frozen=True, slots=True)
class SummedMirror:
    """A mirror's table at a version, starting at a checkpoint; its files agree with SQL's."""

    checkpoint: int
    replay: Replay


@dataclass(frozen=True, slots=True)
class SumComparison:
    """Compares readings of a version with the sums over its rows."""

    summer: Summer
    rows: RowSums

    def mirror(
        self, objects: ObjectStore, listing: LogListing, version: int
    ) -> SummedMirror | None:
        """The table as readers of the mirror see it; None if its files differ from the rows, or if
        sums can't tell, as without a checkpoint in Parquet.
        """
        try:
            return self._mirror(objects, listing, version)
        except LogFormatError:
            return None  # the comparison file by file says what is wrong

    def _mirror(
        self, objects: ObjectStore, listing: LogListing, version: int
    ) -> SummedMirror | None:
        start = read_from_checkpoint(objects, listing, version)
        if start is None:
            return None
        start.replay.table()
        keys = {key_of(path) + key_of(dv_id) for path, dv_id in start.touched}
        sums = FileSum(self.summer.checkpoint(objects, start.found, without=keys))
        for add in start.replay.files.values():
            sums.add(hashes_of_add(add))
        # Checkpoints may leave out statistics.
        agrees = sums.value().has_files_of(self.rows.files)
        return SummedMirror(start.found.version, start.replay) if agrees else None

    def has_paths_of(self, batches: Iterable[pa.RecordBatch]) -> bool:
        """Whether another reader, whose paths and sizes are given, finds the same files."""
        return self.summer.paths(batches) == self.rows.paths


@dataclass(frozen=True, slots=True)
class FromCheckpoint:
    """A table read from a checkpoint without its files: `touched` are those that the commits after
    it name, and `replay` has what these commits leave.
    """

    found: FoundCheckpoint
    replay: Replay
    touched: Set[FileKey]


def read_from_checkpoint(
    objects: ObjectStore, listing: LogListing, version: int
) -> FromCheckpoint | None:
    """A table as readers see it who start at the newest sound checkpoint; None if there is none in
    Parquet, or if very many commits follow it.
    """
    sound = (f for f in listing.newest_first(version) if checkpoint_fault(objects, f) is None)
    found = next(sound, None)
    if found is None or not all(name.endswith(".parquet") for name in found.names):
        return None
    replay = Replay()
    replay.apply(found.version, checkpoint_actions(objects, found, kinds=_NOT_FILES))
    touched: set[FileKey] = set()
    for number in range(found.version + 1, version + 1):
        if number not in listing.commits or len(touched) > _MOST_FILES:
            return None
        actions = codec.decode_commit(objects.read(LOG + commit_name(number)))
        touched.update(
            (action.path, action.dv_id)
            for action in actions
            if isinstance(action, AddFile | RemoveFile)
        )
        replay.apply(number, actions)
    return FromCheckpoint(found, replay, touched)
