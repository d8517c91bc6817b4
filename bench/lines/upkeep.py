"""Writers beside upkeep: merges that meet compactions, tables after churn, appends with pins."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from itertools import count, islice
from typing import Any

import psycopg
import pyarrow as pa

import deltasql
from bench.beside import TABLE, Beside
from bench.churn import PROPERTIES as CHURNED
from bench.churn import WRITERS, Stretch, stretches
from bench.lab import Lab, alternated, say, timed
from bench.report import Row
from deltasql.lake.table import Table
from deltasql.spec import codec

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
# How many merges in a row are alone, or not.
_MERGES = 5
OLD, NEW = "bench.old", "bench.new"
# How often a churned table is vacuumed and its versions expire.
_STRETCHES = 20
VECTORS = {"delta.enableDeletionVectors": "true"}


def _rows(*ids: int) -> pa.Table:
    return pa.table([list(ids), ["n"] * len(ids), [0.5] * len(ids)], schema=SCHEMA)


def merges(lab: Lab) -> Iterator[Row]:
    """Five merges alone and five beside a process that compacts all the time, in turn."""
    tries, aborted, compactions, numbers = lab.scaled(50, least=5), 0, 0, count()
    times: dict[bool, list[float]] = {False: [], True: []}
    with lab.database("merges") as url:
        folder = lab.folder("merges")
        location = str(folder / "lake")
        with deltasql.connect(url, location=location) as lake:
            table = lake.create_table(TABLE, SCHEMA, properties=VECTORS)
            table.append(_rows(*range(100_000)))
            while len(times[True]) + aborted < tries:
                for is_met in (False, True):
                    beside = Beside(url, location, "compact")
                    with beside if is_met else nullcontext():
                        for number in islice(numbers, _MERGES):
                            if not is_met:
                                table.optimize()
                            # Something to compact, as others bring it.
                            for _ in range(4):
                                table.append(_rows(10**6 + number))
                            try:
                                taken = timed(lambda number=number: _merge(table, number))
                            except deltasql.CommitError:
                                aborted += 1
                            else:
                                times[is_met].append(taken)
                    compactions += beside.done
        shutil.rmtree(folder)
    met, alone = times[True], times[False]
    yield Row(
        name="merges",
        work=f"merge of 2 rows into 100,000 beside a running compaction, {tries} tries",
        ours=statistics.median(met),
        unit="s",
        peer=statistics.median(alone),
        peer_name="alone",
        better="less",
        bar=1.3,
        note=f"{compactions} bins were compacted meanwhile, by another process, which gives way as "
        "a worker does",
    )
    yield Row(
        name="merge-aborts", work="… of them aborted", ours=aborted, unit="", better="less", bar=0
    )


def _merge(table: Table, number: int) -> Any:
    return (
        table.merge(_rows(number, 10**7 + number), "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def churn(lab: Lab) -> Iterator[Row]:
    """A table of 100 live files after many versions that expired, beside a new one."""
    versions = lab.scaled(1_000_000, least=10_000)
    with lab.database("churn") as url:
        folder = lab.folder("churn")
        location = str(folder / "lake")
        add = churned_and_new(url, location)
        found = []
        for stretch in stretches(url, location, OLD, add, versions=versions, steps=_STRETCHES):
            say(f"  {stretch}")
            found.append(stretch)
        lab.settle()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        yield open_and_commit(url, location, found)
        shutil.rmtree(folder)


def churned_and_new(url: str, location: str) -> dict[str, Any]:
    """The table that is to be churned and the one that is not; returns one of their adds."""
    with deltasql.connect(url, location=location) as lake:
        _hundred_files(lake.create_table(NEW, SCHEMA, properties=CHURNED))
        return _hundred_files(lake.create_table(OLD, SCHEMA, properties=CHURNED))


def open_and_commit(url: str, location: str, found: Sequence[Stretch]) -> Row:
    """The churned table beside the new one."""
    times = alternated(
        lambda: _open_and_commit(url, location, OLD),
        lambda: _open_and_commit(url, location, NEW),
        repeats=15,
    )
    deleted, expired = sum(item.deleted for item in found), sum(item.expired for item in found)
    # The first files stay.
    if expired < found[-1].versions or deleted < expired * 99 // 101:
        raise RuntimeError(f"{expired} versions expired, {deleted} files deleted")
    totals = [sum(stretch.sizes.values()) / 2**20 for stretch in found]
    return Row(
        name="churn",
        work=f"open and commit after {found[-1].versions:,} versions of churn, retention applied",
        ours=times[0],
        unit="s",
        peer=times[1],
        peer_name="a new table",
        better="less",
        bar=1.2,
        note=f"100 live files each; {WRITERS} writers committed the versions, and in "
        f"{len(found)} stretches {deleted:,} dead files were vacuumed and {expired:,} versions "
        f"expired. PostgreSQL's tables after each, in MiB: "
        f"{' '.join(f'{total:.0f}' for total in totals)}",
    )


def _hundred_files(table: Table) -> dict[str, Any]:
    """Fill a table; returns one of its adds."""
    table.append(_rows(1))
    (add,) = table.snapshot().adds()
    wire = codec.to_wire(add)["add"]
    table.commit([{"add": {**wire, "path": f"f{number}"}} for number in range(1, 100)])
    return dict(wire)


def _open_and_commit(url: str, location: str, name: str) -> int:
    with deltasql.connect(url, location=location) as lake:
        table = lake.table(name)
        table.snapshot().files()
        return int(table.append(_rows(7)))


def held(lab: Lab) -> Iterator[Row]:
    """Appends of one writer, with a pin and upkeep in the background, and without."""
    appends, rounds = lab.scaled(400, least=40), 5
    times: dict[bool, list[float]] = {False: [], True: []}
    with lab.database("held") as url:
        folder = lab.folder("held")
        location = str(folder / "lake")
        with deltasql.connect(url, location=location) as lake:
            table = lake.create_table(TABLE, SCHEMA)
            for turn in range(2 * rounds):
                with ExitStack() as stack:
                    if turn % 2:
                        stack.enter_context(table.pin())
                        stack.enter_context(Beside(url, location, "upkeep"))
                    taken = timed(lambda: [table.append(_rows(1)) for _ in range(appends)])
                times[bool(turn % 2)].append(appends / taken)
        shutil.rmtree(folder)
    yield Row(
        name="held",
        work=f"appends/s with a pin, a session and upkeep every second, {appends} at a time",
        ours=statistics.median(times[True]),
        unit="/s",
        peer=statistics.median(times[False]),
        peer_name="without",
        better="more",
        bar=0.95,
        note=f"median of {rounds} rounds in turn; upkeep is in another process, as in a worker",
    )
