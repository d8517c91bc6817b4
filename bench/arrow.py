"""Rows written, changed and read from Python, beside delta-rs and DuckDB on the same files.

Each measurement is a process of its own on a copy of the tables, which tells its time and its
peak memory; what the sides leave is compared. Sides take turns; the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from bench.peak import peak_mb
from bench.report import Row, show, write_json

ROWS, FILES, TOUCHED = 10_000_000, 100, 10
PARTS = 10
Work = tuple[Callable[[], Any], Callable[[], int]]


def rows(start: int, count: int, part: int = 0) -> pa.Table:
    """Rows with ascending keys, a number, a text and one of ten parts."""
    ids = pa.arange(start, start + count)
    parts = pa.repeat(pa.scalar(part % PARTS, pa.int32()), count)
    numbers = pc.multiply(ids.cast(pa.float64()), 0.5)
    texts = pc.binary_join_element_wise("row", ids.cast(pa.string()), "-")
    return pa.table({"id": ids, "part": parts, "n": numbers, "s": texts})


def source(work: str, total: int, files: int) -> pa.Table:
    """Keys of some files, with other numbers, and a tenth of new ones."""
    keys, touched = (total // 10, files) if work == "merge-large" else (total // 100, TOUCHED)
    each, size = keys // touched, total // files
    numbers = range(0, files, max(1, files // touched))
    picked = [rows(number * size, each * 9 // 10, number) for number in numbers]
    new = rows(total, each * len(numbers) // 10)
    found = pa.concat_tables([*picked, new])
    return found.set_column(2, "n", pc.multiply(found.column("n"), 2.0))


# --- ours and theirs ----------------------------------------------------------------------


def _open(place: Path) -> Any:
    import deltasql

    url = f"sqlite:///{place / 'lake.db'}"
    return deltasql.connect(
        url, location=(place / "lake").as_uri(), settings={"mirror.mode": "off"}
    )


@contextmanager
def ours(work: str, place: Path, total: int, files: int) -> Iterator[Work]:
    """Ours: what to do, and how many rows there are then."""
    # Our engine for expressions, and local files; delta-rs' come with its import.
    import duckdb  # noqa: F401

    import deltasql.objectstore.local  # noqa: F401

    given = source(work, total, files)
    with _open(place) as lake:
        table = lake.table("rows")
        fresh = lake.create_table("fresh", given.schema) if work == "append" else table
        everything = rows(0, total) if work == "append" else given

        def merge() -> Any:
            merge = table.merge(given, "target.id = source.id")
            return merge.when_matched_update_all().when_not_matched_insert_all().execute()

        def scan() -> Any:
            return table.scan(where="part = 3", columns=["id", "n", "s"]).to_arrow()

        works = {
            "merge": merge,
            "merge-large": merge,
            "delete": lambda: table.delete(f"id = {total // 2}"),
            "update": lambda: table.update("id % 100 = 0", {"n": "n + 1"}),
            "scan": scan,
            "append": lambda: fresh.append(everything),
        }
        yield works[work], lambda: fresh.scan(columns=["id"]).to_arrow().num_rows


@contextmanager
def theirs(work: str, place: Path, total: int, files: int) -> Iterator[Work]:
    """The same of delta-rs."""
    import deltalake
    import pyarrow.dataset as ds

    given = source(work, total, files)
    path = str(place / ("fresh" if work == "append" else "plain"))
    everything = rows(0, total) if work == "append" else given

    def merge() -> Any:
        aliases = {"source_alias": "source", "target_alias": "target"}
        merge = deltalake.DeltaTable(path).merge(given, "target.id = source.id", **aliases)
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def update() -> Any:
        table = deltalake.DeltaTable(path)
        return table.update(predicate="id % 100 = 0", updates={"n": "n + 1"})

    def scan() -> Any:
        found = deltalake.DeltaTable(path).to_pyarrow_dataset()
        return found.to_table(columns=["id", "n", "s"], filter=ds.field("part") == 3)

    works = {
        "merge": merge,
        "delete": lambda: deltalake.DeltaTable(path).delete(f"id = {total // 2}"),
        "update": update,
        "scan": scan,
        "append": lambda: deltalake.write_deltalake(path, everything),
    }
    yield works[work], lambda: deltalake.DeltaTable(path).to_pyarrow_dataset().count_rows()


@contextmanager
def duck(work: str, place: Path, total: int, files: int) -> Iterator[Work]:  # noqa: ARG001
    """DuckDB's scan."""
    import duckdb
    from duckdb_extensions import import_extension

    import_extension("delta")
    with duckdb.connect() as connection:
        connection.execute("LOAD delta")
        question = "SELECT id, n, s FROM delta_scan(?) WHERE part = 3"
        plain = [str(place / "plain")]
        yield lambda: connection.execute(question, plain).to_arrow_table(), lambda: 0


