"""Writers beside optimize and vacuum: none fails because of them, no row is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

import deltasql
from deltasql.errors import ValidationError
from deltasql.lake.table import Table
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, ids, rows
from tests.maintenance.vectors import VECTORS, delete_marked
from tests.sizes import FULL

SECONDS = 60.0 if FULL else 8.0
APPENDERS, DELETERS = (10, 6) if FULL else (2, 2)
# Longer than anybody reads, on a machine that is busy.
RETENTION = timedelta(seconds=20 if FULL else 4)


class Race:
    """Threads that work on one table until the time is over, and what they did."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.done: Counter[str] = Counter()
        self.appended: set[int] = set()
        self.deleted: set[int] = set()
        self._numbers = count()
        self._end = time.monotonic() + SECONDS
        self._failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, step: Callable[[], None]) -> None:
        def work() -> None:
            try:
                while time.monotonic() < self._end:
                    step()
            except BaseException as error:  # noqa: BLE001 - told by the test
                self._failures.append(error)

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def finish(self) -> None:
        for thread in self._threads:
            thread.join()
        assert self._failures == []

    def append(self) -> None:
        new = [next(self._numbers) for _ in range(3)]
        self.table.append(rows(*new))
        self.appended.update(new)
        time.sleep(0.02)

    def delete(self, place: int) -> None:
        """Each deletes rows of its own, from files that all of them share."""
        snapshot = self.table.snapshot()
        found = ids(snapshot.scan().to_arrow())
        mine = [value for value in found if value % DELETERS == place][:2]
        if mine:
            delete_marked(self.table, *mine, at=snapshot)
            self.deleted.update(mine)
            self.done["delete"] += 1
        time.sleep(0.02)

    def optimize(self, table: Table) -> None:
        self.done["optimize"] += len(table.optimize().versions)

    def vacuum(self, table: Table) -> None:
        # As it is now: otherwise a write that ended long ago would count.
        self.table._lake.presence.beat()
        try:
            report = table.vacuum(RETENTION, False, enforce_retention_duration=False)
            self.done["vacuum"] += report.count
        except ValidationError:
            self.done["refused"] += 1
        time.sleep(0.3)


@pytest.mark.stress
def test_writers_beside_upkeep(lake_url: str, lake: deltasql.Lake, tmp_path: Path):
    race = Race(lake.create_table("a.t", SCHEMA, properties=VECTORS))
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as second:
        other = second.table("a.t")
        for _ in range(APPENDERS):
            race.start(race.append)
        for place in range(DELETERS):
            race.start(lambda place=place: race.delete(place))
        race.start(lambda: race.optimize(other))
        race.start(lambda: race.vacuum(other))
        race.finish()
    found = [row["id"] for row in seen_by_all(lake, race.table)]
    assert sorted(found) == sorted(race.appended - race.deleted)
    assert min(race.done[verb] for verb in ("delete", "optimize", "vacuum")) > 0, race.done
    assert lake.check().ok
