"""Streams whose driver, database or object store dies meanwhile: every row once, none lost."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest

import deltasql
from tests.faults.waiting import end_leases
from tests.parts import spark as spark_part
from tests.sizes import FULL
from tests.spark.conftest import SOURCE

ROOT = Path(__file__).parents[2]
# `batch` is our source into foreachBatch, `source` the data source on both ends.
ROUTES = ("batch", "source")


class Server(Protocol):
    """What a test kills and starts again."""

    def kill(self) -> None: ...

    def start(self) -> object: ...


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("route", ROUTES if FULL else ["source"])
def test_killed_and_restarted(postgres_url, tmp_path, stress_factor, route):
    restarts = max(1, round(10 * stress_factor))
    files = 4 * restarts + 2
    location = (tmp_path / "lake").as_uri()
    dice = random.Random(7)
    with deltasql.connect(postgres_url, location=location) as lake:
        fill(lake, files)
        job = job_of(postgres_url, location, tmp_path, route)
        for _ in range(restarts):
            dies = {"dies": dice.randrange(3), "when": dice.choice(["before", "after"])}
            done = drive({**job, **dies, "started": batches_done(job)})
            assert done.returncode == -9, done.stdout + done.stderr[-2000:]
            end_leases(lake)
        done = drive(job)
        assert "DONE" in done.stdout, done.stderr[-2000:]
        exactly_once(lake, files, both=route == "batch")


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("route", ROUTES if FULL else ["batch"])
def test_the_servers_die_meanwhile(
    private_seaweedfs, private_postgres, tmp_path, stress_factor, route
):
    """Now the database, now the object store."""
    deaths = max(2, round(20 * stress_factor))
    url = private_postgres.create_database("streamed")
    location, settings = private_seaweedfs.location("lake"), private_seaweedfs.options()
    with deltasql.connect(url, location=location, settings=settings) as lake:
        fill(lake, 3 * deaths + 2)
    jars = [str(jar) for jar in sorted(spark_part.S3A_JARS.glob("*.jar"))]
    job = job_of(url, location, tmp_path, route)
    job |= {"settings": settings, "more_jars": jars}
    outlives([private_postgres, private_seaweedfs], deaths, job)
    with deltasql.connect(url, location=location, settings=settings) as lake:
        exactly_once(lake, 3 * deaths + 2, both=route == "batch")


def outlives(servers: Sequence[Server], deaths: int, job: dict) -> None:
    """Run a stream to its end while servers die so often, in turn and each in another batch.

    The stream goes on by itself, or fails, and is started again.
    """
    dice = random.Random(11)
    seen, left = batches_done(job), deaths
    log = Path(job["work"]) / "out"
    for _ in range(deaths + 1):
        with log.open("w") as out:
            driver = subprocess.Popen(
                command(job), env=environment(), cwd=job["work"], stdout=out, stderr=out
            )
        try:
            deadline = time.monotonic() + 240
            while driver.poll() is None:
                assert time.monotonic() < deadline, f"it hangs:\n{log.read_text()[-2000:]}"
                if left and batches_done(job) > seen:
                    time.sleep(dice.random() / 2)
                    server = servers[left % len(servers)]
                    server.kill()
                    time.sleep(dice.random())
                    server.start()
                    seen, left = batches_done(job), left - 1
                    deadline = time.monotonic() + 240
                time.sleep(0.02)
        finally:
            driver.kill()
            driver.wait()
        if driver.returncode == 0:
            break
    assert (driver.returncode, left) == (0, 0), log.read_text()[-4000:]


def fill(lake: deltasql.Lake, files: int) -> None:
    table = lake.create_table("src", pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    for number in range(files):
        made = list(range(number * 10, number * 10 + 10))
        table.append(pa.table({"id": made, "n": made}))


def exactly_once(lake: deltasql.Lake, files: int, *, both: bool) -> None:
    a = lake.table("a").scan().to_arrow()
    assert sorted(a.column("id").to_pylist()) == list(range(files * 10))
    if both:
        b = lake.table("b").scan().to_arrow()
        assert sorted(b.column("n").to_pylist()) == [2 * n for n in range(files * 10)]
    lake.mirror.run(once=True)
    assert all(table.mirror.validate().ok for table in lake.tables())


def job_of(url: str, location: str, work: Path, route: str) -> dict:
    """A stream that runs to its end."""
    return {
        "do": "stream", "route": route, "url": url, "location": location, "settings": {},
        "jars": str(spark_part.JARS), "more_jars": [], "work": str(work),
        "checkpoint": str(work / "checkpoint"), "dies": None, "when": "", "started": 0,
    }  # fmt: skip


def batches_done(job: dict) -> int:
    commits = Path(job["checkpoint"]) / "commits"
    return max((int(p.name) for p in commits.glob("*") if p.name.isdecimal()), default=-1)


def command(job: dict) -> list[str]:
    return [sys.executable, "-m", "tests.spark.driver", json.dumps(job)]


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{SOURCE}:{ROOT}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def drive(job: dict) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(job), env=environment(), cwd=job["work"], capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