def prepare(place: Path, total: int, files: int) -> None:
    """The same files on both sides: delta-rs writes them, and ours adopts a copy."""
    import deltalake

    size = total // files
    for number in range(files):
        part = rows(number * size, size, number)
        deltalake.write_deltalake(str(place / "plain"), part, mode="append", partition_by=["part"])
    with _open(place) as lake:
        table = lake.create_table(
            "rows",
            rows(0, 1).schema,
            partition_by=["part"],
            properties={"delta.enableDeletionVectors": "true"},
        )
        logged = _logged(place / "plain" / "_delta_log")
        for path in logged:
            target = place / "lake" / "rows" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place / "plain" / path, target)
        table.commit([{"add": add} for add in logged.values()])


def _logged(log: Path) -> dict[str, Any]:
    found = {}
    for file in log.glob("*.json"):
        for line in file.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                found[action["add"]["path"]] = action["add"]
    return found


# --- running ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """How much faster than the peer, and with how much of its memory."""

    peer: str
    speed: float
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """What is measured, and against whom; `limit` is in bytes, and the process may not pass it."""

    text: str
    bars: tuple[Bar, ...] = ()
    limit: int | None = None


LINES: dict[str, Line] = {
    "merge": Line("merge of 1 % of the rows, keys in 10 files", (Bar("delta-rs", 2.0, 0.5),)),
    "merge-large": Line("merge of 10 % of the rows, keys in all files", limit=2 * 10**9),
    "delete": Line("delete of one row", (Bar("delta-rs", 5.0),)),
    "update": Line("update of 1 % of the rows", (Bar("delta-rs", 1.2),)),
    "scan": Line(
        "three columns of one partition of ten", (Bar("delta-rs", 1.0), Bar("DuckDB", 0.8))
    ),
    "append": Line("append of all rows", (Bar("delta-rs", 1.0),)),
}
SIDES = {"ours": ours, "delta-rs": theirs, "DuckDB": duck}
Answers = dict[str, dict[str, float]]


