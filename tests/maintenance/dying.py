"""A vacuum that is killed at a chosen point: run as a program of its own."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import deltasql
from deltasql.maintenance.vacuuming.journal import Journal
from deltasql.objectstore.local import LocalStore
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


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


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
        lake.table("a.t").vacuum(**AT_ONCE, dry_run=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
