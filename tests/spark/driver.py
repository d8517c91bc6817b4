"""A PySpark driver in a process of its own, to be killed: `python -m tests.spark.driver JSON`.

stream    the table `src` into `a` and `b` in one transaction a batch, or, by the data
          source alone, into `a`; killed by itself in a batch if the job says so
transfer  moves amounts between the tables `a` and `b`, over and over
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

import deltasql
import deltasql.spark
from deltasql.errors import CommitError
from tests.spark.conftest import quick


def main() -> None:
    job = json.loads(sys.argv[1])
    work = Path(job["work"])
    spark = deltasql.spark.session(
        "driver",
        master="local[2]",
        jars=job["jars"],
        config={**quick(work), "spark.jars": ",".join(job["more_jars"])},
    )
    spark.sparkContext.setLogLevel("OFF")
    settings = job["settings"]
    with deltasql.connect(job["url"], location=job["location"], settings=settings) as lake:
        db = deltasql.spark.attach(spark, lake)
        {"stream": stream, "transfer": transfer}[job["do"]](db, job)
    print("DONE", flush=True)
    spark.stop()


def stream(db: deltasql.spark.Database, job: dict) -> None:
    rows = db.stream("src", max_files_per_trigger=1)
    writer = rows.writeStream.option("checkpointLocation", job["checkpoint"])
    writer = writer.trigger(availableNow=True)
    if job["route"] == "source":
        query = writer.format("deltasql").start("a")
    else:
        sink = db.sink({"a": None, "b": lambda frame: frame.selectExpr("id", "n * 2 AS n")})
        query = writer.foreachBatch(deadly(sink, job)).start()
    if job["route"] == "source" and job["dies"] is not None:
        while (query.lastProgress or {}).get("batchId", -1) < job["started"] + job["dies"]:
            if query.awaitTermination(timeout=0.05):
                return
        os.kill(os.getpid(), signal.SIGKILL)
    query.awaitTermination()


def deadly(sink, job: dict):
    """The sink, which kills the driver in a batch: before it writes, or after it has committed."""
    left = [job["dies"]]

    def run(frame, batch: int) -> None:
        if left[0] == 0 and job["when"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        sink(frame, batch)
        if left[0] == 0 and job["when"] == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        if left[0] is not None:
            left[0] -= 1

    return run


def transfer(db: deltasql.spark.Database, job: dict) -> None:
    dice = random.Random(job["seed"])
    done = conflicts = 0
    while done < job["transfers"]:
        source, target = dice.sample(["a", "b"], 2)
        giver, taker, amount = dice.randrange(4), dice.randrange(4), dice.randrange(1, 10)
        try:
            with db.transaction() as tx:
                tx.table(source).update(f"id = {giver}", {"n": f"n - {amount}"})
                if dice.random() < 0.5:
                    tx.table(target).update(f"id = {taker}", {"n": f"n + {amount}"})
                else:
                    given = db.spark.sql(f"SELECT {taker}L AS id, {amount}L AS n")
                    merge = tx.table(target).merge(given, "target.id = source.id")
                    merge.whenMatchedUpdate(set={"n": "target.n + source.n"}).execute()
        except CommitError:
            conflicts += 1
            continue
        done += 1
    print(f"CONFLICTS {conflicts}", flush=True)


if __name__ == "__main__":
    main()
