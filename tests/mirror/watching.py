"""Processes of the watched runs: two writers that wait for their mirror, two workers, and readers
of other makes that write down what they see.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.log.replay import Replay
from deltasql.mirror import leases
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, RemoveFile
from deltasql.testing.faulty_store import Call, Fault, FaultyStore, seeded
from tests.readers.engines import DeltaRs, DuckDb, decoded

TABLE = "watched"
FAULTS = (Fault.BEFORE, Fault.AFTER, Fault.EXISTS, Fault.SLOW, Fault.TRUNCATED_READ)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where everything is; files in `folder` switch things on and off for all processes."""

    url: str
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "lake" / TABLE

    @property
    def down(self) -> Path:
        """While it exists, the store refuses everything."""
        return self.folder / "down"

    @property
    def done(self) -> Path:
        """Once it exists, readers end."""
        return self.folder / "done"

    def connect(self, *, seed: int | None = None, **settings: Any) -> deltasql.Lake:
        """A lake; with a seed its store fails, stalls and loses answers, and has outages."""
        given = {
            "mirror.sync_timeout": "20ms",
            "mirror.retry_backoff_base": "20ms",
            "mirror.retry_interval": "200ms",
            "mirror.reconcile_interval": "500ms",
            "mirror.poll_interval": "100ms",
            # A backlog of a few seconds is bridged.
            "mirror.lag_alert": "10ms",
            **{f"mirror.{key}": value for key, value in settings.items()},
        }
        location = (self.folder / "lake").as_uri()
        lake = deltasql.connect(self.url, location=location, settings=given)
        if seed is not None:
            random_faults = seeded(seed, rate=0.1, faults=FAULTS)

            def schedule(call: Call) -> Fault | None:
                return Fault.BEFORE if self.down.exists() else random_faults(call)

            lake.objects.wrap(lambda store: FaultyStore(store, schedule))
        return lake


def write(scene: Scene, slot: int, commits: int) -> None:
    """Commit a file at a time, and now and then take away one of one's own, until told enough."""
    leases.LEASE_SECONDS = 2.0
    chance, own = random.Random(slot), list[AddFile]()
    with scene.connect(seed=slot, mode="sync") as lake:
        table = lake.table(TABLE)
        for number in range(commits):
            actions: list[AddFile | RemoveFile] = [_add(f"w{slot}-{number}.parquet")]
            gone = chance.random() < 0.3 and len(own) > 5
            if gone:
                victim = own.pop(chance.randrange(len(own)))
                actions.append(RemoveFile.of(victim, deletion_timestamp=2**42))
            told = {"read_version": table.version} if gone else {}
            table.commit(actions, **told)
            own.append(actions[0])  # type: ignore[arg-type]


def _add(path: str) -> AddFile:
    stats = '{"numRecords":1}'
    return AddFile(path=path, size=1, modification_time=1, partition_values={}, stats=stats)


def work(scene: Scene, slot: int) -> None:
    """Be a worker until SIGTERM."""
    leases.LEASE_SECONDS = 2.0
    while True:
        try:
            with scene.connect(seed=100 + slot, mode="async") as lake:
                lake.mirror.run()
            return
        except DeltaSqlError:
            time.sleep(0.1)


# --- readers ------------------------------------------------------------------------------


def digest(files: Iterable[str]) -> str:
    """Stands for a set of files."""
    return sha256("\n".join(sorted(files)).encode()).hexdigest()


def watch(scene: Scene, notes: Path) -> None:
    """Read the newest version by delta-rs and by DuckDB, and some old one, until told to end.

    What is noted: the reader, the versions between which its answer lies, and its files. An old
    version may lie in a bridge's gap, which is an error; the newest may not.
    """
    chance = random.Random(1)
    duck, rust = DuckDb(), DeltaRs()
    root = scene.root
    with notes.open("w") as file:

        def note(reader: str, first: int, last: int, ask: Callable[[], Iterable[str]]) -> None:
            try:
                told = {"files": digest(ask())}
            except Exception as error:  # noqa: BLE001 - what a reader of others may raise
                told = {"error": f"{type(error).__name__}: {error}"[:500]}
            line = {"reader": reader, "first": first, "last": last, **told}
            print(json.dumps(line), file=file, flush=True)

        while not scene.done.exists():
            try:
                seen = DeltaTable(root)
            except Exception as error:  # noqa: BLE001 - as above
                line = {"reader": "delta-rs", "first": 0, "last": 0, "error": str(error)[:500]}
                print(json.dumps(line), file=file, flush=True)
                continue
            version = seen.version()
            note("delta-rs", version, version, lambda seen=seen: _files(seen))  # type: ignore[misc]
            try:
                found = duck.files(root, None)
                after = DeltaTable(root).version()
                note("DuckDB", version, after, lambda found=found: found)  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - as above
                note("DuckDB", version, version, lambda error=error: _raise(error))  # type: ignore[misc]
            old = chance.randint(0, version)
            reader, name = chance.choice(((rust, "delta-rs"), (duck, "DuckDB")))
            note(f"{name} at", old, old, lambda r=reader, v=old: r.files(root, v))  # type: ignore[misc]


def _raise(error: Exception) -> list[str]:
    raise error


def _files(table: DeltaTable) -> list[str]:
    return decoded(pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist())


def truth(lake: deltasql.Lake) -> list[str]:
    """The files of each version by SQL's own commits."""
    table, replay = lake.table(TABLE), Replay()
    found = []
    for record in lake.store.commits(table.table_id, after=-1):
        actions = codec.decode_commit(record.body, source="sql")
        replay.apply(record.version, actions)
        found.append(digest(decoded(add.path for add in replay.files.values())))
    snapshot = digest(decoded(add.path for add in table.snapshot().adds()))
    assert snapshot == found[-1], "the rows in SQL are those of its commits"
    return found


def told(notes: Path) -> list[dict[str, Any]]:
    """What the readers noted."""
    return [json.loads(line) for line in notes.read_text().splitlines()]


def wait_until(condition: Callable[[], bool], *, limit: float) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + limit
    for _ in itertools.count():
        if condition():
            return
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)
