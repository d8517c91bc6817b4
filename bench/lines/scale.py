"""What slow stores, many commits and many tables cost the mirror."""

from __future__ import annotations

import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pyarrow as pa
from deltalake import DeltaTable

from bench import ours
from bench.files import SMALL_SCHEMA, three_rows
from bench.lab import Lab, say, timed
from bench.report import Row
from deltasql import Lake, Table
from deltasql.delta_log.listing import list_log
from deltasql.delta_log.names import commit_name
from deltasql.delta_log.reading import sidecar_details
from deltasql.mirror.worker import Worker
from deltasql.objectstore.remote import RemoteStore
from deltasql.testing.faulty_store import Fault, FaultyStore

LATENCY = 0.05
WRITERS = 8
# How far a worker is behind; and a number that never falls into step with checkpoints.
_FOLLOWS, _MOMENT = 20, 241


class SlowStore(FaultyStore):
    """A local folder that is reached as a bucket is: every request takes 50 ms."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, lambda _: Fault.SLOW, delay=LATENCY)

    @property
    def is_local(self) -> bool:
        return False

    # As a bucket does it: what is optional goes beside the chain.
    put_many_if_absent = RemoteStore.put_many_if_absent


# --- a slow store ---------------------------------------------------------------------


def slow_append(lab: Lab) -> Iterator[Row]:
    """One writer, then eight of eight tables, in one process."""
    turns = lab.scaled(40, least=10)
    with (
        lab.database("slow") as url,
        ours.connect(url, lab.folder("slow").as_uri(), mirror="sync") as lake,
    ):
        tables = [ours.create_small_table(lake, f"t{n}") for n in range(WRITERS)]
        lake.objects.wrap(SlowStore)
        for table in tables:
            _append(table, 2)
        alone = turns / _append(tables[0], turns)
        started = time.perf_counter()
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda table: _append(table, turns), tables))
        together = WRITERS * turns / (time.perf_counter() - started)
    yield Row(
        name="slow-append",
        work="sync append, 50 ms a request, 1 writer",
        ours=1 / alone / LATENCY,
        unit="round trips",
        better="less",
        bar=2.3,
        note=f"{turns} appends of 3 rows; {1000 / alone:.0f} ms each",
    )
    yield Row(
        name="slow-writers",
        work=f"{WRITERS} writers, {WRITERS} tables, the same",
        ours=together,
        peer=WRITERS * alone,
        peer_name=f"{WRITERS} × one",
        unit="appends/s",
        better="more",
        bar=0.9,
        note="threads of one process",
    )


def long_backlog(lab: Lab) -> Iterator[Row]:
    """Versions that no mirror has: how long until a reader sees the newest."""
    versions = lab.scaled(10_000, least=500)
    with (
        lab.database("backlog") as url,
        ours.connect(url, lab.folder("backlog").as_uri(), mirror="async") as lake,
    ):
        table = ours.create_files_table(lake, partitioned=False)
        for number in range(versions):
            table.commit([ours.add_file(number, partitioned=False)])
        place = _place(table)
        lake.objects.wrap(SlowStore)
        stop, worker = threading.Event(), Worker(lake.engine, lake.store)
        thread = threading.Thread(target=worker.run, args=(stop,))
        started = time.perf_counter()
        thread.start()
        try:
            while not (place / "_delta_log" / commit_name(versions)).exists():
                time.sleep(0.05)
            seen = DeltaTable(place).version()
            took = time.perf_counter() - started
            left = table.mirror.status().gap_versions
        finally:
            stop.set()
            thread.join()
        if seen != versions:
            raise RuntimeError(f"a reader sees version {seen}, not {versions}")
    yield Row(
        name="long-backlog",
        work=f"backlog of {versions:,} versions, 50 ms a request: until a reader sees the newest",
        ours=took,
        unit="s",
        better="less",
        bar=10,
        note=f"then {left:,} older versions were still to be written",
    )


def _append(table: Table, turns: int) -> float:
    rows = [pa.table(three_rows(0, turn), schema=SMALL_SCHEMA) for turn in range(turns)]
    started = time.perf_counter()
    for item in rows:
        table.append(item)
    return time.perf_counter() - started


def _place(table: Table) -> Path:
    return Path(table.location.removeprefix("file://"))


# --- many commits ---------------------------------------------------------------------


def checkpoint_bytes(lab: Lab) -> Iterator[Row]:
    yield from _checkpoints(lab, "classic", "")


def checkpoint_bytes_v2(lab: Lab) -> Iterator[Row]:
    """The same in a table that asks for V2 checkpoints."""
    yield from _checkpoints(lab, "v2", "-v2")


def _checkpoints(lab: Lab, policy: str, suffix: str) -> Iterator[Row]:
    """Commits of one file each, mirrored as they come."""
    commits = lab.scaled(10_000, least=500)
    database = f"checkpoints_{policy}"
    with (
        lab.database(database) as url,
        ours.connect(url, lab.folder(database).as_uri(), mirror="async") as lake,
    ):
        table = ours.create_files_table(
            lake, partitioned=False, properties={"delta.checkpointPolicy": policy}
        )
        place, opened = _place(table), []
        for number in range(commits):
            table.commit([ours.add_file(number, partitioned=False)])
            if number % _FOLLOWS == 0 or number % _MOMENT == 0:
                lake.mirror.run(once=True)
            if number % _MOMENT == 0 and number > commits / 2:
                opened.append(_opened(place, lab.folder("densely") / "table"))
        lake.mirror.run(once=True)
        log = place / "_delta_log"
        sizes = [path.stat().st_size for path in sorted(log.glob("*.checkpoint*.parquet"))]
        written = sum(sizes) + sum(path.stat().st_size for path in log.glob("_sidecars/*"))
        commit_bytes = sum(path.stat().st_size for path in log.glob("*.json"))
        newest = next(list_log(table.objects).newest_first(commits))
        kept = sum(item.size_in_bytes for item in sidecar_details(table.objects, newest))
    yield Row(
        name=f"checkpoint-bytes{suffix}",
        work=f"{commits:,} commits of a file: bytes of {policy} checkpoints",
        ours=written / 1e6,
        peer=(sizes[-1] + kept) / 1e6,
        peer_name="the last one",
        unit="MB",
        better="less",
        bar=10,
        note=f"{len(sizes)} checkpoints; {commit_bytes / 1e6:.1f} MB of commit files",
    )
    worst = max(mine / dense for mine, dense in opened)
    yield Row(
        name=f"checkpoint-open{suffix}",
        work="… delta-rs opens the table",
        ours=1000 * statistics.mean(mine for mine, _ in opened),
        peer=1000 * statistics.mean(dense for _, dense in opened),
        peer_name="a checkpoint every 10",
        unit="ms",
        better="less",
        bar=1.2,
        note=f"mean of {len(opened)} moments in the second half, anywhere between two checkpoints, "
        f"each the best of 5; at the worst moment {worst:.2f}×",
    )


def _opened(place: Path, copy: Path) -> tuple[float, float]:
    """The seconds that delta-rs takes, and those with a checkpoint at the last tenth version."""
    shutil.copytree(place, copy, copy_function=os.link)
    newest = DeltaTable(copy).version()
    DeltaTable(copy, version=newest - newest % 10).create_checkpoint()
    found = tuple(
        min(timed(lambda p=path: pa.table(DeltaTable(p).get_add_actions())) for _ in range(5))
        for path in (place, copy)
    )
    shutil.rmtree(copy)
    return found[0], found[1]


# --- many tables ----------------------------------------------------------------------


def idle_tables(lab: Lab) -> Iterator[Row]:
    """A worker that has nothing to do, beside tables that were mirrored."""
    count = lab.scaled(20_000, least=500)
    with (
        lab.database("tables") as url,
        ours.connect(url, lab.folder("tables").as_uri(), mirror="async") as lake,
    ):
        alone = _landing(lake, ours.create_small_table(lake, "alone"))
        _make_tables(url, lake, count)
        status = _seconds(lake.mirror.status)
        listed = _seconds(lambda: (lake.store.tables(), lake.store.heads()))
        share = _idle(lake, seconds=max(10.0, 20 * lab.scale))
        among = _landing(lake, lake.table("alone"))
    yield Row(
        name="idle-tables",
        work=f"{count:,} tables, an idle worker",
        ours=100 * share,
        unit="% of a core",
        better="less",
        bar=2,
        note="the worker's process, after its first rounds; PostgreSQL's share is not in it",
    )
    yield Row(
        name="one-of-many",
        work="a commit on one of them until it is mirrored",
        ours=among,
        peer=alone,
        peer_name="without the others",
        unit="ms",
        better="less",
        bar=1.2,
        note="median of 30, by the database's clock; async, local disk",
    )
    for name, seconds in (("mirror status", status), ("tables", listed)):
        yield Row(
            name=name.replace(" ", "-"),
            work=f"{count:,} tables, `{name}`",
            ours=seconds,
            unit="s",
            better="less",
            bar=1,
        )


def _make_tables(url: str, lake: Lake, count: int) -> None:
    """Copies of the rows of one table: to create them all would take most of the time."""
    table = ours.create_small_table(lake, "t0")
    lake.mirror.run(once=True)
    copied = {
        "dl_tables": "table_id, name, location",
        "dl_table_heads": "table_id",
        "dl_table_versions": "table_id, commit_id",
        "dl_mirror_status": "table_id",
        "dl_mirror_leases": "table_id",
    }
    with psycopg.connect(url) as connection:
        connection.execute("SELECT set_config('search_path', current_schema(), false)")
        for name, changed in copied.items():
            columns = [
                row[0]
                for row in connection.execute(
                    "SELECT column_name FROM information_schema.columns"
                    " WHERE table_schema = current_schema() AND table_name = %s"
                    " ORDER BY ordinal_position",
                    [name],
                )
            ]
            ours_too = {part.strip() for part in changed.split(",")}
            values = [_copied(column) if column in ours_too else column for column in columns]
            if name == "dl_table_heads":
                # Last written an hour ago, as tables are that idle.
                values[columns.index("last_ict")] = "last_ict - 3600000"
            identity = "OVERRIDING SYSTEM VALUE" if name == "dl_tables" else ""
            connection.execute(
                f"INSERT INTO {name} ({', '.join(columns)}) {identity}"  # type: ignore[arg-type]
                f" SELECT {', '.join(values)} FROM {name}, generate_series(1, {count - 1}) AS n"
                f" WHERE {name}.table_id = {table.table_id}"
            )
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")
    say(f"  {len(lake.store.tables()):,} tables")


def _landing(lake: Lake, table: Table) -> float:
    """The median of the milliseconds from commit to mirror while a worker runs."""
    with _working(lake):
        versions = []
        for turn in range(30):
            versions.append(table.append(pa.table(three_rows(0, turn), schema=SMALL_SCHEMA)))
            time.sleep(0.1)
        while table.mirror.status().lag_versions:
            time.sleep(0.05)
    landed = lake.store.landed(table.table_id, after=versions[0] - 1, upto=versions[-1], most=100)
    return statistics.median(waited for _, waited in landed)


def _copied(column: str) -> str:
    return "table_id + n" if column == "table_id" else f"{column} || '-' || n"


def _seconds(ask: Any) -> float:
    ask()
    started = time.perf_counter()
    ask()
    return time.perf_counter() - started


def _idle(lake: Lake, *, seconds: float) -> float:
    """The share of a core that the worker takes, once it has looked around."""
    with _working(lake):
        process = psutil.Process()
        started, used = time.perf_counter(), sum(process.cpu_times()[:2])
        time.sleep(seconds)
        return (sum(process.cpu_times()[:2]) - used) / (time.perf_counter() - started)


@contextmanager
def _working(lake: Lake) -> Iterator[None]:
    """A worker that has looked around."""
    stop, worker = threading.Event(), Worker(lake.engine, lake.store)
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        # When it starts it looks for temporary files in each table's mirror.
        time.sleep(2)
        while worker.is_sweeping:
            time.sleep(1)
        yield
    finally:
        stop.set()
        thread.join()
