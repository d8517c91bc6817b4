"""Upkeep of tables, some of it beside delta-rs: `python -m bench.maintenance --help`.

What is beside stock Delta Spark is in `bench.spark_upkeep`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from bench import command
from bench.command import Line
from bench.lab import Lab
from bench.lines import tidying, upkeep
from bench.peers import raw_postgres

LINES: dict[str, Line] = {
    "compact": tidying.compact,
    "vacuum": tidying.vacuum,
    "merges": upkeep.merges,
    "churn": upkeep.churn,
    "held": upkeep.held,
}


def main() -> int:
    # Nothing is mirrored: the peers' tables have one log as well.
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    return command.run("maintenance", "Upkeep", LINES, _durability)


def _durability(lab: Lab) -> dict[str, Any]:
    return {"PostgreSQL": raw_postgres.settings(lab.postgres.url())} if lab.has_postgres else {}


if __name__ == "__main__":
    sys.exit(main())
