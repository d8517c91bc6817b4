"""Upkeep beside stock Delta Spark, in one warm JVM: `python -m bench.spark_upkeep --help`."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pyarrow as pa

import deltasql
import deltasql.spark
from bench import spark_lab
from bench.lab import timed
from bench.maintenance import ROWS, SCHEMA, _plain_copy, _rows
from bench.report import Row
from bench.spark_lab import SparkLab
from deltasql.lake import writing
from deltasql.lake.table import Table

TITLE = "Upkeep beside stock Delta Spark"
CATALOG = "upkeep"
_ROUNDS = 2


def compact(lab: SparkLab) -> Iterator[Row]:
    """The same files on both sides, in tables of their own each round: the first one warms up."""
    count = lab.scaled(10_000)
    times: dict[str, list[float]] = {"ours": [], "driver": [], "stock": []}
    db = _attached(lab)
    for turn in range(_ROUNDS + 1):
        on_executors, on_driver = (_small(db.lake, f"u.{word}{turn}", count) for word in "ed")
        plain = _plain_copy(on_driver, lab.data / f"plain{turn}")
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
            work=f"compact {count:,} files of {ROWS} rows {work}",
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
    table = _small(db.lake, "u.v", count)
    plain = _plain_copy(table, lab.data / "plainv")
    dead = [add.path for add in table.snapshot().adds()][: count // 10]
    gone = [{"path": path, "deletionTimestamp": 1, "dataChange": True} for path in dead]
    table.commit([{"remove": item} for item in gone])
    lines = b"".join(orjson.dumps({"remove": item}) + b"\n" for item in gone)
    (plain / "_delta_log" / f"{2:020d}.json").write_bytes(lines)
    lab.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    time.sleep(0.1)
    at_once: dict[str, Any] = {"retention": timedelta(0), "enforce_retention_duration": False}
    yield spark_lab.faster(
        "vacuum-spark",
        f"dry run of a vacuum, {len(dead):,} of {count:,} files dead",
        lambda: table.vacuum(**at_once, find_orphans=False),
        lambda: lab.spark.sql(f"VACUUM delta.`{plain}` RETAIN 0 HOURS DRY RUN").collect(),
        bar=0.2,
        repeats=3,
        note="ours finds dead files in SQL; stock Delta lists the folder",
    )
    shutil.rmtree(plain)


def _attached(lab: SparkLab) -> Any:
    """The lake as a catalog, by which Delta's OPTIMIZE finds its tables."""
    lake = lab.fresh_database("upkeep").lake
    return deltasql.spark.attach(lab.spark, lake, name="upkeep", catalog=CATALOG)


def _small(lake: deltasql.Lake, name: str, count: int) -> Table:
    table = lake.create_table(name, SCHEMA)
    metadata = table.snapshot().metadata
    rows: list[pa.Table] = [_rows(number) for number in range(min(count, 16))]
    adds = [
        add
        for number in range(count)
        for add in writing.write_rows(table.objects, metadata, rows[number % len(rows)])
    ]
    table.commit(adds)
    return table


LINES = {"compact": compact, "vacuum": vacuum}


def main() -> int:
    return spark_lab.run("spark_upkeep", TITLE, LINES, lambda _: None)


if __name__ == "__main__":
    sys.exit(main())
