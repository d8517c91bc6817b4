"""What the PySpark benchmarks share: a server, one warm session, timing in turn, the options."""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
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

# Rounds that only warm the JVM, where lines are repeated often enough to afford two.
_OFTEN = 3


@dataclass
class SparkLab:
    """One session, a PostgreSQL server whose data stays where it is, and a folder for tables."""

    spark: Any
    server: PostgresServer
    data: Path
    scale: float
    stack: ExitStack
    # The lines of this run.
    wanted: Collection[str] = ()
    _databases: dict[str, deltasql.spark.Database] = field(default_factory=dict)

    def scaled(self, count: int) -> int:
        return max(160, round(count * self.scale))

    def path(self, name: str) -> str:
        """Where a table of stock Delta lies."""
        return str(self.data / name)

    def database(
        self, name: str, settings: Mapping[str, str] | None = None, catalog: str | None = None
    ) -> Any:
        """Our tables in a database that is kept with the data."""
        if name not in self._databases:
            self.once(f"database-{name}", lambda: self.server.create_database(name))
            self._databases[name] = self._attached(name, settings, catalog)
        return self._databases[name]

    def fresh_database(self, name: str, catalog: str | None = None) -> Any:
        """Our tables in a database that each run makes anew, mirror and all."""
        if name not in self._databases:
            self.server.drop_database(name)
            self.server.create_database(name)
            shutil.rmtree(self.data / f"lake-{name}", ignore_errors=True)
            self._databases[name] = self._attached(name, None, catalog)
        return self._databases[name]

    def once(self, name: str, make: Callable[[], Any]) -> None:
        """Do what a later run with the same data finds done."""
        done = self.data / f"{name}.done"
        if not done.exists():
            make()
            done.touch()

    def _attached(
        self, name: str, settings: Mapping[str, str] | None, catalog: str | None
    ) -> deltasql.spark.Database:
        location = (self.data / f"lake-{name}").as_uri()
        lake = deltasql.connect(self.server.url(name), location=location, settings=settings)
        opened = self.stack.enter_context(lake)
        return deltasql.spark.attach(self.spark, opened, name=name, catalog=catalog)


Line = Callable[[SparkLab], Iterator[Row]]


def run(
    name: str, title: str, lines: Mapping[str, Line], prepare: Callable[[SparkLab], None]
) -> int:
    """Run the lines that the command line names, by default all."""
    options = _options(name, title, lines)
    # Stopped politely, we stop our server as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.data.mkdir(parents=True, exist_ok=True)
    options.data.chmod(0o755)
    rows: list[Row] = []
    about = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": options.scale,
        "local files": "Hadoop's own" if options.hadoop_files else "no processes started",
        "machine": machine(),
    }
    with ExitStack() as stack:
        lab = _open(options, stack)
        lab.wanted = options.only or list(lines)
        prepare(lab)
        for line in () if options.prepare else lab.wanted:
            say(f"{line} …")
            for row in lines[line](lab):
                say(f"{row.name}: ours {row.ours:.3f}, stock {row.peer:.3f} {row.unit}")
                rows.append(row)
    if rows:
        report.show(rows, about, Console(width=150), title=title)
        report.write_json(options.json, rows, about)
    if not options.keep:
        shutil.rmtree(options.data)
    return 0


def faster(
    name: str,
    work: str,
    mine: Callable[[], Any],
    stock: Callable[[], Any],
    *,
    bar: float | None,
    repeats: int = 5,
    note: str = "",
    before: Callable[[], Any] = lambda: None,
    peer: str = "Delta Spark",
) -> Row:
    """Median seconds of each, in turn, after one or two rounds that warm the JVM.

    Who is first changes with each round: it compiles what the other then finds compiled. What
    is to be done `before` each round is not timed.
    """
    times: tuple[list[float], list[float]] = ([], [])
    warm = 2 if repeats > _OFTEN else 1
    pairs = list(zip((mine, stock), times, strict=True))
    for turn in range(repeats + warm):
        before()
        for call, taken in pairs if turn % 2 else reversed(pairs):
            started = time.perf_counter()
            call()
            if turn >= warm:
                taken.append(time.perf_counter() - started)
        if turn >= warm:
            say(f"  {name}: ours {times[0][-1]:.2f}, stock {times[1][-1]:.2f} s")
    return Row(
        name=name,
        work=work,
        ours=statistics.median(times[0]),
        peer=statistics.median(times[1]),
        peer_name=peer,
        unit="s",
        better="less",
        bar=bar,
        note=f"{note}; median of {repeats} in turn, warm JVM",
    )


def _open(options: argparse.Namespace, stack: ExitStack) -> SparkLab:
    home = options.data / "postgres"
    home.mkdir(exist_ok=True)
    server = PostgresServer(home)
    port = options.data / "port"
    if port.exists():
        server.port = int(port.read_text())
    port.write_text(str(server.port))
    stack.enter_context(server)
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
            **({} if options.hadoop_files else spark_part.local_files()),
        },
    )
    stack.callback(spark.stop)
    return SparkLab(spark, server, options.data, options.scale, stack)


def _options(name: str, title: str, lines: Mapping[str, Line]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=title)
    build = Path("build").absolute()
    place = f"bench-{name.replace('_', '-')}"
    parser.add_argument("--only", nargs="+", choices=lines, metavar="NAME", help=", ".join(lines))
    parser.add_argument("--scale", type=float, default=1.0, help="share of files and rows")
    parser.add_argument("--data", type=Path, default=build / place)
    parser.add_argument("--prepare", action="store_true", help="make the tables and stop")
    parser.add_argument("--keep", action="store_true", help="leave the tables for another run")
    parser.add_argument(
        "--hadoop-files",
        action="store_true",
        help="Hadoop's own local file system, which starts a process for each file",
    )
    parser.add_argument("--json", type=Path, default=build / f"{place}.json")
    return parser.parse_args()
