"""What a merge was asked for, and what it did, under the names that stock Delta has for it."""

from __future__ import annotations

from collections.abc import Mapping

from deltasql.data.writing.vectors import row_count
from deltasql.lake.dml.merge_builder import Merge
from deltasql.lake.dml.operation import Clock, RowFiles, new_files

_SIDES = {"matched": "Matched", "not matched by source": "NotMatchedBySource"}


def merge_metrics(
    merge: Merge, files: RowFiles, clock: Clock, counts: Mapping[int, int], *, source: int
) -> dict[str, int]:
    """The metrics; `counts` are the rows of each clause."""
    rows = {"Inserted": 0, "Updated": 0, "Deleted": 0}
    sides = {f"{side}{verb}": 0 for side in _SIDES.values() for verb in ("Updated", "Deleted")}
    for number, clause in enumerate(merge.clauses):
        verb = f"{clause.verb.removesuffix('e')}ed".capitalize()
        rows[verb] += counts.get(number, 0)
        if clause.side in _SIDES:
            sides[_SIDES[clause.side] + verb] += counts.get(number, 0)
    added, kept = new_files(files), {add.path for add in files.added}
    removed = [add for add in files.gone if add.path not in kept]
    return {
        "numSourceRows": source,
        **{f"numTargetRows{name}": count for name, count in (rows | sides).items()},
        "numTargetRowsCopied": files.copied,
        "numOutputRows": sum(row_count(add) or 0 for add in added),
        "numTargetFilesAdded": len(added),
        "numTargetFilesRemoved": len(removed),
        "numTargetBytesAdded": sum(add.size for add in added),
        "numTargetBytesRemoved": sum(add.size for add in removed),
        "numTargetChangeFilesAdded": len(files.changes),
        **{f"numTargetDeletionVectors{name}": count for name, count in files.vectors.items()},
        **clock.metrics(),
    }


def merge_params(merge: Merge) -> dict[str, object]:
    """What the merge was asked for, as the history tells it."""

    def told(side: str) -> list[dict[str, str]]:
        return [
            {"actionType": clause.verb}
            | ({} if clause.condition is None else {"predicate": clause.condition})
            for clause in merge.clauses
            if clause.side == side
        ]

    return {
        "predicate": [merge.condition],
        "matchedPredicates": told("matched"),
        "notMatchedPredicates": told("not matched"),
        "notMatchedBySourcePredicates": told("not matched by source"),
    }
