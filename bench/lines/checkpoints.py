"""Checkpoints from SQL beside delta-rs's, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import ours
from bench.files import wire_adds
from bench.lab import Lab, say
from bench.lines.opening import load, tidy
from bench.peers import deltars
from bench.report import Row

_ROUNDS = 3


def hundred_thousand(lab: Lab) -> Iterator[Row]:
    yield from _checkpoint(lab, lab.scaled(100_000, least=1_000), "100k")


def million(lab: Lab) -> Iterator[Row]:
    yield from _checkpoint(lab, lab.scaled(1_000_000, least=2_000), "1m")


def _checkpoint(lab: Lab, files: int, label: str) -> Iterator[Row]:
    database = f"checkpoint_{label}"
    with lab.database(database) as url:
        location = lab.folder(database).as_uri()
        say(f"  loading {files:,} files by commits of 1,000")
        with ours.connect(url, location) as lake:
            load(lake, files)
            version = lake.table(ours.FILES).version
        tidy(url)
        log = lab.folder("deltars") / "table"
        deltars.make_table(log, wire_adds(0, files), per_commit=1_000, checkpoint_every=None)
        mine, theirs = [], []
        for turn in range(_ROUNDS):
            lab.settle()
            mine.append(_run("ours", url, location, ours.FILES, str(version)))
            theirs.append(_run("deltars", str(log)))
            say(f"  round {turn + 1}: ours {mine[-1]}, delta-rs {theirs[-1]}")
        for answer in (*mine, *theirs):
            if answer["files"] != files:
                raise RuntimeError(f"the benchmark is wrong: {answer} of {files} files")
    seconds, peer = (sorted(a["seconds"] for a in side)[_ROUNDS // 2] for side in (mine, theirs))
    memory, peer_memory = (max(a["peak_mb"] for a in side) for side in (mine, theirs))
    yield Row(
        name=f"checkpoint-{label}",
        work=f"checkpoint of {files:,} files",
        ours=seconds,
        peer=peer,
        peer_name="delta-rs",
        unit="s",
        better="less",
        bar=1.0,
        note=f"median of {_ROUNDS}, each in a new process, from the open lake or an open table "
        f"whose log is {files // 1000} JSON commits; ours is streamed from SQL; peer: "
        "DeltaTable(…).create_checkpoint() with the opening of the table, which reads the log",
    )
    yield Row(
        name=f"checkpoint-memory-{label}",
        work="the same, peak memory of the process",
        ours=memory,
        peer=peer_memory,
        peer_name="delta-rs",
        unit="MB",
        better="less",
        bar=0.5,
        note="VmHWM, imports included; ours at its start had "
        f"{mine[0]['imported_mb']:.0f} MB, delta-rs {theirs[0]['imported_mb']:.0f} MB; without "
        "pandas, as with deltasql[postgres] alone: pyarrow would import it, 37 MB",
    )


def _run(side: str, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.checkpointer", side, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    for name in Path(arguments[-1]).glob("_delta_log/*checkpoint*") if side == "deltars" else ():
        name.unlink()
    return answer
