"""A pipeline in one screen: ingest, one transaction over two tables, time travel, a stream that is
killed and goes on, and the mirror read by three stock readers. Run by `make demo`."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import polars as pl
from duckdb_extensions import import_extension
from rich.console import Console
from rich.table import Table as Grid

import deltasql
import deltasql.spark

console = Console()
QUIET = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A demo is over before the second compiler has paid.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}


def main() -> None:
    started = time.monotonic()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="deltasql-demo-") as folder:
        os.chdir(folder)
        console.rule("[bold]deltasql: Delta tables whose log is a SQL database, from PySpark")
        spark = deltasql.spark.session("demo", master="local[2]", config=QUIET)
        with deltasql.connect("sqlite:///lake.db", committer="demo") as lake:
            run(spark, deltasql.spark.attach(spark, lake), lake)
        spark.stop()
    console.print(f"[dim]{time.monotonic() - started:.0f} seconds, Spark's start included[/]")


def run(spark, db: deltasql.spark.Database, lake: deltasql.Lake) -> None:
    days = "date_add(DATE'2026-11-01', cast(id % 3 AS int)) AS day"
    orders = spark.range(30_000).selectExpr("id", "'customer ' || id % 100 AS customer", days)
    lines = spark.range(90_000).selectExpr(
        "id % 30000 AS order_id", "cast(id % 97 AS double) AS amount"
    )
    db.write(orders, "sales.orders", partition_by="day")
    db.write(lines, "sales.lines")
    counts = [db.read(f"sales.{name}").count() for name in ("orders", "lines")]
    say(1, f"ingested {counts[0]:,} orders and {counts[1]:,} lines")

    with db.transaction() as tx:
        late = tx.read("sales.orders", where="day = '2026-11-03' AND id < 300")
        tx.write(late.selectExpr("id + 1000000 AS id", "customer", "day"), "sales.orders")
        tx.write(late.selectExpr("id + 1000000 AS order_id", "9.5D AS amount"), "sales.lines")
    say(2, f"one transaction over both tables: {dict(tx.versions)}")

    try:
        with db.transaction() as tx:
            tx.write(orders.limit(1), "sales.orders", mode="overwrite")
            raise RuntimeError("the job dies half way")
    except RuntimeError as error:
        say(3, f"{error}: orders stay at version {lake.table('sales.orders').version}")

    before = db.read("sales.orders", version=0).count()
    say(4, f"time travel: {before:,} orders at version 0, {db.read('sales.orders').count():,} now")

    db.register_views("sales")
    joined = "SELECT count(*) n, sum(amount) s FROM orders JOIN lines ON orders.id = order_id"
    say(5, f"a join in SQL: {spark.sql(joined).collect()[0].asDict()}")

    # A driver of its own, so that it can die; this one goes on from its checkpoint.
    child = [sys.executable, str(Path(__file__)), "stream"]
    killed = subprocess.run(child, stderr=subprocess.DEVNULL, check=False).returncode == -9
    before = db.read("mart.orders").count()
    stream(db)
    streamed = db.read("mart.orders").count()
    counted = db.read("mart.days").selectExpr("sum(orders)").collect()[0][0]
    if not (killed and before < streamed == counted == db.read("sales.orders").count()):
        raise SystemExit("the stream lost or doubled rows")
    say(6, f"a stream into two tables, killed (kill -9) at {before:,} orders and started again:")
    say(" ", f"{streamed:,} orders in one, counted {counted:,} in the other; none lost or doubled")

    lake.mirror.run(once=True)
    compare(spark, db, lake)


def stream(db: deltasql.spark.Database, dies_in: int | None = None) -> None:
    """Orders into a copy and into counts by day, both in one transaction a batch."""
    both = db.sink(
        {
            "mart.orders": None,
            "mart.days": lambda batch: batch.groupBy("day").count().toDF("day", "orders"),
        }
    )

    def batch_or_death(batch, number):
        both(batch, number)
        if number == dies_in:
            # After the commit, before Spark has noted it: the worst moment.
            os.kill(os.getpid(), signal.SIGKILL)

    rows = db.stream("sales.orders", max_files_per_trigger=3)
    writer = rows.writeStream.option("checkpointLocation", str(Path("checkpoint").absolute()))
    writer.foreachBatch(batch_or_death).trigger(availableNow=True).start().awaitTermination()


def stream_and_die() -> None:
    spark = deltasql.spark.session("stream", master="local[2]", config=QUIET)
    with deltasql.connect("sqlite:///lake.db") as lake:
        stream(deltasql.spark.attach(spark, lake), dies_in=0)


def compare(spark, db: deltasql.spark.Database, lake: deltasql.Lake) -> None:
    """The mirror is plain Delta: stock readers find in it what SQL has."""
    import_extension("delta")
    duck = duckdb.connect()
    duck.execute("LOAD delta")
    grid = Grid(title="rows and sums of the mirror", title_justify="left")
    for heading in ("reader", "orders", "lines", "sum of amounts"):
        grid.add_column(heading, justify="left" if heading == "reader" else "right")
    paths = {
        name: urlsplit(lake.table(f"sales.{name}").location).path for name in ("orders", "lines")
    }
    found = {
        "deltasql, from SQL": [db.read("sales.orders").count(), *total(db.read("sales.lines"))],
        "Delta Spark": [
            spark.read.format("delta").load(paths["orders"]).count(),
            *total(spark.read.format("delta").load(paths["lines"])),
        ],
        "DuckDB": [
            duck.execute("SELECT count(*) FROM delta_scan(?)", [paths["orders"]]).fetchone()[0],
            *duck.execute(
                "SELECT count(*), sum(amount) FROM delta_scan(?)", [paths["lines"]]
            ).fetchone(),
        ],
        "Polars": [
            pl.scan_delta(paths["orders"]).select(pl.len()).collect().item(),
            *pl.scan_delta(paths["lines"])
            .select(pl.len(), pl.col("amount").sum())
            .collect()
            .row(0),
        ],
    }
    for reader, figures in found.items():
        grid.add_row(
            reader,
            *(
                f"{figure:,.1f}" if isinstance(figure, float) else f"{figure:,}"
                for figure in figures
            ),
        )
    console.print(grid)
    rounded = {tuple(round(float(figure), 6) for figure in figures) for figures in found.values()}
    if len(rounded) != 1:
        raise SystemExit("the readers disagree")
    console.print("[green]all four agree[/]")


def total(frame) -> list[float]:
    row = frame.selectExpr("count(*) AS n", "sum(amount) AS s").collect()[0]
    return [row.n, float(row.s)]


def say(step: int | str, text: str) -> None:
    console.print(f"[bold]{step}[/] {text}", highlight=False)


if __name__ == "__main__":
    stream_and_die() if sys.argv[1:] == ["stream"] else main()
