"""Upkeep that is killed at a chosen point: run as a program of its own."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import deltasql
from deltasql.maintenance import expiring
from deltasql.maintenance.vacuuming.journal import Journal
from deltasql.objectstore.local import LocalStore
from deltasql.store.expiring import queries
from deltasql.store.upkeep.queries import LockedVacuumLog, UpkeepQueries
from tests.maintenance.tables import AT_ONCE

# Where it dies: before or after a call, and which.
POINTS = {
    "before it is written down": (LockedVacuumLog, "journal", "before"),
    "written down, not committed": (LockedVacuumLog, "journal", "after"),
    "committed, nothing deleted": (Journal, "_delete", "before"),
    "some are deleted": (LocalStore, "delete", "after"),
    "all deleted, not marked": (UpkeepQueries, "mark_deleted", "before"),
    "marked": (UpkeepQueries, "mark_deleted", "after"),
    "done, not told": (UpkeepQueries, "end_vacuum", "before"),
}

EXPIRE_POINTS = {
    "nothing is done": (UpkeepQueries, "advance_horizon", "before"),
    "the first stretch has expired": (UpkeepQueries, "advance_horizon", "after"),
    "all expired, no row is gone": (UpkeepQueries, "drop_versions", "before"),
    "some rows are gone": (UpkeepQueries, "drop_versions", "after"),
    "rows of files are gone": (UpkeepQueries, "drop_files", "after"),
    "done, not told": (UpkeepQueries, "end_expiration", "before"),
    "inside the transaction": (queries, "trusted_values", "before"),
}


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, location: str, point: str) -> None:
    owner, name, when = {**POINTS, **EXPIRE_POINTS}[point]
    real = getattr(owner, name)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            die()
        real(*args, **kwargs)
        return die()

    setattr(owner, name, dying)
    expiring._STRETCH = 3
    with deltasql.connect(url, location=location) as lake:
        table = lake.table("a.t")
        (table.expire if point in EXPIRE_POINTS else table.vacuum)(**AT_ONCE, dry_run=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
