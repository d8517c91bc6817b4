"""Four drivers move amounts between two tables; on no cut is anything lost or doubled."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pyarrow as pa
import pytest

import deltasql
from tests.parts import spark as spark_part
from tests.spark.test_stream_failures import environment

TOTAL = 2 * 4 * 100


def total(lake) -> int:
    """The sum over both tables on one cut, as a reader sees it."""
    with lake.transaction() as tx:
        return sum(
            sum(tx.table(name).scan().to_arrow().column("n").to_pylist()) for name in ("a", "b")
        )


@pytest.mark.stress
@pytest.mark.timeout(3600)
def test_the_sum_holds_on_every_cut(postgres_url, tmp_path, stress_factor):
    location = (tmp_path / "lake").as_uri()
    transfers = max(2, round(20 * stress_factor))
    count = max(2, round(4 * stress_factor))
    with deltasql.connect(postgres_url, location=location) as lake:
        for name in ("a", "b"):
            table = lake.create_table(name, pa.schema([("id", pa.int64()), ("n", pa.int64())]))
            table.append(pa.table({"id": list(range(4)), "n": [100] * 4}))
        drivers = []
        for seed in range(count):
            work = tmp_path / str(seed)
            work.mkdir()
            job = {
                "do": "transfer", "url": postgres_url, "location": location, "seed": seed,
                "jars": str(spark_part.JARS), "more_jars": [], "settings": {},
                "work": str(work), "transfers": transfers,
            }  # fmt: skip
            with (work / "out").open("w") as out:
                command = [sys.executable, "-m", "tests.spark.driver", json.dumps(job)]
                drivers.append(
                    subprocess.Popen(command, env=environment(), cwd=work, stdout=out, stderr=out)
                )
        cuts = 0
        try:
            while any(driver.poll() is None for driver in drivers):
                assert total(lake) == TOTAL
                cuts += 1
                time.sleep(0.02)
        finally:
            for driver in drivers:
                driver.kill()
                driver.wait()
        told = [(tmp_path / str(seed) / "out").read_text() for seed in range(count)]
        assert all("DONE" in text for text in told), told
        assert total(lake) == TOTAL
        assert cuts > 10
        versions = lake.table("a").version + lake.table("b").version
        assert versions == 2 * (1 + count * transfers)
        lake.mirror.run(once=True)
        assert all(table.mirror.validate().ok for table in lake.tables())
