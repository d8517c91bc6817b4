"""PySpark beside stock Delta Spark, in one run and one warm JVM: `python -m bench.spark --help`.

Tables for planning are logs without data files, the same adds on both sides: ours in
PostgreSQL, stock Delta's in `_delta_log`.
"""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench import ours, spark_lab
from bench.files import wire_adds
from bench.lab import say
from bench.lines.opening import tidy
from bench.peers import deltars
from bench.report import Row
from bench.spark_lab import SparkLab, faster

TITLE = "PySpark beside stock Delta Spark"
SELECTIVE = "day = '2026-02-14' AND id BETWEEN 500000000 AND 500100000"
PARTITIONED = (
    "SELECT id, id % 16 AS p, cast(id AS double) / 7 AS v, concat('n', id % 1000) AS n "
    "FROM range({})"
)


def planned(lab: SparkLab) -> Any:
    """Tables that are opened and read, and have no mirror."""
    return lab.database("spark", {"mirror.mode": "off"})


def written(lab: SparkLab) -> Any:
    """Where rows are written the mirror is, too: stock Delta writes its log as well."""
    return lab.fresh_database("written")


def plan(frame: Any) -> int:
    """Plan a scan as far as its tasks."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def cold(lab: SparkLab, name: str, where: str | None = None) -> Callable[[], Any]:
    """Open and plan with stock Delta, its cache of logs emptied."""

    def work() -> int:
        lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        frame = lab.spark.read.format("delta").load(lab.path(name))
        return plan(frame if where is None else frame.where(where))

    return work


def open_many(lab: SparkLab) -> Iterator[Row]:
    yield faster(
        "open-100k",
        f"open and plan {lab.scaled(100_000):,} files",
        lambda: plan(planned(lab).read("bench.many")),
        cold(lab, "many"),
        bar=0.5,
        note="SQL included; stock Delta from a checkpoint, its log cache emptied",
    )


def open_commits(lab: SparkLab) -> Iterator[Row]:
    yield faster(
        "open-5000",
        f"open and plan {lab.scaled(5_000):,} small commits",
        lambda: plan(planned(lab).read("bench.commits")),
        cold(lab, "commits"),
        bar=0.1,
        repeats=2,
        note="the log has no checkpoint",
    )


def open_selective(lab: SparkLab) -> Iterator[Row]:
    yield faster(
        "selective",
        f"plan a selective query on {lab.scaled(1_000_000):,} files",
        lambda: plan(planned(lab).read("bench.huge", where=SELECTIVE)),
        cold(lab, "huge", SELECTIVE),
        bar=0.1,
        repeats=2,
        note="one partition of 28 and a range of ids; stock Delta from a checkpoint",
    )


def scan(lab: SparkLab) -> Iterator[Row]:
    total = "sum(id)", "sum(v)", "count(n)"
    yield faster(
        "scan",
        f"scan {lab.scaled(20_000_000):,} rows",
        lambda: planned(lab).read("bench.rows").selectExpr(*total).collect(),
        lambda: lab.spark.read.format("delta").load(lab.path("rows")).selectExpr(*total).collect(),
        bar=1.0,
        note="three aggregates over the same files; stock Delta with its log cached",
    )


def append(lab: SparkLab) -> Iterator[Row]:
    rows = lab.spark.sql(PARTITIONED.format(lab.scaled(10_000_000))).repartition(2, "p").cache()
    rows.count()
    made: list[str] = []

    def mine() -> None:
        name = f"bench.a{uuid.uuid4().hex}"
        written(lab).write(rows, name, partition_by="p")

    def stock() -> None:
        made.append(lab.path(f"a{uuid.uuid4().hex}"))
        rows.write.format("delta").partitionBy("p").save(made[-1])

    yield faster(
        "append", f"append {lab.scaled(10_000_000):,} rows, 16 partitions", mine, stock,
        bar=1 / 0.95, repeats=4, note="a new table each time, from rows that are cached",
    )  # fmt: skip
    rows.unpersist()
    for path in made:
        shutil.rmtree(path)


def small_append(lab: SparkLab) -> Iterator[Row]:
    rows = lab.spark.range(3, numPartitions=1).selectExpr("id", "'x' AS n")
    name, path = f"bench.s{uuid.uuid4().hex}", lab.path(f"s{uuid.uuid4().hex}")
    yield faster(
        "small",
        "append 3 rows",
        lambda: written(lab).write(rows, name),
        lambda: rows.write.format("delta").mode("append").save(path),
        bar=0.8,
        repeats=20,
        note="one table, one task; the mirror is written, too",
    )


LINES: dict[str, spark_lab.Line] = {
    "open-100k": open_many,
    "open-5000": open_commits,
    "selective": open_selective,
    "scan": scan,
    "append": append,
    "small": small_append,
}


def prepare(lab: SparkLab) -> None:
    """Make the tables that are opened and scanned, unless they are there."""
    tables = {
        "many": (lab.scaled(100_000), 1_000, 0),
        "commits": (lab.scaled(5_000), 1, None),
        "huge": (lab.scaled(1_000_000), 5_000, 0),
    }
    for name, numbers in tables.items():
        lab.once(name, partial(make_log, lab, name, *numbers))
    lab.once("rows", partial(make_rows, lab))
    tidy(lab.server.url("spark"))


def make_log(lab: SparkLab, name: str, files: int, per_commit: int, checkpoint: int | None) -> None:
    """The logs of a table, stock Delta's and ours, without data files."""
    say(f"making {name}: {files:,} files")
    deltars.make_table(
        lab.data / name, wire_adds(0, files), per_commit=per_commit, checkpoint_every=checkpoint
    )
    table = ours.create_files_table(planned(lab).lake, name=f"bench.{name}")
    for start in range(0, files, per_commit):
        numbers = range(start, min(files, start + per_commit))
        table.commit([ours.add_file(number) for number in numbers])


def make_rows(lab: SparkLab) -> None:
    """A table that is scanned, stock Delta's and ours."""
    say("making rows")
    rows = lab.spark.sql(PARTITIONED.format(lab.scaled(20_000_000))).repartition(8)
    rows.write.format("delta").save(lab.path("rows"))
    planned(lab).write(lab.spark.read.format("delta").load(lab.path("rows")), "bench.rows")


if __name__ == "__main__":
    sys.exit(spark_lab.run("spark", TITLE, LINES, prepare))
