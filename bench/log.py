"""The SQL log beside its peers: `python -m bench.log --help`."""

from __future__ import annotations

import os
import sys
from typing import Any

from bench import command, ours
from bench.command import Line
from bench.lab import Lab
from bench.lines import bulk, million, opening, roles, writers
from bench.peers import raw_postgres

# In this order; the large table comes last, because it fills the server.
LINES: dict[str, Line] = {
    "append": writers.append_one_table,
    "append-8": writers.append_eight_tables,
    "commit": writers.commit_one_add,
    "commit-far": writers.commit_far_away,
    "strict": roles.strict_beside_plain,
    "bulk": bulk.commit_many_files,
    "open-100k": opening.open_active_files,
    "open-5000": opening.open_small_commits,
    "sqlite": writers.sqlite,
    "partition": million.list_partition,
    "stats": million.list_by_stats,
    "memory": million.memory,
    "history": million.open_with_history,
}


def main() -> int:
    # By the environment, which the writers' processes inherit.
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    return command.run("log", "The SQL log", LINES, _durability)


def _durability(lab: Lab) -> dict[str, Any]:
    """What our stores say of themselves, and what the server says that the peers write to."""
    found: dict[str, Any] = {}
    sqlite = lab.folder("describe") / "lake.db"
    location = sqlite.parent.as_uri()
    with ours.connect(f"sqlite:///{sqlite}", location) as lake:
        found["ours, SQLite"] = dict(lake.store.describe())
    if lab.has_postgres:
        with lab.database("describe") as url:
            with ours.connect(url, location) as lake:
                found["ours, PostgreSQL"] = dict(lake.store.describe())
            found["peers, PostgreSQL"] = raw_postgres.settings(url)
    return found


if __name__ == "__main__":
    sys.exit(main())
