"""What the benchmarks have in common: options, lines one after the other, the results."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

import deltasql
from bench import lab as labs
from bench import report
from bench.lab import Lab, say
from bench.report import Row

Line = Callable[[Lab], Iterator[Row]]

_PACKAGES = ("deltalake", "duckdb", "psycopg", "adbc-driver-postgresql", "pyarrow", "obstore")


def run(
    name: str,
    title: str,
    lines: Mapping[str, Line],
    durability: Callable[[Lab], dict[str, Any]],
) -> int:
    """Run the lines that the command line names, by default all; returns the exit code."""
    options = _options(name, title, lines)
    # Stopped politely, we stop our servers as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[Row] = []
    crashed: dict[str, str] = {}
    with labs.open_lab(options.scale) as lab:
        about = _about(options)
        for line in options.only or lines:
            say(f"{line} …")
            started = time.monotonic()
            try:
                rows.extend(lines[line](lab))
            except Exception:  # noqa: BLE001 - one line's failure is not the others'
                crashed[line] = traceback.format_exc()
                print(crashed[line], file=sys.stderr)
            say(f"{line}: {time.monotonic() - started:.0f} s")
        about["durability"] = durability(lab)
    report.show(rows, about, _console(), title=title)
    report.write_json(options.json, rows, {**about, "crashed": crashed})
    print(f"written to {options.json}", file=sys.stderr)
    return 1 if crashed else 0


def _console() -> Console:
    """As wide as the terminal; in a pipe wide enough for the table."""
    return Console() if sys.stdout.isatty() else Console(width=150)


def _options(name: str, title: str, lines: Mapping[str, Line]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=title)
    parser.add_argument("--only", nargs="+", choices=lines, metavar="NAME", help=", ".join(lines))
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of files, versions and seconds"
    )
    parser.add_argument("--json", type=Path, default=Path(f"build/bench-{name}.json"))
    return parser.parse_args()


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": options.scale,
        "machine": labs.machine(),
        "versions": {
            "deltasql": deltasql.__version__,
            "python": f"{sys.version.split()[0]} ({Path(sys.executable).resolve()})",
            **{package: version(package) for package in _PACKAGES},
        },
    }
