"""The SQL log beside its peers: `python -m bench.log --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

import deltasql
from bench import lab as labs
from bench import ours, report
from bench.lab import Lab, say
from bench.lines import bulk, million, opening, writers
from bench.peers import raw_postgres
from bench.report import Row

Line = Callable[[Lab], Iterator[Row]]

# In this order; the large table comes last, because it fills the server.
LINES: dict[str, Line] = {
    "append": writers.append_one_table,
    "append-8": writers.append_eight_tables,
    "commit": writers.commit_one_add,
    "commit-far": writers.commit_far_away,
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
    options = _options()
    # By the environment, which the writers' processes inherit.
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    # Stopped politely, we stop our servers as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[Row] = []
    crashed: dict[str, str] = {}
    with labs.open_lab(options.scale) as lab:
        about = _about(options)
        for name in options.only or LINES:
            say(f"{name} …")
            started = time.monotonic()
            try:
                rows.extend(LINES[name](lab))
            except Exception:  # noqa: BLE001 - one line's failure is not the others'
                crashed[name] = traceback.format_exc()
                print(crashed[name], file=sys.stderr)
            say(f"{name}: {time.monotonic() - started:.0f} s")
        about["durability"] = _durability(lab)
    report.show(rows, about, _console())
    report.write_json(options.json, rows, {**about, "crashed": crashed})
    print(f"written to {options.json}", file=sys.stderr)
    return 1 if crashed else 0


def _console() -> Console:
    """As wide as the terminal; in a pipe wide enough for the table."""
    return Console() if sys.stdout.isatty() else Console(width=150)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.log", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=LINES, metavar="NAME", help=", ".join(LINES))
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of files, versions and seconds"
    )
    parser.add_argument("--json", type=Path, default=Path("build/bench-log.json"))
    return parser.parse_args()


def _about(options: argparse.Namespace) -> dict[str, Any]:
    packages = ("deltalake", "duckdb", "psycopg", "adbc-driver-postgresql", "pyarrow")
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": options.scale,
        "machine": labs.machine(),
        "versions": {
            "deltasql": deltasql.__version__,
            "python": sys.version.split()[0],
            **{package: version(package) for package in packages},
        },
    }


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
