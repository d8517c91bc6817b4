"""Upkeep beside stock Delta Spark, in one warm JVM: `python -m bench.spark_upkeep --help`."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import deltasql.spark
from bench import small_files, spark_lab
from bench.lab import timed
from bench.lines.tidying import AT_ONCE
from bench.report import Row
from bench.spark_lab import SparkLab

TITLE = "Upkeep beside stock Delta Spark"
CATALOG = "upkeep"
_ROUNDS = 2
# Stock Delta lists in as many tasks as Spark thinks fit for a cluster, 10,000, even where there is
# one folder: on two cores that is all that its vacuum does for minutes.
_LISTING = ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "8")


def compact(lab: SparkLab) -> Iterator[Row]:
    """The same files on both sides, in tables of their own each round: the first one warms up."""
    count = lab.scaled(10_000)
    times: dict[str, list[float]] = {"ours": [], "driver": [], "stock": []}
    db = _attached(lab)
    for turn in range(_ROUNDS + 1):
        on_executors, on_driver = (
            small_files.make(db.lake, f"u.{word}{turn}", count) for word in "ed"
        )
        plain = small_files.plain_copy(on_driver, lab.data / f"plain{turn}")
        found = {
            "ours": timed(db.table(on_executors.name).optimize(engine="spark").executeCompaction),
            "driver": timed(db.table(on_driver.name).optimize().executeCompaction),
            "stock": timed(lambda at=plain: lab.spark.sql(f"OPTIMIZE delta.`{at}`").collect()),
        }
        for word, seconds in found.items():
            if turn:
                times[word].append(seconds)
        shutil.rmtree(plain)
    for name, word, work in (
        ("compact-spark", "ours", "on Spark's executors"),
        ("compact-driver", "driver", "on the driver, from Arrow"),
    ):
        yield Row(
            name=name,
            work=f"compact {count:,} files of {small_files.ROWS} rows {work}",
            ours=min(times[word]),
            unit="s",
            peer=min(times["stock"]),
            peer_name="Delta Spark",
            better="less",
            bar=1 / 1.2,
            note=f"best of {_ROUNDS}, each on files of its own",
        )


def vacuum(lab: SparkLab) -> Iterator[Row]:
    """A dry run in which a tenth of the files is dead."""
    count = lab.scaled(100_000)
    db = _attached(lab)
    table = small_files.make(db.lake, "u.v", count)
    plain = small_files.plain_copy(table, lab.data / "plainv")
    dead = small_files.remove(table, plain, count // 10)
    lab.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lab.spark.conf.set(*_LISTING)
    time.sleep(0.1)
    yield spark_lab.faster(
        "vacuum-spark",
        f"dry run of a vacuum, {dead:,} of {count:,} files dead",
        lambda: table.vacuum(**AT_ONCE, find_orphans=False),
        lambda: lab.spark.sql(f"VACUUM delta.`{plain}` RETAIN 0 HOURS DRY RUN").collect(),
        bar=0.2,
        repeats=3,
        note="ours finds dead files in SQL; stock Delta lists the folder, in 8 tasks instead of "
        "the 10,000 that are Spark's default",
    )
    shutil.rmtree(plain)


def _attached(lab: SparkLab) -> Any:
    """The lake as a catalog, by which Delta's OPTIMIZE finds its tables."""
    lake = lab.fresh_database("upkeep").lake
    return deltasql.spark.attach(lab.spark, lake, name="upkeep", catalog=CATALOG)


LINES = {"compact": compact, "vacuum": vacuum}


def main() -> int:
    return spark_lab.run("spark_upkeep", TITLE, LINES, lambda _: None)


if __name__ == "__main__":
    sys.exit(main())
