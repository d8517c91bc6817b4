"""Appenders beside plain appends and DuckLake: `python -m bench.appenders --help`."""

from __future__ import annotations

import os
import sys
from typing import Any

from bench import command
from bench.command import Line
from bench.lab import Lab
from bench.lines import appenders
from bench.peers import raw_postgres

LINES: dict[str, Line] = {"appender": appenders.appenders}


def main() -> int:
    # By the environment, which the writers' processes inherit.
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    return command.run("appenders", "Appenders", LINES, _durability)


def _durability(lab: Lab) -> dict[str, Any]:
    if not lab.has_postgres:
        return {}
    with lab.database("describe") as url:
        return {"PostgreSQL, for all": raw_postgres.settings(url)}


if __name__ == "__main__":
    sys.exit(main())
