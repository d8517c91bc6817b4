"""Merges, deletes and streams beside stock Delta Spark: `python -m bench.spark_dml --help`.

One run, one warm JVM, the same rows on both sides, deletion vectors off. Ours is on PostgreSQL
and writes its mirror, too; stock Delta has its log cached.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import threading
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
from bench import report
from bench.lab import machine, say
from bench.report import Row
from tests.parts import spark as spark_part
from tests.parts.postgres import PostgresServer

ROWS = (
    "SELECT id, cast(id * 16 DIV {0} AS int) AS p, id * 1.5D AS v, concat('n', id % 1000) AS n "
    "FROM range({0})"
)
BATCHES = 100
WARM = 10


@dataclass
class Side:
    """Both sides of the comparison, and where their tables are."""

    spark: Any
    db: deltasql.spark.Database
    data: Path
    scale: float

    def scaled(self, count: int) -> int:
        return max(160, round(count * self.scale))

    def path(self, name: str) -> str:
        return str(self.data / name)


def prepare(side: Side) -> None:
    """Make the tables that are changed, unless they are there."""
    # The second has one task, and so one file, for each thousandth of the keys.
    made = {
        "merged": (ROWS.format(side.scaled(10_000_000)), "p"),
        "keyed": (f"SELECT id, id % 7 AS v FROM range(0, {side.scaled(1_000_000)}, 1, 1000)", ()),
    }
    for name, (text, by) in made.items():
        if (side.data / f"{name}.done").exists():
            continue
        say(f"making {name}")
        frame = side.spark.sql(text)
        frame.write.format("delta").partitionBy(*by).save(side.path(name))
        side.db.write(frame, f"bench.{name}", partition_by=by)
        (side.data / f"{name}.done").touch()


def merge(side: Side) -> Iterator[Row]:
    """A tenth of the table's rows, of which a hundredth is there, all in one partition."""
    total, size = side.scaled(10_000_000), side.scaled(1_000_000)
    per_partition, known = total // 16, size // 100
    round_of = {"mine": 0, "stock": 0}

    def source(who: str) -> Any:
        # New keys each time, so that a hundredth is there each time.
        first = total + 10 * size + round_of[who] * size
        round_of[who] += 1
        old = f"SELECT {3 * per_partition} + id AS id FROM range({known})"
        new = f"SELECT {first} + id AS id FROM range({size - known})"
        return side.spark.sql(
            f"SELECT id, 3 AS p, 0.5D AS v, 'm' AS n FROM ({old} UNION ALL {new})"
        )

    on = "t.p = s.p AND t.id = s.id"

    def mine() -> None:
        builder = side.db.table("bench.merged").alias("t").merge(source("mine").alias("s"), on)
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def stock() -> None:
        source("stock").createOrReplaceTempView("updates")
        side.spark.sql(
            f"MERGE INTO delta.`{side.path('merged')}` t USING updates s ON {on} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    yield _faster(
        "merge",
        f"merge {size:,} rows into {total:,}, 1 % matched, 1 of 16 partitions",
        mine, stock, bar=1 / 1.2, repeats=3,
        note="keys and partition by the condition, none named by a literal",
    )  # fmt: skip


