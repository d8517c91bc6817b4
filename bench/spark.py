"""PySpark beside stock Delta Spark, in one run and one warm JVM: `python -m bench.spark --help`.

Tables for planning are logs without data files, the same adds on both sides: ours in
PostgreSQL, stock Delta's in `_delta_log`.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

import deltasql
import deltasql.spark
from bench import ours, report
from bench.files import wire_adds
from bench.lab import machine, say
from bench.lines.opening import tidy
from bench.peers import deltars
from bench.report import Row
from tests.parts import spark as spark_part
from tests.parts.postgres import PostgresServer

SELECTIVE = "day = '2026-02-14' AND id BETWEEN 500000000 AND 500100000"
PARTITIONED = (
    "SELECT id, id % 16 AS p, cast(id AS double) / 7 AS v, concat('n', id % 1000) AS n "
    "FROM range({})"
)


@dataclass
class Side:
    """Both sides of the comparison, and where their tables are."""

    spark: Any
    db: deltasql.spark.Database
    mirrored: deltasql.spark.Database
    data: Path
    scale: float

    def scaled(self, count: int) -> int:
        return max(100, round(count * self.scale))

    def log(self, name: str) -> str:
        return str(self.data / name)


def plan(frame: Any) -> int:
    """Plan a scan as far as its tasks."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def cold(side: Side, name: str, where: str | None = None) -> Callable[[], Any]:
    """Open and plan with stock Delta, its cache of logs emptied."""

    def work() -> int:
        side.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        frame = side.spark.read.format("delta").load(side.log(name))
        return plan(frame if where is None else frame.where(where))

    return work


def open_many(side: Side) -> Iterator[Row]:
    yield _faster(
        "open-100k",
        f"open and plan {side.scaled(100_000):,} files",
        lambda: plan(side.db.read("bench.many")),
        cold(side, "many"),
        bar=0.5,
        note="SQL included; stock Delta from a checkpoint, its log cache emptied",
    )


def open_commits(side: Side) -> Iterator[Row]:
    yield _faster(
        "open-5000",
        f"open and plan {side.scaled(5_000):,} small commits",
        lambda: plan(side.db.read("bench.commits")),
        cold(side, "commits"),
        bar=0.1,
        repeats=2,
        note="the log has no checkpoint",
    )


def open_selective(side: Side) -> Iterator[Row]:
    yield _faster(
        "selective",
        f"plan a selective query on {side.scaled(1_000_000):,} files",
        lambda: plan(side.db.read("bench.huge", where=SELECTIVE)),
        cold(side, "huge", SELECTIVE),
        bar=0.1,
        repeats=2,
        note="one partition of 28 and a range of ids; stock Delta from a checkpoint",
    )


def scan(side: Side) -> Iterator[Row]:
    total = "sum(id)", "sum(v)", "count(n)"
    yield _faster(
        "scan",
        f"scan {side.scaled(20_000_000):,} rows",
        lambda: side.db.read("bench.rows").selectExpr(*total).collect(),
        lambda: side.spark.read.format("delta").load(side.log("rows")).selectExpr(*total).collect(),
        bar=1.0,
        note="three aggregates over the same files; stock Delta with its log cached",
    )


def append(side: Side) -> Iterator[Row]:
    rows = side.spark.sql(PARTITIONED.format(side.scaled(10_000_000))).repartition(2, "p").cache()
    rows.count()
    made: list[str] = []

    def mine() -> None:
        name = f"bench.a{uuid.uuid4().hex}"
        side.mirrored.write(rows, name, partition_by="p")

    def stock() -> None:
        made.append(side.log(f"a{uuid.uuid4().hex}"))
        rows.write.format("delta").partitionBy("p").save(made[-1])

    yield _faster(
        "append", f"append {side.scaled(10_000_000):,} rows, 16 partitions", mine, stock,
        bar=1 / 0.95, repeats=3, note="a new table each time, from rows that are cached",
    )  # fmt: skip
    rows.unpersist()
    for path in made:
        shutil.rmtree(path)


def small_append(side: Side) -> Iterator[Row]:
    rows = side.spark.range(3, numPartitions=1).selectExpr("id", "'x' AS n")
    name, path = f"bench.s{uuid.uuid4().hex}", side.log(f"s{uuid.uuid4().hex}")
    yield _faster(
        "small",
        "append 3 rows",
        lambda: side.mirrored.write(rows, name),
        lambda: rows.write.format("delta").mode("append").save(path),
        bar=0.8,
        repeats=20,
        note="one table, one task; the mirror is written, too",
    )


LINES: dict[str, Callable[[Side], Iterator[Row]]] = {
    "open-100k": open_many,
    "open-5000": open_commits,
    "selective": open_selective,
    "scan": scan,
    "append": append,
    "small": small_append,
}


