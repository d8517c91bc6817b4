"""A process of its own that adopts one table with Spark and tells its time and its memory."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import deltasql
import deltasql.spark
from bench.peak import peak_mb
from tests.parts import spark as spark_part

# The driver's heap, which in local mode is also the executors'.
HEAP = "1g"


def main() -> None:
    url, log = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = deltasql.spark.session(
        "bench",
        master="local[2]",
        jars=spark_part.JARS,
        config={
            "spark.driver.memory": HEAP,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
        },
    )
    # As warm as a session is in which somebody works.
    spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()
    with deltasql.connect(url, location="file:///unused") as lake:
        db = deltasql.spark.attach(spark, lake)
        started = time.perf_counter()
        table = db.adopt(log, name="adopted")
        seconds = time.perf_counter() - started
        files = lake.store.totals(table.table_id, table.version).files
    jvm = spark.sparkContext._gateway.proc.pid
    peak = peak_mb() + peak_mb(_java(jvm))
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "files": files}))
    spark.stop()


def _java(pid: int) -> int:
    """The JVM, which a script may have started as its child."""
    while "java" not in Path(f"/proc/{pid}/comm").read_text():
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return pid


if __name__ == "__main__":
    main()
