"""Processes of the chaos runs: writers that tell what was acknowledged, workers, and a worker
that dies at a given step.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.mirror import leases
from deltasql.mirror.engine import MirrorEngine
from deltasql.objectstore import PutChain
from deltasql.spec.actions import AddFile
from deltasql.testing.faulty_store import Fault, FaultyStore, seeded

TABLE = "chaos"
# What a client of a store can meet. EXISTS and AFTER are what a lost response looks like.
FAULTS = (Fault.BEFORE, Fault.AFTER, Fault.EXISTS, Fault.SLOW, Fault.TRUNCATED_READ)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where everything is; picklable."""

    url: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def connect(self, *, seed: int | None = None, **settings: Any) -> deltasql.Lake:
        """A lake; with a seed its object stores are faulty."""
        given = {
            "mirror.sync_timeout": "1s",
            "mirror.retry_backoff_base": "20ms",
            "mirror.retry_interval": "200ms",
            "mirror.reconcile_interval": "500ms",
            **self.options,
            **{f"mirror.{key}": value for key, value in settings.items()},
        }
        lake = deltasql.connect(self.url, location=self.location, settings=given)
        if seed is not None:
            lake.objects.wrap(
                lambda store: FaultyStore(store, seeded(seed, rate=0.1, faults=FAULTS))
            )
        return lake


def short_leases(seconds: float) -> None:
    """So that a dead holder holds nobody up for long."""
    leases.LEASE_SECONDS = seconds


def write(deployment: Deployment, journal: Path, slot: int, life: int, commits: int) -> None:
    """Commit files, and note those that were acknowledged, until there are enough."""
    short_leases(2.0)
    done = len(journal.read_text().splitlines()) if journal.exists() else 0
    for attempt in itertools.count():
        try:
            with deployment.connect(seed=slot * 1000 + life) as lake, journal.open("a") as notes:
                table = lake.table(TABLE)
                while done < commits:
                    path = f"w{slot}-{life}-{attempt}-{done}.parquet"
                    add = AddFile(path=path, size=1, modification_time=1, partition_values={})
                    version = table.commit([add])
                    print(json.dumps([path, version]), file=notes, flush=True)
                    done += 1
            return
        except DeltaSqlError:
            time.sleep(0.1)  # the database is being restarted


def work(deployment: Deployment, slot: int, life: int) -> None:
    """Be a worker until SIGTERM."""
    short_leases(2.0)
    while True:
        try:
            with deployment.connect(seed=slot * 1000 + life, mode="async") as lake:
                lake.mirror.run()
            return
        except DeltaSqlError:
            time.sleep(0.1)


# --- death at a given step ----------------------------------------------------------------


class _Steps:
    """Every call of what it stands for is a step; at the last one the process is killed."""

    def __init__(self, inner: Any, step: Callable[[], None]) -> None:
        self._inner = inner
        self._step = step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or name.startswith("_"):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self._step()
            answer = found(*arguments, **named)
            self._step()
            return answer

        return call


class _OneByOne(_Steps):
    """Objects of a batch one after the other, so that each is a step."""

    def put_many_if_absent(self, items: Any, beside: Any = ()) -> PutChain:
        for place, item in enumerate(items):
            if not self.put_if_absent(*item):
                return PutChain(place, exists=True)
            if beside:
                self.put_if_absent(*beside[place])
        return PutChain(len(items))


def die_at(deployment: Deployment, last: int) -> None:
    """Catch the table up, checkpoints too, and die at a step; with status 0 if none is left."""
    short_leases(0.5)
    count = itertools.count(1)

    def step() -> None:
        if next(count) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with deployment.connect(mode="async") as lake:
        table = lake.table(TABLE)
        log: Any = _Steps(lake.store, step)
        stepping = MirrorEngine(
            log, lambda location: _OneByOne(lake.objects(location), step), lake.engine.settings
        )
        while stepping.catch_up(table.target) is None:
            time.sleep(0.02)
        while stepping.write_checkpoints(table.target) is None:
            time.sleep(0.02)