def prepare(side: Side) -> None:
    """Make the tables that are opened and scanned, unless they are there."""
    tables = {
        "many": (side.scaled(100_000), 1_000, 0),
        "commits": (side.scaled(5_000), 1, None),
        "huge": (side.scaled(1_000_000), 5_000, 0),
    }
    for name, (files, per_commit, checkpoint) in tables.items():
        if (side.data / f"{name}.done").exists():
            continue
        say(f"making {name}: {files:,} files")
        deltars.make_table(
            side.data / name,
            wire_adds(0, files),
            per_commit=per_commit,
            checkpoint_every=checkpoint,
        )
        table = ours.create_files_table(side.db.lake, name=f"bench.{name}")
        for start in range(0, files, per_commit):
            numbers = range(start, min(files, start + per_commit))
            table.commit([ours.add_file(number) for number in numbers])
        (side.data / f"{name}.done").touch()
    if not (side.data / "rows.done").exists():
        say("making rows")
        rows = side.spark.sql(PARTITIONED.format(side.scaled(20_000_000))).repartition(8)
        rows.write.format("delta").save(side.log("rows"))
        side.db.write(side.spark.read.format("delta").load(side.log("rows")), "bench.rows")
        (side.data / "rows.done").touch()


def main() -> int:
    options = _options()
    # Stopped politely, we stop our server as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.data.mkdir(parents=True, exist_ok=True)
    options.data.chmod(0o755)
    rows: list[Row] = []
    with ExitStack() as stack:
        side, url = _open(options, stack)
        prepare(side)
        tidy(url)
        if not options.prepare:
            for name in options.only or LINES:
                say(f"{name} …")
                for row in LINES[name](side):
                    say(f"{row.name}: ours {row.ours:.3f} s, stock {row.peer:.3f} s")
                    rows.append(row)
    if rows:
        about = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
        report.show(rows, about, Console(width=150))
        report.write_json(options.json, rows, about)
    if not options.keep:
        shutil.rmtree(options.data)
    return 0


def _open(options: argparse.Namespace, stack: ExitStack) -> tuple[Side, str]:
    home = options.data / "postgres"
    home.mkdir(exist_ok=True)
    server = PostgresServer(home)
    port = options.data / "port"
    if port.exists():
        server.port = int(port.read_text())
    port.write_text(str(server.port))
    stack.enter_context(server)
    if not (options.data / "database.done").exists():
        server.create_database("spark")
        server.create_database("written")
        (options.data / "database.done").touch()
    url = server.url("spark")
    spark = deltasql.spark.session(
        "bench",
        master="local[2]",
        jars=spark_part.JARS,
        config={
            "spark.driver.memory": "6g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.local.dir": str(options.data / "local"),
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    )
    stack.callback(spark.stop)
    location = (options.data / "lake").as_uri()
    lake = stack.enter_context(
        deltasql.connect(url, location=location, settings={"mirror.mode": "off"})
    )
    # Where rows are written the mirror is, too: stock Delta writes its log as well.
    other = server.url("written")
    mirrored = stack.enter_context(deltasql.connect(other, location=f"{location}-written"))
    databases = [deltasql.spark.attach(spark, item) for item in (lake, mirrored)]
    return Side(spark, *databases, options.data, options.scale), url


def _faster(
    name: str,
    work: str,
    mine: Callable[[], Any],
    stock: Callable[[], Any],
    *,
    bar: float,
    repeats: int = 5,
    note: str = "",
) -> Row:
    """Median seconds of each, in turn, after one or two rounds that warm the JVM."""
    times: dict[str, list[float]] = {"mine": [], "stock": []}
    warm = 2 if repeats > 3 else 1
    for turn in range(repeats + warm):
        for side, call in (("mine", mine), ("stock", stock)):
            started = time.perf_counter()
            call()
            if turn >= warm:
                times[side].append(time.perf_counter() - started)
    return Row(
        name=name,
        work=work,
        ours=statistics.median(times["mine"]),
        peer=statistics.median(times["stock"]),
        peer_name="Delta Spark",
        unit="s",
        better="less",
        bar=bar,
        note=f"{note}; median of {len(times['mine'])} in turn, warm JVM",
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=LINES, metavar="NAME", help=", ".join(LINES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of files and rows")
    parser.add_argument("--data", type=Path, default=Path("build/bench-spark").absolute())
    parser.add_argument("--prepare", action="store_true", help="make the tables and stop")
    parser.add_argument("--keep", action="store_true", help="leave the tables for another run")
    parser.add_argument("--json", type=Path, default=Path("build/bench-spark.json"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
