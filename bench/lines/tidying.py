"""Optimize and vacuum beside delta-rs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from deltalake import DeltaTable

import deltasql
from bench import small_files
from bench.lab import Lab, alternated, timed
from bench.report import Row

AT_ONCE: dict[str, Any] = {"retention": timedelta(0), "enforce_retention_duration": False}


def compact(lab: Lab) -> Iterator[Row]:
    count, ours, theirs = lab.scaled(10_000, least=100), [], []
    for number in range(2):
        with lab.database(f"compact_{number}") as url:
            folder = lab.folder("compact")
            with deltasql.connect(url, location=str(folder / "lake")) as lake:
                table = small_files.make(lake, "bench.t", count)
                plain = small_files.plain_copy(table, folder / "plain")
                lab.settle()
                ours.append(timed(table.optimize))
                theirs.append(timed(lambda at=plain: DeltaTable(at).optimize.compact()))
                found = table.scan().to_arrow().num_rows
                if found != count * small_files.ROWS or table.snapshot().files().num_rows != 1:
                    raise RuntimeError(f"{found} rows after optimize")
            shutil.rmtree(folder)
    yield Row(
        name="compact",
        work=f"compact {count:,} files of {small_files.ROWS} rows",
        ours=min(ours),
        unit="s",
        peer=min(theirs),
        peer_name="delta-rs",
        better="less",
        note="better of two, each on files and a database of its own",
    )


def vacuum(lab: Lab) -> Iterator[Row]:
    count = lab.scaled(100_000, least=100)
    with lab.database("vacuum") as url:
        folder = lab.folder("vacuum")
        with deltasql.connect(url, location=str(folder / "lake")) as lake:
            table = small_files.make(lake, "bench.t", count)
            plain = small_files.plain_copy(table, folder / "plain")
            dead = small_files.remove(table, plain, count // 10)

            def ours() -> int:
                return table.vacuum(**AT_ONCE, find_orphans=False).count

            def theirs() -> int:
                found = DeltaTable(plain).vacuum(0, dry_run=True, enforce_retention_duration=False)
                return len(found)

            time.sleep(0.1)
            if ours() != dead:
                raise RuntimeError(f"{ours()} files, and not {dead}, are dead")
            times = alternated(ours, theirs, repeats=3)
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
