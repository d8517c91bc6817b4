"""The service beside writers, and on a large table: `python -m bench.serve --help`."""

from __future__ import annotations

import sys
from typing import Any

from bench import command
from bench.command import Line
from bench.lab import Lab
from bench.lines import serving

LINES: dict[str, Line] = {
    "busy": serving.busy,
    "memory": serving.memory,
    "cost": serving.cost,
    "pages": serving.pages,
}


def main() -> int:
    return command.run("serve", "The service", LINES, _durability)


def _durability(_: Lab) -> dict[str, Any]:
    return {"mirror": "async, by the service's worker, on a local disk"}


if __name__ == "__main__":
    sys.exit(main())
