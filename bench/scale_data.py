"""Large rows and many partitions: `python -m bench.scale_data --help`."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pyarrow as pa

import deltasql
from bench import command
from bench.lab import Lab, say, timed
from bench.peers import raw_postgres
from bench.report import Row
from deltasql.spec.actions import AddFile

Line = Callable[[Lab], Iterator[Row]]
_GB = 1_000_000_000


def append_plain(lab: Lab) -> Iterator[Row]:
    yield from _append(lab, "plain", partitions=0)


def append_partitioned(lab: Lab) -> Iterator[Row]:
    yield from _append(lab, "partitioned", partitions=100)


def append_to_many(lab: Lab) -> Iterator[Row]:
    """A row for each of very many partitions."""
    count = lab.scaled(100_000, least=1_000)
    answer = _apart(lab, "many", "append_once", "rows", str(count))
    yield from _told(
        "many-partitions",
        f"append {count:,} rows to as many partitions",
        answer,
        note=f"{answer['numFiles']:,} files; SQLite, in a process of its own",
    )


def commit_many(lab: Lab) -> Iterator[Row]:
    count = lab.scaled(200_000, least=10_000)
    answer = _apart(lab, "adds", "append_once", "adds", str(count))
    yield from _told(
        "many-adds",
        f"one commit of {count:,} given adds",
        answer,
        bar=500,
        note="with statistics; SQLite, in a process of its own, which makes the adds as it goes",
    )


def _append(lab: Lab, name: str, *, partitions: int) -> Iterator[Row]:
    size = lab.scaled(3 * _GB, least=200_000_000)
    answer = _apart(lab, name, "append_once", str(size), str(partitions))
    work = f"append a stream of {size / _GB:.1f} GB" + (
        f" to {partitions} partitions" if partitions else ""
    )
    note = f"{answer['numFiles']:,} files; SQLite, in a process of its own"
    yield from _told(name, work, answer, bar=600, note=note)


def _apart(lab: Lab, name: str, module: str, *what: str) -> dict[str, Any]:
    """What a process says that works on an empty lake of its own."""
    folder = lab.folder(name)
    place = [f"sqlite:///{folder}/lake.db", (folder / "lake").as_uri()]
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", *place, *what],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    answer: dict[str, Any] = json.loads(done.stdout)
    shutil.rmtree(folder)
    return answer


def _told(
    name: str, work: str, answer: dict[str, Any], *, bar: float | None = None, note: str
) -> Iterator[Row]:
    yield Row(name=name, work=work, ours=answer["seconds"], unit="s", better="less")
    yield Row(
        name=f"{name}-memory",
        work="… peak memory",
        ours=answer["peak_mb"],
        unit="MB",
        better="less",
        bar=bar,
        note=note,
    )


def prune(lab: Lab) -> Iterator[Row]:
    count = lab.scaled(100_000, least=1_000)
    with lab.database("prune") as url:
        folder = lab.folder("prune")
        with deltasql.connect(url, location=folder.as_uri()) as lake:
            schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
            table = lake.create_table("bench.parts", schema, partition_by=["p"])
            say(f"  adding {count:,} partitions")
            for start in range(0, count, 10_000):
                numbers = range(start, min(start + 10_000, count))
                table.commit([_add(number) for number in numbers])
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("ANALYZE dl_partitions, dl_partition_values, dl_active_files")
            for name, where, found in (
                ("prune-one", f"p = {count // 2}", 1),
                ("prune-range", f"p >= {count // 2} AND p < {count // 2 + 10}", 10),
                ("prune-in", f"p IN (5, {count // 3}, {count - 1}, {count + 7})", 3),
            ):
                if table.snapshot().files(where).num_rows != found:
                    raise RuntimeError(f"the benchmark is wrong: {where}")
                times = [timed(lambda w=where: table.snapshot().files(w)) for _ in range(5)]
                yield Row(
                    name=name,
                    work=f"files of {found} partitions of {count:,}",
                    ours=statistics.median(times) * 1000,
                    unit="ms",
                    better="less",
                    bar=50,
                    note=f"{where}; PostgreSQL, median of 5",
                )


def _add(number: int) -> AddFile:
    return AddFile(
        path=f"p={number}/part-{number}.parquet",
        size=1000,
        modification_time=1,
        partition_values={"p": str(number)},
        stats='{"numRecords":1}',
    )


LINES: dict[str, Line] = {
    "plain": append_plain,
    "partitioned": append_partitioned,
    "many-partitions": append_to_many,
    "many-adds": commit_many,
    "prune": prune,
}


def main() -> int:
    os.environ["DELTASQL_MIRROR_MODE"] = "off"
    return command.run("scale-data", "Large rows and many partitions", LINES, _durability)


def _durability(lab: Lab) -> dict[str, Any]:
    if not lab.has_postgres:
        return {}
    with lab.database("describe") as url:
        return {"PostgreSQL, for all": raw_postgres.settings(url)}


if __name__ == "__main__":
    sys.exit(main())
