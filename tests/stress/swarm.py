"""Many writers as processes of their own, some of them killed and started again."""

from __future__ import annotations

import multiprocessing as mp
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.stress.journal import Told
from tests.stress.writers import Job, work

# A child starts from a server that has the library imported already: in milliseconds.
_PRELOADED = [
    "deltasql",
    "deltasql.store.postgres",
    "deltasql.store.sqlite",
    "tests.stress.writers",
    "tests.cli.warm",
]
_ROOT = str(Path(__file__).parents[2])


def start(target: Callable[..., Any], *arguments: Any) -> ForkServerProcess:
    """A process of its own."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    # The server looks for what it preloads before it knows this process's path.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _ROOT if not before else f"{_ROOT}{os.pathsep}{before}"
    try:
        process = context.Process(target=target, args=arguments)
        process.start()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return process


@dataclass(frozen=True, slots=True)
class Swarm:
    """Jobs for one database."""

    url: str
    location: str
    journals: Path
    tables: Sequence[str]
    mix: Mapping[str, int]

    def jobs(self, count: int, commits: int, *, seed: int = 0, **options: Any) -> list[Job]:
        return [
            Job(
                url=self.url,
                location=self.location,
                journal=self.journals / f"{slot:02}.jsonl",
                slot=slot,
                seed=seed,
                commits=commits,
                tables=self.tables,
                mix=self.mix,
                **options,
            )
            for slot in range(count)
        ]


def run(
    jobs: Sequence[Job],
    *,
    kills: int = 0,
    seed: int = 0,
    limit: float = 100,
    meanwhile: Callable[[], object] | None = None,
) -> Told:
    """Let all jobs end, killing writers at random until `kills` of them are dead."""
    rng = random.Random(seed)
    deadline = time.monotonic() + limit
    running = {job.slot: start(work, job) for job in jobs}
    by_slot = {job.slot: job for job in jobs}
    try:
        if meanwhile is not None:
            meanwhile()
        while any(process.is_alive() for process in running.values()):
            if time.monotonic() > deadline:
                raise AssertionError(f"writers still run after {limit} s")
            if kills:
                time.sleep(rng.uniform(0.005, 0.1))
                kills -= _kill_one(running, by_slot, rng)
            else:
                time.sleep(0.02)
    finally:
        for process in running.values():
            process.kill()
            process.join()
    return Told.read(*(job.journal for job in jobs if job.journal.exists()))


def _kill_one(
    running: dict[int, ForkServerProcess], jobs: Mapping[int, Job], rng: random.Random
) -> bool:
    """Kill a writer that is in the midst of a commit, if there is one."""
    alive = [s for s, p in running.items() if p.is_alive() and _is_committing(jobs[s].journal)]
    if not alive:
        return False
    slot = rng.choice(alive)
    time.sleep(rng.uniform(0, 0.005))
    running[slot].kill()
    running[slot].join()
    running[slot] = start(work, jobs[slot])
    return True


def _is_committing(journal: Path) -> bool:
    if not journal.exists():
        return False
    *_, last, _ = [b"", *journal.read_bytes().split(b"\n")]
    return last.startswith(b'{"do": "begin"')
