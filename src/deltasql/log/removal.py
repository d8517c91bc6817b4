"""Which files a commit may remove, and on what grounds.

That a file may hold rows of a condition is a reason to read it, never to remove it. So a remove is
made from a type that says why no row is lost: `WholeFile`, whose rows are all to be deleted, or
`RewrittenFile`, whose other rows are in new files. Only the functions below make them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NewType, TypeAlias

from deltasql.log.predicates.predicate import Predicate
from deltasql.log.pruning.files import Match, Pruner
from deltasql.spec.actions import AddFile, RemoveFile
from deltasql.spec.schema import StructType

WholeFile = NewType("WholeFile", AddFile)
RewrittenFile = NewType("RewrittenFile", AddFile)
Removable: TypeAlias = WholeFile | RewrittenFile


@dataclass(frozen=True, slots=True)
class Sorted:
    """Files that may hold rows of a condition: `whole` for certain, `partial` to be read."""

    whole: list[WholeFile]
    partial: list[AddFile]


def sort_by_match(
    files: Iterable[AddFile],
    predicate: Predicate | None,
    schema: StructType,
    partition_columns: Collection[str],
) -> Sorted:
    """Sort the files by what a bound predicate is certain of; without one, of nothing."""
    if predicate is None:
        return Sorted([], list(files))
    found = Sorted([], [])
    pruner = Pruner(predicate, schema, partition_columns)
    # There are thousands of files but dozens of partitions, whose values alone can say "all".
    known: dict[tuple[tuple[str, str | None], ...], Match] = {}
    for add in files:
        values = add.partition_values
        key = tuple(values.items())
        if key not in known:
            known[key] = pruner.match(partition_values=values)
        if known[key] is Match.ALL:
            found.whole.append(WholeFile(add))
        elif pruner.may_match(partition_values=values, stats=add.stats):
            found.partial.append(add)
    return found


def every_row(files: Iterable[AddFile]) -> list[WholeFile]:
    """Files removed because every row is: of the table, or of their partition."""
    return [WholeFile(add) for add in files]


def rewritten(files: Iterable[AddFile]) -> list[RewrittenFile]:
    """Files whose rows were read one by one, with those that stay written elsewhere."""
    return [RewrittenFile(add) for add in files]


def removes(
    files: Iterable[Removable], *, deletion_timestamp: int, data_change: bool = True
) -> list[RemoveFile]:
    """The actions that remove files from the table; rows that merely move are no change."""
    return [
        RemoveFile.of(add, deletion_timestamp=deletion_timestamp, data_change=data_change)
        for add in files
    ]
