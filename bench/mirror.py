"""The mirror beside bare puts, no mirror, and delta-rs: `python -m bench.mirror --help`."""

from __future__ import annotations

import sys
from typing import Any

from bench import command, ours
from bench.command import Line
from bench.lab import Lab
from bench.lines import checkpoints, mirrored

LINES: dict[str, Line] = {
    "latency-local": mirrored.latency_local,
    "latency-s3": mirrored.latency_s3,
    "writers-append": mirrored.writers_append,
    "writers-commit": mirrored.writers_commit,
    "backlog-s3": mirrored.backlog_s3,
    "checkpoint-100k": checkpoints.hundred_thousand,
    "checkpoint-1m": checkpoints.million,
}


def main() -> int:
    return command.run("mirror", "The mirror", LINES, _durability)


def _durability(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = {
        "local disk": "temporary file, fdatasync, link, fsync of the folder",
        "S3": "as the server says; SeaweedFS acknowledges from its page cache",
    }
    if lab.has_postgres:
        with (
            lab.database("describe") as url,
            ours.connect(url, lab.folder("describe").as_uri()) as lake,
        ):
            found["PostgreSQL"] = dict(lake.store.describe())
    return found


if __name__ == "__main__":
    sys.exit(main())
