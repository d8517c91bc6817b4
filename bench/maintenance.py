"""Upkeep of tables beside delta-rs: `python -m bench.maintenance --help`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from rich.console import Console

import deltasql
from bench import lab as labs
from bench import report
from bench.lab import Lab, say
from bench.lines import upkeep
from bench.report import Row
from deltasql.lake import writing
from deltasql.lake.table import Table
from deltasql.spec import codec

Line = Callable[[Lab], Iterator[Row]]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
ROWS = 100


def _rows(number: int, count: int = ROWS) -> pa.Table:
    ids = range(number * count, number * count + count)
    names = [f"customer {value % 97}" for value in ids]
    return pa.table([list(ids), names, [value / 3 for value in ids]], schema=SCHEMA)


def _small_files(lake: deltasql.Lake, count: int, **properties: str) -> Table:
    table = lake.create_table("bench.t", SCHEMA, properties=properties)
    metadata = table.snapshot().metadata
    adds = [
        add
        for number in range(count)
        for add in writing.write_rows(table.objects, metadata, _rows(number))
    ]
    table.commit(adds)
    return table


def _plain_copy(table: Table, folder: Path) -> Path:
    """The same files as a plain Delta table, that delta-rs may write."""
    source = Path(urlsplit(table.location).path)
    shutil.copytree(source, folder, ignore=lambda _d, _n: ["_delta_log"])
    log = folder / "_delta_log"
    log.mkdir()
    snapshot = table.snapshot()
    metadata = {
        "id": snapshot.metadata.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": snapshot.metadata.schema_string,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_770_000_000_000,
    }
    first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    commits = [first, [codec.to_wire(add) for add in snapshot.adds()]]
    for number, actions in enumerate(commits):
        lines = b"".join(orjson.dumps(action) + b"\n" for action in actions)
        (log / f"{number:020d}.json").write_bytes(lines)
    return folder


def compact(lab: Lab) -> Iterator[Row]:
    count, ours, theirs = lab.scaled(10_000, least=100), [], []
    for number in range(2):
        with lab.database(f"compact_{number}") as url:
            folder = lab.folder("compact")
            with deltasql.connect(url, location=str(folder / "lake")) as lake:
                table = _small_files(lake, count)
                plain = _plain_copy(table, folder / "plain")
                lab.settle()
                ours.append(labs.timed(table.optimize))
                theirs.append(labs.timed(lambda at=plain: DeltaTable(at).optimize.compact()))
                found = table.scan().to_arrow().num_rows
                if found != count * ROWS or table.snapshot().files().num_rows != 1:
                    raise RuntimeError(f"{found} rows after optimize")
            shutil.rmtree(folder)
    yield Row(
        name="compact",
        work=f"compact {count:,} files of {ROWS} rows",
        ours=min(ours),
        unit="s",
        peer=min(theirs),
        peer_name="delta-rs",
        better="less",
        note="better of two, each on files and a database of its own",
    )


def vacuum(lab: Lab) -> Iterator[Row]:
    count = lab.scaled(100_000, least=100)
    dead = count // 10
    with lab.database("vacuum") as url:
        folder = lab.folder("vacuum")
        with deltasql.connect(url, location=str(folder / "lake")) as lake:
            table = lake.create_table("bench.t", SCHEMA)
            (add,) = writing.write_rows(table.objects, table.snapshot().metadata, _rows(0))
            place = Path(urlsplit(table.location).path)
            names = [f"part-{number:07d}.parquet" for number in range(count)]
            for name in names:
                os.link(place / add.path, place / name)
            wire = codec.to_wire(add)["add"]
            table.commit([{"add": {**wire, "path": name}} for name in names])
            plain = _plain_copy(table, folder / "plain")
            removes = [
                {"path": name, "deletionTimestamp": 1_770_000_000_000, "dataChange": True}
                for name in names[:dead]
            ]
            table.commit([{"remove": item} for item in removes])
            lines = b"".join(orjson.dumps({"remove": item}) + b"\n" for item in removes)
            (plain / "_delta_log" / f"{2:020d}.json").write_bytes(lines)

            def ours() -> int:
                at_once = {"retention": timedelta(0), "enforce_retention_duration": False}
                return table.vacuum(**at_once, find_orphans=False).count

            def theirs() -> int:
                found = DeltaTable(plain).vacuum(0, dry_run=True, enforce_retention_duration=False)
                return len(found)

            time.sleep(0.1)
            if ours() != dead:
                raise RuntimeError(f"{ours()} files, and not {dead}, are dead")
            times = labs.alternated(ours, theirs, repeats=3)
        shutil.rmtree(folder)
    yield Row(
        name="vacuum",
        work=f"dry run of a vacuum, {dead:,} of {count:,} files dead",
        ours=times[0],
        unit="s",
        peer=times[1],
        peer_name="delta-rs",
        better="less",
        note="dead files alone: nothing is listed; delta-rs opens the table and lists its folder",
    )


def beside(lab: Lab) -> Iterator[Row]:
    tries, alone, met, aborted = lab.scaled(50, least=5), [], [], 0
    with lab.database("beside") as url:
        folder = lab.folder("beside")
        with deltasql.connect(url, location=str(folder / "lake")) as lake:
            vectors = {"delta.enableDeletionVectors": "true"}
            table = _small_files(lake, 20, **vectors)
            key = 0
            for number in range(2 * tries):
                table.append(_rows(1000 + 2 * number, 5))
                table.append(_rows(1001 + 2 * number, 5))
                is_met, key = bool(number % 2), key + 7
                snapshot, started = table.snapshot(), time.perf_counter()
                write = writing.overwrite(
                    table.objects, snapshot, _rows(key, 1), where=f"id = {key}"
                )
                taken = time.perf_counter() - started
                if is_met and not table.optimize().versions:
                    raise RuntimeError("there was nothing to compact")
                started = time.perf_counter()
                try:
                    table.commit_write(write)
                except deltasql.CommitError:
                    aborted += 1
                (met if is_met else alone).append(taken + time.perf_counter() - started)
        shutil.rmtree(folder)
    yield Row(
        name="beside",
        work=f"overwrites of a row that meet a compaction, {tries} tries",
        ours=statistics.median(met),
        unit="s",
        peer=statistics.median(alone),
        peer_name="alone",
        better="less",
        bar=1.3,
        note="from reading to the end of the commit; every other one meets a compaction",
    )
    yield Row(name="aborts", work="… of them aborted", ours=aborted, unit="", better="less", bar=0)


LINES: dict[str, Line] = {
    "compact": compact,
    "vacuum": vacuum,
    "beside": beside,
    "merges": upkeep.merges,
    "churn": upkeep.churn,
    "held": upkeep.held,
}


def main() -> int:
    options = _options()
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[Row] = []
    with labs.open_lab(options.scale) as lab:
        about = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "scale": options.scale,
            "machine": labs.machine(),
            "versions": {"deltasql": deltasql.__version__, "deltalake": version("deltalake")},
        }
        for name in options.only or LINES:
            say(f"{name} …")
            started = time.monotonic()
            rows.extend(LINES[name](lab))
            say(f"{name}: {time.monotonic() - started:.0f} s")
    console = Console() if sys.stdout.isatty() else Console(width=150)
    report.show(rows, about, console, title="Upkeep")
    report.write_json(options.json, rows, about)
    print(f"written to {options.json}", file=sys.stderr)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.maintenance", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=LINES, metavar="NAME", help=", ".join(LINES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of files and tries")
    parser.add_argument("--json", type=Path, default=Path("build/bench-maintenance.json"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
