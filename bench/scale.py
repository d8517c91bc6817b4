"""The mirror when there is much of it: slow stores, many commits, many tables, long logs.

`python -m bench.scale --help`.
"""

from __future__ import annotations

import sys
from typing import Any

from bench import command
from bench.command import Line
from bench.lab import Lab
from bench.lines import long_logs, scale

LINES: dict[str, Line] = {
    "slow-append": scale.slow_append,
    "long-backlog": scale.long_backlog,
    "checkpoint-bytes": scale.checkpoint_bytes,
    "checkpoint-bytes-v2": scale.checkpoint_bytes_v2,
    "idle-tables": scale.idle_tables,
    "long-logs": long_logs.long_logs,
}


def main() -> int:
    return command.run("scale", "Scale", LINES, _durability)


def _durability(_: Lab) -> dict[str, Any]:
    return {"slow store": "a local folder; every request waits 50 ms first"}


if __name__ == "__main__":
    sys.exit(main())
