"""Drivers that write by SQL and are killed at any moment: nothing is lost, doubled or halved."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo
from tests.parts import spark as spark_part
from tests.parts.process import PartMissingError
from tests.spark.sql.killed_driver import ACCOUNTS
from tests.spark.test_stream_failures import environment
from tests.stress.journal import Told

EACH = 100
TABLES = {
    "log": [("tag", pa.string()), ("n", pa.int64())],
    "counters": [("id", pa.int64()), ("n", pa.int64())],
    "ledger": [("tag", pa.string()), ("source", pa.string()), ("amount", pa.int64())],
    "a": [("id", pa.int64()), ("n", pa.int64())],
    "b": [("id", pa.int64()), ("n", pa.int64())],
}


class Fleet:
    """Drivers with their journals, in process groups of their own: a kill takes the JVM, too."""

    def __init__(self, jobs: list[dict]) -> None:
        self.jobs = jobs
        self.kills = 0
        self.started = [0.0] * len(jobs)
        self.running = [self._start(job) for job in jobs]

    def _start(self, job: dict) -> subprocess.Popen[bytes]:
        self.started[job["slot"]] = time.time()
        with (Path(job["work"]) / "out").open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.sql.killed_driver", json.dumps(job)],
                env=environment(), cwd=job["work"], stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip

    @property
    def is_alive(self) -> bool:
        return any(driver.poll() is None for driver in self.running)

    def kill_one(self, dice: random.Random) -> bool:
        """Kill a driver in the midst of a statement, and start it again."""
        busy = [
            slot
            for slot, driver in enumerate(self.running)
            if driver.poll() is None
            and _is_busy(Path(self.jobs[slot]["journal"]), since=self.started[slot])
        ]
        if not busy:
            return False
        slot = dice.choice(busy)
        time.sleep(dice.random())
        driver = self.running[slot]
        if driver.poll() is not None:
            return False
        # It stands still while we look whether it is between two statements by now.
        os.killpg(driver.pid, signal.SIGSTOP)
        if not _is_busy(Path(self.jobs[slot]["journal"]), since=self.started[slot]):
            os.killpg(driver.pid, signal.SIGCONT)
            return False
        self._end(driver)
        self.running[slot] = self._start(self.jobs[slot])
        self.kills += 1
        return True

    def close(self) -> None:
        for driver in self.running:
            self._end(driver)

    @staticmethod
    def _end(driver: subprocess.Popen[bytes]) -> None:
        # Python and its JVM at once; of a driver that has ended the group is gone.
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def _is_busy(journal: Path, *, since: float) -> bool:
    """Whether a statement is under way, begun by the process that was started last."""
    if not journal.exists() or journal.stat().st_mtime < since:
        return False
    lines = journal.read_bytes().split(b"\n")
    return any(line.startswith(b'{"do": "begin"') for line in lines[-2:])


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled(postgres_url, seaweedfs, tmp_path, stress_factor):
    try:
        spark_part.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    drivers = 2 if stress_factor < 1 else 4
    kills = 1 if stress_factor < 1 else round(8 * stress_factor)
    location = seaweedfs.location(tmp_path.name)
    dice = random.Random(3)
    with deltasql.connect(postgres_url, location=location, settings=seaweedfs.options()) as lake:
        _make(lake)
        jobs = []
        for slot in range(drivers):
            work = tmp_path / str(slot)
            work.mkdir()
            jobs.append(
                {
                    "slot": slot, "url": postgres_url, "location": location,
                    "settings": seaweedfs.options(), "work": str(work),
                    "journal": str(work / "journal"), "jars": str(spark_part.JARS),
                    "more_jars": [str(jar) for jar in sorted(spark_part.S3A_JARS.glob("*.jar"))],
                    "operations": 4 if stress_factor < 1 else round(24 * stress_factor),
                }
            )  # fmt: skip
        fleet = Fleet(jobs)
        try:
            cuts = _watch(lake, fleet, kills, dice)
        finally:
            fleet.close()
        told = Told.read(*(Path(job["journal"]) for job in jobs))
        outputs = [(Path(job["work"]) / "out").read_text()[-3000:] for job in jobs]
        assert not told.failures, told.failures
        assert all("DONE" in text for text in outputs), outputs
        # Each of them hit a statement, whose outcome its driver never learned.
        assert fleet.kills == kills == len(told.open)
        found = _check(lake, told)
        assert cuts > 3
    print(f"{drivers} drivers, {kills} kills, {cuts} cuts: {found}")


def _make(lake: deltasql.Lake) -> None:
    for name, columns in TABLES.items():
        table = lake.create_table(f"k.{name}", pa.schema(columns))
        if name in ("a", "b"):
            table.append(pa.table({"id": list(range(ACCOUNTS)), "n": [EACH] * ACCOUNTS}))


def _watch(lake: deltasql.Lake, fleet: Fleet, kills: int, dice: random.Random) -> int:
    """Kill drivers until enough were, and look at both accounts on one cut again and again."""
    cuts = 0
    wait = time.monotonic()
    while fleet.is_alive:
        assert _total(lake) == 2 * ACCOUNTS * EACH
        cuts += 1
        if fleet.kills < kills and time.monotonic() > wait and fleet.kill_one(dice):
            # Some get a chance to end what they began.
            wait = time.monotonic() + dice.uniform(0, 8)
        time.sleep(0.2)
    return cuts


def _total(lake: deltasql.Lake) -> int:
    with lake.transaction() as tx:
        return sum(
            sum(tx.table(f"k.{name}").scan().to_arrow().column("n").to_pylist())
            for name in ("a", "b")
        )


def _check(lake: deltasql.Lake, told: Told) -> dict[str, object]:
    rows = {name: lake.table(f"k.{name}").scan().to_arrow().to_pylist() for name in TABLES}
    merged = _merge_tags(lake)
    seen = {
        ("append",): [row["tag"] for row in rows["log"]],
        ("merge",): merged,
        ("begin", "block"): [row["tag"] for row in rows["ledger"]],
    }
    for kinds, tags in seen.items():
        assert set(Counter(tags).values()) <= {1}, kinds
        done = {item.tag for item in told.done if item.kind in kinds}
        unknown = {item.tag for item in told.open if item.kind in kinds}
        # What was acknowledged is there, what was refused is not, of the rest all or nothing.
        assert done <= set(tags) <= done | unknown, kinds
    assert not [item for item in told.refused if item.kind == "append"]
    assert sum(row["n"] for row in rows["counters"]) == len(merged)
    assert len({row["id"] for row in rows["counters"]}) == len(rows["counters"])
    moved = {"a": 0, "b": 0}
    for row in rows["ledger"]:
        moved[row["source"]] += row["amount"]
    at_a = ACCOUNTS * EACH - moved["a"] + moved["b"]
    assert [sum(row["n"] for row in rows[name]) for name in ("a", "b")] == [
        at_a,
        2 * ACCOUNTS * EACH - at_a,
    ]
    _check_logs(lake)
    return {
        "done": Counter(item.kind for item in told.done),
        "refused": Counter(item.kind for item in told.refused),
        "unknown": Counter(item.kind for item in told.open),
        "of these committed": sum(item.tag in tags for item in told.open for tags in seen.values()),
        "versions": {name: lake.table(f"k.{name}").version for name in TABLES},
    }


def _merge_tags(lake: deltasql.Lake) -> list[str]:
    infos = [
        codec.wire_fields(action)
        for change in lake.table("k.counters").changes(0)
        for action in change.actions
        if isinstance(action, CommitInfo)
    ]
    return [info["userMetadata"] for info in infos if info.get("operation") == "MERGE"]


def _check_logs(lake: deltasql.Lake) -> None:
    """No gap, the log agrees with itself, and the mirrors with it."""
    for table in lake.tables():
        versions = [entry.version for entry in table.history()]
        assert versions == list(range(table.version, -1, -1)), table.name
    checked = lake.check()
    assert checked.ok, checked
    # What a killed driver was mirroring is free when its lease has ended.
    deadline = time.monotonic() + 120
    while any(item.lag_versions for item in lake.mirror.status()):
        assert time.monotonic() < deadline
        lake.mirror.run(once=True)
        time.sleep(0.5)
    for table in lake.tables():
        assert table.mirror.validate().ok, table.name