def measure(side: str, work: str, base: Path, total: int, files: int) -> dict[str, float]:
    """One work in a process of its own, on a copy."""
    with tempfile.TemporaryDirectory(prefix="deltasql-bench-") as folder:
        place = Path(folder) / "copy"
        shutil.copytree(base, place)
        # The lake knows its tables by their place.
        _move(place, base)
        command = [sys.executable, "-m", "bench.arrow", "--run", side, work, str(place)]
        command += ["--rows", str(total), "--files", str(files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{side} {work}: {done.stderr[-2000:]}")
        answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return answer


def _move(place: Path, base: Path) -> None:
    import sqlite3

    with sqlite3.connect(place / "lake.db") as database:
        database.execute(
            "UPDATE dl_tables SET location = replace(location, ?, ?)", (str(base), str(place))
        )


def compare(base: Path, work: str, total: int, files: int, rounds: int) -> list[Row]:
    line = LINES[work]
    sides = ["ours", *(bar.peer for bar in line.bars)]
    taken = [
        {side: measure(side, work, base, total, files) for side in sides} for _ in range(rounds)
    ]
    if len(left := {answer["rows"] for round_ in taken for answer in round_.values()}) > 1:
        raise RuntimeError(f"{work}: the sides have {sorted(left)} rows")
    medians: Answers = {
        side: {
            key: statistics.median(round_[side][key] for round_ in taken)
            for key in ("seconds", "cpu", "peak_mb", "before_mb")
        }
        for side in sides
    }
    return list(_compared(work, line, medians))


def _compared(work: str, line: Line, found: Answers) -> Iterator[Row]:
    mine = found["ours"]
    limit = None if line.limit is None else line.limit / 1e6
    for bar in line.bars:
        other = found[bar.peer]
        name = work if bar is line.bars[0] else f"{work}-{bar.peer.lower()}"
        yield Row(
            name=name, work=line.text, ours=1 / mine["seconds"], unit="1/s",
            peer=1 / other["seconds"], peer_name=bar.peer, better="more", bar=bar.speed,
            note=f"{_times(mine)}, {bar.peer} {_times(other)}",
        )  # fmt: skip
        yield Row(
            name=f"{name}-memory", work=line.text, ours=mine["peak_mb"], unit="MB",
            peer=other["peak_mb"], peer_name=bar.peer, better="less", bar=bar.memory,
            note=f"before it {mine['before_mb']:.0f} MB, {bar.peer} {other['before_mb']:.0f} MB",
        )  # fmt: skip
    if limit is not None:
        yield Row(
            name=f"{work}-memory", work=line.text, ours=mine["peak_mb"], unit="MB",
            better="less", bar=limit,
            note=f"{_times(mine)}, before it {mine['before_mb']:.0f} MB; "
            f"the process may have {limit:.0f} MB of data",
        )  # fmt: skip


def _times(found: dict[str, float]) -> str:
    """What a busy machine changes, and what it hardly does."""
    return f"{found['seconds']:.2f} s ({found['cpu']:.2f} s of CPU)"


def run(side: str, work: str, place: Path, total: int, files: int) -> None:
    """In a process of its own: what was imported and made beforehand does not count."""
    if (limit := LINES[work].limit) is not None:
        # What is mapped and shared, such as libraries, is not data.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with SIDES[side](work, place, total, files) as (do, count):
        before, worked = peak_mb(), time.process_time()
        began = time.perf_counter()
        found = do()
        seconds, peak = time.perf_counter() - began, peak_mb()
        worked = time.process_time() - worked
        left = found.num_rows if work == "scan" else count()
    told = {"seconds": seconds, "cpu": worked, "peak_mb": peak, "before_mb": before, "rows": left}
    print(json.dumps(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(LINES), default=list(LINES))
    parser.add_argument("--data", type=Path, help="where the tables are made, once, and stay")
    parser.add_argument("--json", type=Path, default=Path("build/bench-arrow.json"))
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        side, work, place = given.run
        run(side, work, Path(place), given.rows, given.files)
        sys.stdout.flush()
        # What is measured is told; delta-rs' threads may crash an interpreter that ends.
        os._exit(0)
    with tempfile.TemporaryDirectory(prefix="deltasql-bench-") as folder:
        base = (given.data or Path(folder)) / f"{given.rows}-{given.files}"
        if not base.exists():
            base.mkdir(parents=True)
            prepare(base, given.rows, given.files)
        found = [
            row
            for work in given.only
            for row in compare(base, work, given.rows, given.files, given.rounds)
        ]
    about = {"rows": given.rows, "files": given.files, "rounds": given.rounds, "load": _load()}
    show(found, about, Console(), title="Rows from Python")
    write_json(given.json, found, about)


def _load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


if __name__ == "__main__":
    main()
