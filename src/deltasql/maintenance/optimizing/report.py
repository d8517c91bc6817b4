"""What optimize did, under the names of stock Delta's metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltasql.showing.report import Report
from deltasql.spec.actions import AddFile


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OptimizeReport(Report):
    """What optimize did: one commit for each bin.

    `versions` are its commits, `version` is the newest one of the table that it knows of. `metrics`
    are those of stock Delta's OPTIMIZE over all bins. `skipped` bins lost against other writers
    again and again; they are left to the next run.
    """

    table: str
    version: int
    versions: tuple[int, ...]
    skipped: int
    metrics: Mapping[str, int]


def metrics_of(removed: Sequence[AddFile], added: Sequence[AddFile]) -> dict[str, int]:
    """The operationMetrics of stock Delta's OPTIMIZE."""
    sizes = sorted(add.size for add in added)

    def at(share: float) -> int:
        return sizes[min(len(sizes) - 1, int(share * len(sizes)))] if sizes else 0

    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(add.size for add in removed),
        "numAddedFiles": len(added),
        "numAddedBytes": sum(sizes),
        "minFileSize": at(0),
        "p25FileSize": at(0.25),
        "p50FileSize": at(0.5),
        "p75FileSize": at(0.75),
        "maxFileSize": at(1),
        "numDeletionVectorsRemoved": sum(add.deletion_vector is not None for add in removed),
    }
