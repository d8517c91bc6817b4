"""An optimize that is killed at a chosen point: run as a program of its own."""

from __future__ import annotations

import sys
from typing import Any

import deltasql
from deltasql.lake.table import Table
from deltasql.lake.upkeep.optimizing import _Optimized
from deltasql.store.optimizing.queries import OptimizeQueries
from tests.maintenance.dying import die

# Where it dies: before or after a call, and which.
POINTS = {
    "planned, nothing claimed": (OptimizeQueries, "claim_bin", "before"),
    "written, not committed": (_Optimized, "commit", "before"),
    "in the transaction": (OptimizeQueries, "write_moved_rows", "after"),
    "committed, not mirrored": (Table, "mirror_commit", "before"),
    "committed, still in the queue": (OptimizeQueries, "end_bin", "before"),
}


def main(url: str, location: str, point: str) -> None:
    owner, name, when = POINTS[point]
    real = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            die()
        real(*args, **kwargs)
        return die()

    setattr(owner, name, dying)
    with deltasql.connect(url, location=location) as lake:
        lake.table("a.t").optimize()


if __name__ == "__main__":
    main(*sys.argv[1:])
