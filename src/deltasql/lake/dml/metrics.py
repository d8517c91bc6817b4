"""What an operation on rows did, under the names that stock Delta uses."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from deltasql.data.writing.vectors import live_rows, row_count
from deltasql.log.predicates.predicate import Predicate, columns
from deltasql.log.state import TableState
from deltasql.spec.actions import AddFile, CdcFile

_SIDES = {"matched": "Matched", "not matched by source": "NotMatchedBySource"}


@dataclass(slots=True)
class Clock:
    """How long the phases of an operation take."""

    started: float = field(default_factory=time.monotonic)
    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent in the block to a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - began

    def metrics(self) -> dict[str, int]:
        """Milliseconds, under Delta's names."""
        total = {"executionTimeMs": time.monotonic() - self.started, **self.spent}
        return {name: round(seconds * 1000) for name, seconds in total.items()}


class FileChanges:
    """Files removed and files added; one that merely lost rows to a vector is both."""

    def __init__(
        self, gone: Iterable[AddFile], added: Iterable[AddFile], changes: Iterable[CdcFile] = ()
    ) -> None:
        before = {add.path: add for add in gone}
        after = {add.path: add for add in added}
        self._removed = [add for path, add in before.items() if path not in after]
        self._marked = [add for path, add in after.items() if path in before]
        self.new = [add for path, add in after.items() if path not in before]
        self._changes = len(list(changes))
        had = {path for path, add in before.items() if add.deletion_vector is not None}
        self._vectors = {
            "Added": len(self._marked),
            "Removed": len(had),
            "Updated": sum(add.path in had for add in self._marked),
        }

    @property
    def rows_written(self) -> int | None:
        """The rows of the new files; None if one of them does not say how many it has."""
        return total(map(row_count, self.new))

    def of_rows(self) -> dict[str, int]:
        """As a delete or an update reports it."""
        return {
            "numAddedFiles": len(self.new),
            "numAddedBytes": sum(add.size for add in self.new),
            "numRemovedFiles": len(self._removed),
            "numRemovedBytes": sum(add.size for add in self._removed),
            "numAddedChangeFiles": self._changes,
            **{f"numDeletionVectors{name}": count for name, count in self._vectors.items()},
        }

    def of_update(self, *, marks_some: bool) -> dict[str, int]:
        """As an update reports it; `marks_some` if its condition picks rows, and vectors mark them.

        Stock Delta counts each file that it took rows from as removed, marked or not, and tells of
        vectors only if it marked rows: not of those that went with their files.
        """
        found = self.of_rows()
        found["numRemovedFiles"] += len(self._marked)
        if not marks_some:
            found |= {f"numDeletionVectors{name}": 0 for name in self._vectors}
        return found

    def of_merge(self) -> dict[str, int]:
        """As a merge reports it."""
        return {
            "numTargetFilesAdded": len(self.new),
            "numTargetFilesRemoved": len(self._removed),
            "numTargetBytesAdded": sum(add.size for add in self.new),
            "numTargetBytesRemoved": sum(add.size for add in self._removed),
            "numTargetChangeFilesAdded": self._changes,
            **{f"numTargetDeletionVectors{name}": count for name, count in self._vectors.items()},
        }


class ClauseLike(Protocol):
    """A clause of a merge, whichever engine runs it."""

    @property
    def side(self) -> str:
        """Whether it is for rows that match, and if not, for which side's rows."""

    @property
    def verb(self) -> str:
        """What it does to these rows."""


def write_metrics(
    files: Sequence[AddFile | CdcFile],
    gone: Sequence[AddFile] | None = None,
    kept: Sequence[AddFile] | None = None,
) -> dict[str, int]:
    """The metrics of an append, or of an overwrite that replaced the files `gone`.

    If the overwrite has a condition, `kept` are those new files that hold the rows which stayed.
    """
    adds = [item for item in files if isinstance(item, AddFile)]
    found: dict[str, int | None] = {
        "numFiles": len(adds),
        "numOutputRows": rows_in(adds),
        "numOutputBytes": sum(add.size for add in adds),
    }
    if gone is not None:
        found["numRemovedFiles"] = len(gone)
        found["numRemovedBytes"] = sum(add.size for add in gone)
    if gone is not None and kept is not None:
        there, copied = rows_in(gone), rows_in(kept)
        found["numCopiedRows"] = copied
        found["numDeletedRows"] = None if there is None or copied is None else there - copied
        found["numAddedChangeFiles"] = len(files) - len(adds)
    return _known(found)


def change_metrics(
    rows: Mapping[str, int | None], files: Mapping[str, int], clock: Clock
) -> dict[str, int]:
    """The metrics of a delete or an update; `rows` are those Deleted, Updated and Copied.

    Unknown numbers are left out.
    """
    return _known(
        {
            **{f"num{name}Rows": count for name, count in rows.items()},
            **files,
            **clock.metrics(),
        }
    )


def merge_metrics(
    clauses: Sequence[ClauseLike],
    counts: Mapping[int, int | None],
    files: FileChanges,
    clock: Clock,
    *,
    source: int,
    copied: int | None,
) -> dict[str, int]:
    """The metrics of a merge; `counts` are the rows of each clause, by its number."""
    rows: dict[str, int | None] = {"Inserted": 0, "Updated": 0, "Deleted": 0}
    rows |= {f"{side}{verb}": 0 for side in _SIDES.values() for verb in ("Updated", "Deleted")}
    for number, clause in enumerate(clauses):
        verb = f"{clause.verb.removesuffix('e')}ed".capitalize()
        names = [verb, *([_SIDES[clause.side] + verb] if clause.side in _SIDES else [])]
        for name in names:
            rows[name] = total([rows[name], counts.get(number, 0)])
    return _known(
        {
            "numSourceRows": source,
            **{f"numTargetRows{name}": count for name, count in rows.items()},
            "numTargetRowsCopied": copied,
            "numOutputRows": files.rows_written,
            **files.of_merge(),
            **clock.metrics(),
        }
    )


def picks_rows(state: TableState, predicate: Predicate | None, used: Iterable[str] = ()) -> bool:
    """Whether a condition looks at more than partitions; `used` are columns that it names, too."""
    named = {path[0] for path in columns(predicate)} if predicate is not None else set()
    return not {*named, *used} <= set(state.partition_columns)


def rows_in(files: Iterable[AddFile]) -> int | None:
    """The live rows of files; None if one of them does not say how many it has."""
    return total(map(live_rows, files))


def total(counts: Iterable[int | None]) -> int | None:
    """A sum; None if one of the numbers is unknown."""
    found = 0
    for count in counts:
        if count is None:
            return None
        found += count
    return found


def _known(metrics: Mapping[str, int | None]) -> dict[str, int]:
    return {name: count for name, count in metrics.items() if count is not None}
