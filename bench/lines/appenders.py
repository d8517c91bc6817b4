"""Eight processes of four threads that add three rows at a time: together, and each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from bench import ours, workers
from bench.files import SMALL_SCHEMA, three_rows
from bench.lab import Lab, say
from bench.peers import ducklake
from bench.report import Row
from bench.workers import Opener, Tally

WRITERS, THREADS = 8, 4
ROUNDS = 2
TABLE = "t0"
ROWS = 3
# How many appends a thread has handed in, at most, without having been told of them.
_OUTSTANDING = 500
_DELAY = "50ms"
# How many appends of each kind one operation of a process consists of.
_FUTURES, _BLOCKING, _PLAIN = THREADS * _OUTSTANDING, THREADS * 2, THREADS * 5


def appenders(lab: Lab) -> Iterator[Row]:
    with lab.database("ours") as url, lab.database("ducklake"):
        location, data = lab.folder("ours").as_uri(), lab.folder("ducklake")
        with ours.connect(url, location) as lake:
            ours.create_small_table(lake, TABLE)
        place = (lab.postgres.port, "ducklake", data)
        ducklake.create_tables(*place, [TABLE])
        crews: dict[str, tuple[list[Opener], int]] = {
            "futures": ([partial(futures, url, location, n) for n in range(WRITERS)], _FUTURES),
            "blocking": ([partial(blocking, url, location, n) for n in range(WRITERS)], _BLOCKING),
            "plain": ([partial(plain, url, location, n) for n in range(WRITERS)], _PLAIN),
            "DuckLake": (
                [partial(ducklake.appender, *place, TABLE, n) for n in range(WRITERS)],
                1,
            ),
        }
        tallies: dict[str, list[Tally]] = {name: [] for name in crews}
        for turn in range(ROUNDS if lab.scale >= 1 else 1):
            for name, (crew, appends) in crews.items():
                lab.settle()
                tallies[name].append(workers.run(crew, seconds=lab.seconds, warmup=2))
                rate = tallies[name][-1].rate * appends * ROWS
                say(f"  round {turn + 1}, {name}: {rate:,.0f} rows/s")
        found = {name: workers.combined(several) for name, several in tallies.items()}
        _must_be_there(url, location, found, crews)
    rates = {name: tally.rate * crews[name][1] * ROWS for name, tally in found.items()}
    failed = ", ".join(f"{name} {tally.failed}" for name, tally in found.items())
    work = f"{WRITERS} processes × {THREADS} threads through appenders, {ROWS} rows each, durable"
    note = (
        f"a thread has {_OUTSTANDING} appends under way at most, max_delay {_DELAY}; "
        f"failed: {failed}"
    )
    for name, peer, bar in (
        ("appender", "DuckLake", 100.0),
        ("appender-plain", "plain", 10.0),
    ):
        yield Row(
            name=name,
            work=work if bar > 10 else "the same, beside t.append of as many threads",
            ours=rates["futures"],
            peer=rates[peer],
            peer_name=peer,
            unit="rows/s",
            better="more",
            bar=bar,
            note=note if bar > 10 else "",
        )
    yield Row(
        name="appender-blocking",
        work="the same, each thread waits for each append",
        ours=rates["blocking"],
        peer=rates["plain"],
        peer_name="plain",
        unit="rows/s",
        better="more",
        note=f"a commit has {THREADS} appends at most: no thread hands in a second one",
    )


def _rows(worker: int) -> pa.Table:
    return pa.table(three_rows(worker, 0), schema=SMALL_SCHEMA)


@contextmanager
def futures(url: str, location: str, worker: int) -> Iterator[Callable[[int], Any]]:
    """Threads that hand in appends and then wait until all of them are durable."""
    rows = _rows(worker)
    with (
        ours.connect(url, location) as lake,
        lake.table(TABLE).appender(_DELAY) as appender,
        ThreadPoolExecutor(THREADS) as pool,
    ):

        def hand_in(_: int) -> None:
            told = [appender.submit(rows) for _ in range(_OUTSTANDING)]
            for receipt in told:
                receipt.result()

        yield lambda _: list(pool.map(hand_in, range(THREADS)))


@contextmanager
def blocking(url: str, location: str, worker: int) -> Iterator[Callable[[int], Any]]:
    """Threads that wait for each append."""
    rows = _rows(worker)
    with (
        ours.connect(url, location) as lake,
        lake.table(TABLE).appender(_DELAY) as appender,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        yield lambda _: list(pool.map(lambda _: appender.append(rows), range(_BLOCKING)))


@contextmanager
def plain(url: str, location: str, worker: int) -> Iterator[Callable[[int], Any]]:
    """Threads that commit each append by itself."""
    rows = _rows(worker)
    with ours.connect(url, location) as lake, ThreadPoolExecutor(THREADS) as pool:
        table = lake.table(TABLE)
        yield lambda _: list(pool.map(lambda _: table.append(rows), range(_PLAIN)))


def _must_be_there(
    url: str,
    location: str,
    found: dict[str, Tally],
    crews: dict[str, tuple[list[Opener], int]],
) -> None:
    """Every append that was acknowledged is in the table; failed ones may be."""
    own = {name: tally for name, tally in found.items() if name != "DuckLake"}
    done = sum((t.done + t.warmed) * crews[name][1] * ROWS for name, t in own.items())
    most = done + sum(t.failed * crews[name][1] * ROWS for name, t in own.items())
    with ours.connect(url, location) as lake:
        files = lake.table(TABLE).snapshot().files()
        count = sum(files.column("num_records").to_pylist())
    if not done <= count <= most:
        raise RuntimeError(f"the benchmark is wrong: {done} rows acknowledged, {count} there")
