"""Merges, deletes and streams beside stock Delta Spark: `python -m bench.spark_dml --help`.

One run, one warm JVM, the same rows on both sides, deletion vectors off. Ours is on PostgreSQL
and writes its mirror, too; stock Delta has its log cached.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from bench import spark_lab
from bench.lab import say
from bench.report import Row
from bench.spark_lab import SparkLab, faster
from deltasql import RemoveFile, Table

TITLE = "Merges, deletes and streams beside stock Delta Spark"
ROWS = (
    "SELECT id, cast(id * 16 DIV {0} AS int) AS p, id * 1.5D AS v, concat('n', id % 1000) AS n "
    "FROM range({0})"
)
MERGED_ON = "t.p = s.p AND t.id = s.id"
BATCHES = 100
WARM = 10
# A stream plans without adaptive execution: by default stock Delta would look at its small log in
# 200 tasks a batch, 4 s on two cores.
FEW_TASKS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def ours(lab: SparkLab) -> Any:
    """Our tables, with their mirror."""
    return lab.database("dml")


def prepare(lab: SparkLab) -> None:
    """Make the tables that are changed, unless they are there."""
    # The second has one task, and so one file, for each thousandth of the keys.
    made = {
        "merged": (ROWS.format(lab.scaled(10_000_000)), ("p",)),
        "keyed": (f"SELECT id, id % 7 AS v FROM range(0, {lab.scaled(1_000_000)}, 1, 1000)", ()),
    }
    for name, (text, by) in made.items():
        lab.once(name, partial(_make, lab, name, text, by))


def _make(lab: SparkLab, name: str, text: str, by: Sequence[str]) -> None:
    say(f"making {name}")
    frame = lab.spark.sql(text)
    frame.write.format("delta").partitionBy(*by).save(lab.path(name))
    ours(lab).write(frame, f"bench.{name}", partition_by=by)


def merged_rows(lab: SparkLab) -> tuple[int, int, str]:
    """How many rows there are, how many are merged, and a query for these."""
    total, size = lab.scaled(10_000_000), lab.scaled(1_000_000)
    known = size // 100
    old = f"SELECT {3 * (total // 16)} + id AS id FROM range({known})"
    new = f"SELECT {total} + id AS id FROM range({size - known})"
    return total, size, f"SELECT id, 3 AS p, 0.5D AS v, 'm' AS n FROM ({old} UNION ALL {new})"


def merge(lab: SparkLab) -> Iterator[Row]:
    """A tenth of the table's rows, of which a hundredth is there, all in one partition."""
    total, size, rows = merged_rows(lab)
    plain = f"delta.`{lab.path('merged')}`"
    table = ours(lab).lake.table("bench.merged")

    def mine() -> None:
        source = lab.spark.sql(rows).alias("s")
        builder = ours(lab).table("bench.merged").alias("t").merge(source, MERGED_ON)
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def stock() -> None:
        lab.spark.sql(
            f"MERGE INTO {plain} t USING ({rows}) s ON {MERGED_ON} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def restore() -> None:
        lab.spark.sql(f"RESTORE TABLE {plain} TO VERSION AS OF 0")
        restore_first(table)

    yield faster(
        "merge",
        f"merge {size:,} rows into {total:,}, 1 % matched, 1 of 16 partitions",
        mine, stock, bar=1 / 1.2, repeats=3, before=restore,
        note="keys and partition by the condition, none named by a literal; "
        "into the same table each time",
    )  # fmt: skip


def restore_first(table: Table) -> None:
    """Bring back the files of the first version."""
    first, last = table.snapshot(0), table.snapshot()
    wanted = {add.path: add for add in first.adds()}
    there = {add.path: add for add in last.adds()}
    gone = [
        RemoveFile.of(add, deletion_timestamp=0)
        for path, add in there.items()
        if path not in wanted
    ]
    back = [add for path, add in wanted.items() if path not in there]
    if gone or back:
        table.commit([*gone, *back], operation="RESTORE", read_version=last.version)


def delete(lab: SparkLab) -> Iterator[Row]:
    plain = f"delta.`{lab.path('keyed')}`"
    step = lab.scaled(1_000_000) // 1000
    keys = iter(range(step // 2, lab.scaled(1_000_000), step * 7 + 1))
    others = iter(range(step // 2, lab.scaled(1_000_000), step * 7 + 1))
    yield faster(
        "delete",
        "delete one key in a table of 1,000 files",
        lambda: ours(lab).table("bench.keyed").delete(f"id = {next(keys)}"),
        lambda: lab.spark.sql(f"DELETE FROM {plain} WHERE id = {next(others)}"),
        bar=0.5, repeats=3,
        note="each key in one file, found by its stats; another key each time",
    )  # fmt: skip


def stream(lab: SparkLab) -> Iterator[Row]:
    def stock() -> Callable[[Any, int], None]:
        path = lab.path(f"stream-{uuid.uuid4().hex}")

        def run(frame: Any, batch: int) -> None:
            writer = frame.write.format("delta").mode("append")
            writer.option("txnAppId", "bench").option("txnVersion", batch).save(path)

        return run

    rates: dict[str, list[float]] = {"mine": [], "stock": []}
    for name, value in FEW_TASKS.items():
        lab.spark.conf.set(name, value)
    for _ in range(2):
        rates["stock"].append(_rate(lab, stock()))
        rates["mine"].append(_rate(lab, ours(lab).sink(f"bench.s{uuid.uuid4().hex}")))
        say(f"  stream: ours {rates['mine'][-1]:.2f}, stock {rates['stock'][-1]:.2f} batches/s")
    for name in FEW_TASKS:
        lab.spark.conf.unset(name)
    yield Row(
        name="stream",
        work=f"{BATCHES} micro-batches of 1,000 rows, foreachBatch",
        ours=max(rates["mine"]),
        peer=max(rates["stock"]),
        peer_name="Delta Spark",
        unit="batches/s",
        better="more",
        bar=1.5,
        note=f"after {WARM} to warm up, the better of 2 in turn; txn on both sides; "
        "2 shuffle partitions, in stock Delta's snapshots, too",
    )


def _rate(lab: SparkLab, sink: Callable[[Any, int], None]) -> float:
    started: list[float] = []
    finished = threading.Event()

    def run(frame: Any, batch: int) -> None:
        if batch == WARM:
            started.append(time.perf_counter())
        if batch >= WARM + BATCHES:
            started.append(time.perf_counter())
            finished.set()
            return
        sink(frame, batch)

    source = lab.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
    frame = source.option("numPartitions", 1).load().selectExpr("value AS id", "timestamp AS at")
    checkpoint = lab.path(f"checkpoint-{uuid.uuid4().hex}")
    query = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(run)
    running = query.trigger(processingTime="0 seconds").start()
    while not finished.wait(1):
        # A batch that failed ends the stream, and would never be finished.
        if error := running.exception():
            raise error
    running.stop()
    return BATCHES / (started[1] - started[0])


LINES: dict[str, spark_lab.Line] = {
    "merge": merge,
    "delete": delete,
    "stream": stream,
}


if __name__ == "__main__":
    sys.exit(spark_lab.run("spark_dml", TITLE, LINES, prepare))
