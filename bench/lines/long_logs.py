"""Logs of very many versions: adopted and validated, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.files import wire_adds
from bench.lab import Lab, say
from bench.peers import deltars
from bench.report import Row

_MOST_MB = 300


def long_logs(lab: Lab) -> Iterator[Row]:
    """A version a file, and a checkpoint for each tenth of them, as delta-rs writes them."""
    versions = lab.scaled(200_000, least=2_000)
    log = lab.folder("long") / "table"
    say(f"  making a log of {versions:,} versions")
    every = max(1, versions // 10)
    deltars.make_table(log, wire_adds(0, versions), per_commit=1, checkpoint_every=every)
    with lab.database("long") as url:
        lab.settle()
        yield from _rows("adopt-200k", f"adopt {versions:,} versions", "adopt_once", url, log)
        yield from _rows("validate-200k", f"validate {versions:,} versions", "validate_once", url)


def _rows(name: str, work: str, module: str, url: str, *more: Path) -> Iterator[Row]:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", url, *map(str, more)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    answer = json.loads(done.stdout)
    yield Row(name=name, work=work, ours=answer["seconds"], unit="s", better="less")
    yield Row(
        name=f"{name}-memory",
        work="… peak memory",
        ours=answer["peak_mb"],
        unit="MB",
        better="less",
        bar=_MOST_MB,
        note="without delta-rs, which reads it once more in a process of its own",
    )
