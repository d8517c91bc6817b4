"""Verbs of a table that are killed at a chosen point, in a fork of a process that is warm."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import deltasql
from deltasql.commit.loop import CommitLoop
from deltasql.errors import ValidationError
from deltasql.lake.table import Table
from tests.maintenance import dying, dying_optimize
from tests.maintenance.tables import rows

COMMITS = {
    "written, not committed": (CommitLoop, "commit", "before"),
    "committed, not told": (CommitLoop, "commit", "after"),
}
# Where it dies: before or after a call, and which.
POINTS: dict[str, dict[str, tuple[Any, str, str]]] = {
    "append": COMMITS,
    "delete": COMMITS,
    "restore": COMMITS,
    "optimize": dying_optimize.POINTS,
    "vacuum": dying.POINTS,
    "expire": dying.EXPIRE_POINTS,
}


def run(url: str, location: str, name: str, verb: str, point: str, given: Any) -> None:
    """Do `verb`, and die there; it ends by itself if it never comes to that point."""
    owner, method, when = POINTS[verb][point]
    real = getattr(owner, method)

    def fatal(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            dying.die()
        real(*args, **kwargs)
        return dying.die()

    setattr(owner, method, fatal)
    with deltasql.connect(url, location=location) as lake:
        try:
            _do(lake.table(name), verb, given)
        except ValidationError as error:
            # Somebody writes: see the machine.
            if "under way" not in str(error):
                raise


def _do(table: Table, verb: str, given: Any) -> None:
    if verb == "append":
        table.append(rows(*given))
    elif verb == "delete":
        table.delete(given)
    elif verb == "restore":
        table.restore(given)
    elif verb == "optimize":
        table.optimize()
    else:
        upkeep = table.vacuum if verb == "vacuum" else table.expire
        kept = timedelta(milliseconds=given)
        upkeep(kept, dry_run=False, enforce_retention_duration=False)
