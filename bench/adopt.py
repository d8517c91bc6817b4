"""Adoption beside delta-rs's opening of the same log: `python -m bench.adopt --help`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

import deltasql
from bench import lab as labs
from bench import report
from bench.files import wire_adds
from bench.lab import Lab, say
from bench.peers import deltars
from bench.report import Row

Line = Callable[[Lab], Iterator[Row]]
REPEATS = 3
MOST_MB = 1_500
NOTE = (
    "median of {} runs, each in a new process and into an empty PostgreSQL database; delta-rs: "
    "a new DeltaTable and its files as Arrow, in turn with ours, files in the page cache. Ours "
    "includes the fence and the comparison with delta-rs's own reading"
)


def adopt_commits(lab: Lab) -> Iterator[Row]:
    files = lab.scaled(100_000, least=1_000)
    log = made(lab, "commits", files, per_commit=max(1, files // 100), checkpoint_every=None)
    yield from _rows(
        lab, log, name="adopt-100k", work=f"adopt {files:,} files in 100 commits", bar=20
    )


def adopt_checkpoint(lab: Lab) -> Iterator[Row]:
    files = lab.scaled(1_000_000, least=1_000)
    log = made(lab, "checkpoint", files, per_commit=max(1, files // 10), checkpoint_every=0)
    # The history begins at the checkpoint: what was before it is cleaned up.
    for path in sorted((log / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()
    yield from _rows(
        lab,
        log,
        name="adopt-1m",
        work=f"adopt {files:,} files from a checkpoint",
        bar=15,
        repeats=1,
        most_mb=MOST_MB,
    )


def adopt_small_commits(lab: Lab) -> Iterator[Row]:
    commits = lab.scaled(5_000, least=100)
    log = made(lab, "small", commits, per_commit=1, checkpoint_every=None)
    yield from _rows(lab, log, name="adopt-5000", work=f"adopt {commits:,} one-file commits", bar=8)


def adopt_spark(lab: Lab) -> Iterator[Row]:
    files = lab.scaled(1_000_000, least=1_000)
    log = checkpointed(lab, files)
    if lab.shared["is_rehearsal"]:
        return
    answers = {}
    for module in ("bench.adopt_once", "bench.adopt_spark_once"):
        copy = lab.folder("copy") / "table"
        shutil.copytree(log, copy, copy_function=shutil.copy2)
        with lab.database(module.rpartition(".")[2]) as url:
            lab.settle()
            answers[module] = _adopt(url, copy, module)
        say(f"  {module}: {answers[module]}")
        shutil.rmtree(copy)
    here, there = answers.values()
    if here["files"] != there["files"]:
        raise RuntimeError(f"the benchmark is wrong: {answers}")
    yield Row(
        name="adopt-spark",
        work=f"adopt {files:,} files with two executors' cores",
        ours=there["seconds"],
        unit="s",
        peer=here["seconds"],
        peer_name="without Spark",
        better="less",
        bar=1 / 1.5,
        note="one run each, in a process of its own, into an empty PostgreSQL database on the same "
        "two cores; local[2], a warm session",
    )
    yield Row(
        name="adopt-spark-memory",
        work="… peak memory of the driver: Python and its JVM, which has the executors, too",
        ours=there["peak_mb"],
        unit="MB",
        better="less",
        bar=2_000,
    )


def checkpointed(lab: Lab, files: int) -> Path:
    """A log that begins at its checkpoint, whose rows were never commits."""
    kept: Path | None = lab.shared.get("data")
    log = (lab.folder("spark") if kept is None else kept) / f"spark-{files}"
    if not log.exists():
        say(f"  making a checkpoint of {files:,} files")
        deltars.make_checkpoint(log, files)
    return log


def made(lab: Lab, name: str, files: int, *, per_commit: int, checkpoint_every: int | None) -> Path:
    """The log of a table; one that an earlier run kept is taken as it is."""
    kept: Path | None = lab.shared.get("data")
    log = (lab.folder(name) if kept is None else kept) / f"{name}-{files}"
    if not log.exists():
        say(f"  making a log of {files:,} files")
        deltars.make_table(
            log, wire_adds(0, files), per_commit=per_commit, checkpoint_every=checkpoint_every
        )
    return log


LINES: dict[str, Line] = {
    "adopt-100k": adopt_commits,
    "adopt-5000": adopt_small_commits,
    "adopt-1m": adopt_checkpoint,
    "adopt-spark": adopt_spark,
}


def _rows(
    lab: Lab,
    log: Path,
    *,
    name: str,
    work: str,
    bar: float,
    repeats: int = REPEATS,
    most_mb: float | None = None,
) -> Iterator[Row]:
    if lab.shared["is_rehearsal"]:
        return
    deltars.open_as_arrow(log)
    ours: list[float] = []
    theirs: list[float] = []
    peak = 0.0
    for number in range(repeats):
        # Adoption adds its commit to the log: each gets a copy of its own.
        copy = lab.folder("copy") / "table"
        shutil.copytree(log, copy, copy_function=shutil.copy2)
        with lab.database(f"adopt_{number}") as url:
            lab.settle()
            answer = _adopt(url, copy)
        ours.append(answer["seconds"])
        peak = max(peak, answer["peak_mb"])
        theirs.append(min(labs.timed(lambda: deltars.open_as_arrow(log)) for _ in range(2)))
        shutil.rmtree(copy)
    yield Row(
        name=name,
        work=work,
        ours=statistics.median(ours),
        unit="s",
        peer=statistics.median(theirs),
        peer_name="delta-rs",
        better="less",
        bar=bar,
        note=NOTE.format(repeats),
    )
    yield Row(
        name=f"{name}-memory",
        work="… peak memory",
        ours=peak,
        unit="MB",
        better="less",
        bar=most_mb,
    )


def _adopt(url: str, log: Path, module: str = "bench.adopt_once") -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", module, url, str(log)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def main() -> int:
    options = _options()
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[Row] = []
    with labs.open_lab(options.scale) as lab:
        lab.shared["data"] = options.data
        lab.shared["is_rehearsal"] = options.prepare
        about = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "scale": options.scale,
            "machine": labs.machine(),
            "versions": {"deltasql": deltasql.__version__, "deltalake": version("deltalake")},
        }
        for name in options.only or LINES:
            say(f"{name} …")
            started = time.monotonic()
            rows.extend(LINES[name](lab))
            say(f"{name}: {time.monotonic() - started:.0f} s")
    console = Console() if sys.stdout.isatty() else Console(width=150)
    report.show(rows, about, console, title="Adoption")
    report.write_json(options.json, rows, about)
    print(f"written to {options.json}", file=sys.stderr)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.adopt", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=LINES, metavar="NAME", help=", ".join(LINES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of files and versions")
    parser.add_argument("--data", type=Path, help="keep the logs here, and take them from here")
    parser.add_argument("--prepare", action="store_true", help="make the logs, and stop")
    parser.add_argument("--json", type=Path, default=Path("build/bench-adopt.json"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
