"""A PySpark driver with secrets in its settings, to be ended, in a process of its own.

The lake, the jars and the work folder come as JSON on its standard input. It does what a job may
do, fails in every way that a connection can, says READY, and waits.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltasql
import deltasql.spark
from deltasql.errors import DeltaSqlError
from tests.faults.reports import shown
from tests.parts.process import free_port
from tests.spark.conftest import quick


def main() -> None:
    job = json.loads(sys.stdin.readline())
    work = Path(job["work"])
    logging.basicConfig(filename=work / "debug.log", level=logging.DEBUG)
    # It writes down every call into the JVM, with its arguments; nobody runs it so.
    logging.getLogger("py4j").setLevel(logging.INFO)
    events = work / "events"
    events.mkdir()
    spark = deltasql.spark.session(
        "secretive",
        master="local[2]",
        jars=job["jars"],
        config={
            **quick(work),
            # What Spark writes down unless it is told otherwise.
            "spark.sql.ui.explainMode": "formatted",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        },
    )
    fail_to_connect(job)
    lake = deltasql.connect(job["url"], location=job["location"], settings=job["settings"])
    db = deltasql.spark.attach(spark, lake, catalog="lake")
    db.write(spark.range(10), "job.native")
    spark.sql("INSERT INTO lake.job.native SELECT id + 10 FROM range(3)")
    spark.range(5).write.format("deltasql").mode("append").save("job.native")
    rows = spark.read.format("deltasql").load("job.native")
    assert rows.count() == 18
    rows.explain(extended=True)
    for failing in (
        lambda: spark.sql("SELECT nothing FROM lake.job.native").collect(),
        lambda: spark.sql("SELECT raise_error('x') FROM lake.job.native").collect(),
        lambda: spark.read.format("deltasql").load("job.absent").collect(),
        lambda: spark.read.format("deltasql").option("lake", "absent").load("job.native").collect(),
        lambda: spark.sql("INSERT INTO lake.job.native VALUES ('no number')"),
        lambda: spark.read.parquet("s3a://no-such-bucket/x").collect(),
        lambda: db.adopt("s3://no-such-bucket/x", name="job.x"),
    ):
        try:
            failing()
        except Exception as error:  # noqa: BLE001 - the JVM's among them
            print("Failed: ", *(text for _, text in shown(error)), sep="\n", flush=True)
    sink = db.stream("job.native").writeStream.format("deltasql").trigger(availableNow=True)
    sink.option("checkpointLocation", str(work / "checkpoint")).start("job.copy").awaitTermination()
    assert db.read("job.copy").count() == 18
    print("READY", flush=True)
    if sys.stdin.readline():
        lake.close()
        spark.stop()


def fail_to_connect(job: dict[str, Any]) -> None:
    """Each way in which no connection comes about, printed as a program would."""
    url = job["url"]
    broken = [
        url.replace("127.0.0.1", "host.invalid"),
        url.replace("//postgres:", "//nobody:"),
        url.replace(":" + url.split("@")[1].split(":")[1].split("/")[0], f":{free_port()}"),
        url.rsplit("/", 1)[0] + "/no_such_database",
        url + ("&" if "?" in url else "?") + "sslmode=require",
        url + ("&" if "?" in url else "?") + "nonsense=1",
        url.replace("postgresql://", "mysql://"),
        url.replace("@", "@@"),
    ]
    settings = {**job["settings"], "sql.timeout": "1s"}

    def connect(wrong: str) -> str:
        try:
            deltasql.connect(wrong, location=job["location"], settings=settings).close()
        except DeltaSqlError as error:
            reported = (text for _, text in shown(error))
            return "\n".join([traceback.format_exc(), *reported])
        return "connected"

    with ThreadPoolExecutor(len(broken)) as pool:
        print(*pool.map(connect, broken), sep="\n", flush=True)


if __name__ == "__main__":
    main()
