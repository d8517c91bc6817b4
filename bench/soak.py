"""Everything at once for half an hour: `python -m bench.soak --minutes 30`.

Six writers, twenty tables, merges, compaction, vacuum, a worker that is killed and started again,
outages of the database and of the object store. At the end every acknowledged row must be there
once, versions must have no gap, the mirror must be valid, and nothing may have grown without bound.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
import psycopg

import deltasql
from bench.lab import Lab, open_lab, say
from bench.soak_samples import Bound, Samples
from bench.soak_writer import SCHEMA
from deltasql.errors import DeltaSqlError
from deltasql.settings.keys import variable_of
from tests.parts.toxiproxy import Proxy, Toxiproxy

WRITERS: Final = 6
TABLES: Final = 20
REPORT: Final = Path("build/soak.txt")
# The writers remember nothing for longer than a commit; PostgreSQL's own tables are vacuumed.
BOUNDS: Final = {
    "writers' memory, MB": Bound(0.15, 30),
    "worker's memory, MB": Bound(0.25, 40),
    "writers' descriptors": Bound(0.10, 6),
    "worker's descriptors": Bound(0.25, 10),
    "connections": Bound(0.15, 6),
    "lag, versions": Bound(0.50, 200),
}


class Soak:
    """The parts, and what happens to them."""

    def __init__(self, lab: Lab, minutes: float) -> None:
        self._seconds = minutes * 60
        self._random = random.Random(0)
        toxiproxy = lab.stack.enter_context(Toxiproxy(lab.folder("toxiproxy")))
        self._direct = lab.postgres.create_database("soak")
        self._database = toxiproxy.proxy("database", lab.postgres.port)
        self._store = toxiproxy.proxy("store", lab.seaweedfs.port)
        self._journals = lab.folder("journals")
        self._stop = self._journals / "stop"
        settings = {
            "url": lab.postgres.url("soak", port=self._database.port),
            "location": lab.seaweedfs.location("soak"),
            "sql.timeout": "10s",
            "sql.pool_size": "3",
            "mirror.mode": "async",
            **lab.seaweedfs.options(self._store.port),
        }
        self._environment = {variable_of(key): str(value) for key, value in settings.items()}
        os.environ.update(self._environment)
        self._samples = Samples()
        self._worker: subprocess.Popen[bytes] | None = None
        self._events: Counter[str] = Counter()

    def run(self) -> bool:
        with deltasql.connect() as lake:
            for number in range(TABLES):
                lake.create_table(f"soak.t{number:02}", SCHEMA)
        with ExitStack() as stack:
            writers = [stack.enter_context(self._writer(slot)) for slot in range(WRITERS)]
            stack.callback(self._end_worker)
            self._start_worker()
            self._wait_for_writers(writers)
            self._watch(writers)
            self._stop.touch()
            for writer in writers:
                writer.wait(120)
            failed = [writer.returncode for writer in writers if writer.returncode]
        found = [*(f"a writer ended with {code}" for code in failed), *self._settled()]
        found += self._samples.unbounded(BOUNDS)
        told = f"{self._samples.chart()}\n{dict(self._events)}\n"
        told += "\n".join(f"PROBLEM: {item}" for item in found) or "held: nothing grew, no row lost"
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(told + "\n")
        print(told)
        return not found

    # --- what runs --------------------------------------------------------------------------

    @contextmanager
    def _writer(self, slot: int) -> Iterator[subprocess.Popen[bytes]]:
        words = ["bench.soak_writer", str(slot), str(self._journals / f"{slot}"), str(self._stop)]
        with subprocess.Popen([sys.executable, "-m", *words]) as process:
            try:
                yield process
            finally:
                process.kill()

    def _start_worker(self) -> None:
        words = ["deltasql.cli", "mirror", "run"]
        with (self._journals / "worker.log").open("ab") as log:
            self._worker = subprocess.Popen([sys.executable, "-m", *words], stderr=log, stdout=log)

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()

    def _wait_for_writers(self, writers: list[subprocess.Popen[bytes]]) -> None:
        """Until each has written: what happens is to happen to them."""
        deadline = time.monotonic() + 300
        while len(list(self._journals.glob("[0-9]*"))) < len(writers):
            if time.monotonic() > deadline or any(item.poll() is not None for item in writers):
                raise RuntimeError("the writers did not start")
            time.sleep(0.5)
        self._samples = Samples()

    def _watch(self, writers: list[subprocess.Popen[bytes]]) -> None:
        """Sample, and let something happen now and then."""
        events: list[tuple[str, float, Callable[[], None]]] = [
            ("worker restarts", max(60, self._seconds / 6), self._restart_worker),
            ("database outages", max(60, self._seconds / 5), lambda: _outage(self._database)),
            ("store outages", max(60, self._seconds / 5), lambda: _outage(self._store)),
            ("compactions", 10, self._compact),
            ("vacuums", 25, self._vacuum),
        ]
        due = {name: time.monotonic() + every for name, every, _ in events}
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            if self._worker is None or self._worker.poll() is not None:
                # As a supervisor would: it may have begun during an outage.
                self._start_worker()
                self._events["worker ended by itself"] += 1
            self._sample(writers)
            for name, every, happen in events:
                if time.monotonic() > due[name]:
                    happen()
                    self._events[name] += 1
                    due[name] = time.monotonic() + every
            time.sleep(1)

    def _restart_worker(self) -> None:
        self._end_worker()
        self._start_worker()

    def _some_table(self, lake: deltasql.Lake) -> deltasql.Table:
        return lake.table(f"soak.t{self._random.randrange(TABLES):02}")

    def _compact(self) -> None:
        self._upkeep(lambda table: table.optimize())

    def _vacuum(self) -> None:
        self._upkeep(
            lambda table: table.vacuum("1 minute", dry_run=False, enforce_retention_duration=False)
        )

    def _upkeep(self, do: Callable[[deltasql.Table], object]) -> None:
        try:
            with deltasql.connect() as lake:
                do(self._some_table(lake))
        except DeltaSqlError as error:
            # A conflict, an outage, or a write that has been under way for too long.
            self._events[type(error).__name__] += 1

    # --- what is seen -----------------------------------------------------------------------

    def _sample(self, writers: list[subprocess.Popen[bytes]]) -> None:
        assert self._worker is not None
        inside = [psutil.Process(writer.pid) for writer in writers if writer.poll() is None]
        worker = psutil.Process(self._worker.pid)
        with psycopg.connect(self._direct, autocommit=True) as connection:
            connections, versions, files, late, size = connection.execute(
                "SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = 'soak'), "
                "(SELECT count(*) FROM dl_table_versions), "
                "(SELECT count(*) FROM dl_active_files), "
                "(SELECT count(*) FROM dl_mirror_status WHERE NOT json_written), "
                "pg_database_size('soak') / 1e6"
            ).fetchone() or (0, 0, 0, 0, 0)
        self._samples.add(
            {
                "writers' memory, MB": sum(item.memory_info().rss for item in inside) / 1e6,
                "worker's memory, MB": worker.memory_info().rss / 1e6,
                "writers' descriptors": sum(item.num_fds() for item in inside),
                "worker's descriptors": worker.num_fds(),
                "connections": connections,
                "versions": versions,
                "live files": files,
                "database, MB": float(size),
                "lag, versions": late,
            }
        )

    def _settled(self) -> Iterator[str]:
        """What is wrong once all is mirrored."""
        acknowledged: dict[str, list[int]] = {}
        for slot in range(WRITERS):
            for line in (self._journals / f"{slot}").read_text().splitlines():
                name, number = line.split()
                acknowledged.setdefault(name, []).append(int(number))
        with deltasql.connect() as lake:
            lake.mirror.run(once=True)
            for table in lake.tables():
                ids = table.scan(columns=["id"]).to_arrow().column("id").to_pylist()
                lost = set(acknowledged.get(table.name, ())) - set(ids)
                if lost:
                    yield f"{table.name} lacks {len(lost)} acknowledged rows"
                if len(ids) != len(set(ids)):
                    yield f"{table.name} has {len(ids) - len(set(ids))} rows twice"
                versions = [entry.version for entry in table.history()]
                if versions != list(range(len(versions)))[::-1]:
                    yield f"{table.name} has a gap in its versions"
            report = lake.mirror.validate()
            if not report.ok:
                yield f"the mirror is not valid: {report}"
        self._events["acknowledged rows"] = sum(map(len, acknowledged.values()))


def _outage(proxy: Proxy) -> None:
    proxy.disable()
    time.sleep(3)
    proxy.enable()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    minutes = parser.parse_args().minutes
    with open_lab(1.0) as lab:
        say(f"a soak of {minutes:g} minutes")
        held = Soak(lab, minutes).run()
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
