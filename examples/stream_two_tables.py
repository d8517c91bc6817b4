"""A stream into two tables, killed and restarted: nothing is lost, nothing doubled.

python examples/stream_two_tables.py
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import deltasql
import deltasql.spark

VISITS = pa.schema([("id", pa.int64()), ("page", pa.string()), ("ms", pa.int64())])
FILES = 6
QUIET = {
    # It is over before the second compiler has paid.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "OFF",
}


def stream(folder: Path, dies_in: int | None) -> None:
    """Stream visits into two tables, both in one transaction a batch."""
    spark = deltasql.spark.session("stream", master="local[2]", config=QUIET)
    with deltasql.connect(f"sqlite:///{folder / 'lake.db'}") as lake:
        db = deltasql.spark.attach(spark, lake)
        both = db.sink(
            {
                "web.visits": None,
                "web.pages": lambda batch: (
                    batch.groupBy("page").agg({"ms": "sum"}).toDF("page", "ms")
                ),
            }
        )

        def batch_or_death(batch, number):
            both(batch, number)
            if number == dies_in:
                # After the commit, before Spark has noted it: the worst moment.
                os.kill(os.getpid(), signal.SIGKILL)

        rows = db.stream("web.raw", max_files_per_trigger=1)
        writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        writer.foreachBatch(batch_or_death).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="deltasql-stream-") as name:
        folder = Path(name)
        with deltasql.connect(f"sqlite:///{folder / 'lake.db'}") as lake:
            raw = lake.create_table("web.raw", VISITS)
            for number in range(FILES):
                ids = list(range(number * 100, number * 100 + 100))
                pages = [f"/{i % 5}" for i in ids]
                raw.append(pa.table({"id": ids, "page": pages, "ms": ids}, schema=VISITS))
            for dies_in in (2, None):
                child = [sys.executable, __file__, name, "" if dies_in is None else str(dies_in)]
                code = subprocess.run(child, stderr=subprocess.DEVNULL, check=False).returncode
                count = lake.table("web.visits").scan().to_arrow().num_rows
                end = "done" if code == 0 else f"killed in batch {dies_in}"
                print(f"{end}: {count:,} visits committed")
            visits = lake.table("web.visits").scan().to_arrow()
            pages = lake.table("web.pages").scan().to_arrow()
            sums = [
                sum(table.column("ms").to_pylist())
                for table in (raw.scan().to_arrow(), visits, pages)
            ]
            assert len(set(sums)) == 1, sums
            assert sorted(visits.column("id").to_pylist()) == list(range(FILES * 100))
            print(f"every visit once, and both tables agree: {sums[0]:,} ms")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        stream(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2] else None)
    else:
        main()
