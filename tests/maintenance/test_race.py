"""Writers beside optimize and vacuum: none fails because of them, no row is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import ValidationError
from deltasql.lake.table import Table
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, ids, rows
from tests.maintenance.vectors import VECTORS, delete_marked
from tests.sizes import FULL

SECONDS = 60.0 if FULL else 8.0
APPENDERS, DELETERS, MERGERS = (8, 4, 4) if FULL else (2, 1, 2)
# Whoever merges has rows and a partition of its own: what it meets there is upkeep.
PLACES = 1_000_000
WIDE = SCHEMA.append(pa.field("n", pa.int64()))
# Longer than anybody reads, on a machine that is busy.
RETENTION = timedelta(seconds=20 if FULL else 4)


class Race:
    """Threads that work on one table until the time is over, and what they did."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.done: Counter[str] = Counter()
        self.appended: set[int] = set()
        self.deleted: set[int] = set()
        # How often each row of those who merge was merged.
        self.merged: Counter[int] = Counter()
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
        found = ids(snapshot.scan(where="day = 'a'").to_arrow())
        mine = [value for value in found if value % DELETERS == place][:2]
        if mine:
            delete_marked(self.table, *mine, at=snapshot)
            self.deleted.update(mine)
            self.done["delete"] += 1
        time.sleep(0.02)

    def merge(self, place: int) -> None:
        """Rows that are there are counted on, and one is new each time."""
        turn = self.done[f"merge {place}"]
        first = PLACES * (place + 1)
        wanted = [first + number for number in (turn, turn // 2, turn // 3) if number <= turn]
        keys = sorted(set(wanted))
        source = pa.table(
            {"id": keys, "day": [f"m{place}"] * len(keys), "n": [1] * len(keys)}, schema=WIDE
        )
        (
            self.table.merge(source, f"target.id = source.id AND target.day = 'm{place}'")
            .when_matched_update(set={"n": "target.n + 1"})
            .when_not_matched_insert_all()
            .execute()
        )
        self.merged.update(keys)
        self.done[f"merge {place}"] += 1
        self.done["merge"] += 1

    def optimize(self, table: Table) -> None:
        is_sorted = self.done["turns"] % 3 == 2
        done = table.optimize(zorder_by=["id", "n"] if is_sorted else ())
        self.done["turns"] += 1
        self.done["optimize"] += len(done.versions)

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
@pytest.mark.timeout(600)
def test_writers_beside_upkeep(lake_url: str, lake: deltasql.Lake, tmp_path: Path):
    race = Race(lake.create_table("a.t", WIDE, partition_by=["day"], properties=VECTORS))
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as second:
        other = second.table("a.t")
        for _ in range(APPENDERS):
            race.start(race.append)
        for place in range(DELETERS):
            race.start(lambda place=place: race.delete(place))
        for place in range(MERGERS):
            race.start(lambda place=place: race.merge(place))
        race.start(lambda: race.optimize(other))
        race.start(lambda: race.vacuum(other))
        race.finish()
    found = seen_by_all(lake, race.table)
    plain = [row["id"] for row in found if row["day"] == "a"]
    assert sorted(plain) == sorted(race.appended - race.deleted)
    merged = [(row["id"], row["n"]) for row in found if row["day"] != "a"]
    assert sorted(merged) == sorted(race.merged.items()), "none lost, none doubled"
    assert min(race.done[verb] for verb in ("delete", "merge", "optimize", "vacuum")) > 0, race.done
    assert lake.check().ok