def delete(side: Side) -> Iterator[Row]:
    plain = f"delta.`{side.path('keyed')}`"
    step = side.scaled(1_000_000) // 1000
    keys = iter(range(step // 2, side.scaled(1_000_000), step * 7 + 1))
    others = iter(range(step // 2, side.scaled(1_000_000), step * 7 + 1))
    yield _faster(
        "delete",
        "delete one key in a table of 1,000 files",
        lambda: side.db.table("bench.keyed").delete(f"id = {next(keys)}"),
        lambda: side.spark.sql(f"DELETE FROM {plain} WHERE id = {next(others)}"),
        bar=0.5, repeats=3,
        note="each key in one file, found by its stats; another key each time",
    )  # fmt: skip


def stream(side: Side) -> Iterator[Row]:
    def stock() -> Callable[[Any, int], None]:
        path = side.path(f"stream-{uuid.uuid4().hex}")

        def run(frame: Any, batch: int) -> None:
            writer = frame.write.format("delta").mode("append")
            writer.option("txnAppId", "bench").option("txnVersion", batch).save(path)

        return run

    rates: dict[str, list[float]] = {"mine": [], "stock": []}
    for _ in range(2):
        rates["stock"].append(_rate(side, stock()))
        rates["mine"].append(_rate(side, side.db.sink(f"bench.s{uuid.uuid4().hex}")))
    yield Row(
        name="stream",
        work=f"{BATCHES} micro-batches of 1,000 rows, foreachBatch",
        ours=max(rates["mine"]),
        peer=max(rates["stock"]),
        peer_name="Delta Spark",
        unit="batches/s",
        better="more",
        bar=1.5,
        note=f"after {WARM} to warm up, the better of 2 in turn; txn on both sides",
    )


def _rate(side: Side, sink: Callable[[Any, int], None]) -> float:
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

    source = side.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
    frame = source.option("numPartitions", 1).load().selectExpr("value AS id", "timestamp AS at")
    checkpoint = side.path(f"checkpoint-{uuid.uuid4().hex}")
    query = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(run)
    running = query.trigger(processingTime="0 seconds").start()
    finished.wait(600)
    running.stop()
    return BATCHES / (started[1] - started[0])


LINES: dict[str, Callable[[Side], Iterator[Row]]] = {
    "merge": merge,
    "delete": delete,
    "stream": stream,
}


def main() -> int:
    options = _options()
    # Stopped politely, we stop our server as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.data.mkdir(parents=True, exist_ok=True)
    options.data.chmod(0o755)
    rows: list[Row] = []
    with ExitStack() as stack:
        side = _open(options, stack)
        prepare(side)
        if not options.prepare:
            for name in options.only or LINES:
                say(f"{name} …")
                rows.extend(LINES[name](side))
    if rows:
        about = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
        report.show(rows, about, Console(width=150), title="Merges, deletes and streams in Spark")
        report.write_json(options.json, rows, about)
    if not options.keep:
        shutil.rmtree(options.data)
    return 0


def _open(options: argparse.Namespace, stack: ExitStack) -> Side:
    home = options.data / "postgres"
    home.mkdir(exist_ok=True)
    server = PostgresServer(home)
    port = options.data / "port"
    if port.exists():
        server.port = int(port.read_text())
    port.write_text(str(server.port))
    stack.enter_context(server)
    if not (options.data / "database.done").exists():
        server.create_database("dml")
        (options.data / "database.done").touch()
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
    lake = stack.enter_context(deltasql.connect(server.url("dml"), location=location))
    return Side(spark, deltasql.spark.attach(spark, lake), options.data, options.scale)


def _faster(
    name: str,
    work: str,
    mine: Callable[[], Any],
    stock: Callable[[], Any],
    *,
    bar: float,
    repeats: int,
    note: str,
) -> Row:
    """Median seconds of each, in turn, after one round to warm the JVM."""
    times: dict[str, list[float]] = {"mine": [], "stock": []}
    for turn in range(repeats + 1):
        for side, call in (("mine", mine), ("stock", stock)):
            started = time.perf_counter()
            call()
            took = time.perf_counter() - started
            say(f"{name}, {side}: {took:.2f} s{'' if turn else ', cold'}")
            if turn:
                times[side].append(took)
    return Row(
        name=name,
        work=work,
        ours=statistics.median(times["mine"]),
        peer=statistics.median(times["stock"]),
        peer_name="Delta Spark",
        unit="s",
        better="less",
        bar=bar,
        note=f"{note}; median of {repeats} in turn, warm JVM",
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_dml", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=LINES, metavar="NAME", help=", ".join(LINES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of rows")
    parser.add_argument("--data", type=Path, default=Path("build/bench-spark-dml").absolute())
    parser.add_argument("--prepare", action="store_true", help="make the tables and stop")
    parser.add_argument("--keep", action="store_true", help="leave the tables for another run")
    parser.add_argument("--json", type=Path, default=Path("build/bench-spark-dml.json"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
