"""The service while others work: how soon it answers, what it keeps, what it costs them."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import psutil
import psycopg
from psycopg import sql

from bench import history, ours, workers
from bench.lab import Lab, say
from bench.lines.opening import load, tidy
from bench.report import Row

_READERS = 200
_WRITERS = 8
# As often as a page of the dashboard refreshes itself.
_REFRESH = 5.0
_TABLES = [f"team.t{number}" for number in range(_WRITERS)]
_EMPTY = "/healthz"
_PATHS = [_EMPTY, "/", "/tables/team.t0", "/tables/team.t1/files", "/audit", "/api/v1/tables",
          "/api/v1/tables/team.t2/history", "/api/v1/tables/team.t0/snapshot",
          "/metrics"]  # fmt: skip


def busy(lab: Lab) -> Iterator[Row]:
    """200 dashboards that refresh themselves while 8 processes append; and 200 requests at once."""
    with _lake(lab, "busy") as (url, location), _service(lab, url, location) as (address, _):
        quiet = _asked(address, clients=1, seconds=3 * lab.seconds, pause=1.0, paths=["/"])
        idle = _asked(address, clients=1, seconds=lab.seconds, pause=0.2, paths=[_EMPTY])
        alone, floor = (statistics.median(found["times"][path])
                        for found, path in ((quiet, "/"), (idle, _EMPTY)))  # fmt: skip
        asking = _begin(address, clients=_READERS, seconds=3 * lab.seconds, pause=_REFRESH,
                        paths=_PATHS)  # fmt: skip
        tally = workers.run(_writers(url, location), seconds=2 * lab.seconds)
        loaded = _ended(asking)
        burst = _asked(address, clients=_READERS, seconds=2.0, pause=0.0, paths=["/"])
    if tally.failed or set(loaded["statuses"]) | set(burst["statuses"]) != {"200"}:
        raise RuntimeError(f"errors: {tally.problem} {loaded['statuses']} {burst['statuses']}")
    yield Row(
        name="busy-overview",
        work=f"the overview, {_READERS} dashboards open while {_WRITERS} writers append, p99",
        ours=_p99(loaded["times"]["/"]),
        peer=alone,
        peer_name="alone, p50",
        unit="ms",
        better="less",
        bar=4.0,
        note=f"{sum(loaded['statuses'].values())} requests of {len(_PATHS)} kinds, no error; p50 "
        f"{statistics.median(loaded['times']['/']):.0f} ms; {tally.rate:.0f} appends a second",
    )
    yield Row(
        name="busy-floor",
        work=f"{_EMPTY}, which does nothing, in the same run, p99",
        ours=_p99(loaded["times"][_EMPTY]),
        peer=floor,
        peer_name="alone, p50",
        unit="ms",
        better="less",
        note=f"p50 {statistics.median(loaded['times'][_EMPTY]):.0f} ms: what the machine takes "
        "from every answer",
    )
    yield Row(
        name="burst-overview",
        work=f"the overview asked for by {_READERS} clients without a pause, p99",
        ours=_p99(burst["times"]["/"]),
        peer=alone,
        peer_name="alone, p50",
        unit="ms",
        better="less",
        note=f"{len(burst['times']['/']) / 2:.0f} answers a second: with {_READERS} always under "
        "way, latency is only another word for throughput",
    )


def memory(lab: Lab) -> Iterator[Row]:
    """What 10,000 requests leave behind."""
    with _lake(lab, "memory") as (url, location), _service(lab, url, location) as (address, pid):
        process = psutil.Process(pid)
        _asked(address, clients=8, seconds=2 * lab.seconds, pause=0.0, paths=_PATHS)
        before, requests = process.memory_info().rss, 0
        while requests < lab.scaled(10_000):
            told = _asked(address, clients=8, seconds=lab.seconds, pause=0.0, paths=_PATHS)
            requests += sum(told["statuses"].values())
        grown = (process.memory_info().rss - before) / 2**20
    yield Row(
        name="memory",
        work=f"memory that {requests:,} requests leave behind",
        ours=grown,
        unit="MiB",
        better="less",
        bar=12,
        note="of the service's process, after a warm-up",
    )


def cost(lab: Lab) -> Iterator[Row]:
    """Appends beside the service while 200 dashboards are open, while nobody asks, and without it.

    The worker mirrors in both of the first two, so their difference is what the requests cost.
    """
    rates: dict[str, list[float]] = {"asked": [], "idle": [], "none": []}
    mirrored: dict[str, list[float]] = {"asked": [], "idle": []}
    with _lake(lab, "cost") as (url, location):
        for turn in range(3):
            rates["none"].append(workers.run(_writers(url, location), seconds=lab.seconds).rate)
            with _service(lab, url, location) as (address, _):
                for name in ("asked", "idle") if turn % 2 else ("idle", "asked"):
                    _settle(url)
                    # The writers take some seconds to start.
                    asking = None if name == "idle" else _begin(
                        address, clients=_READERS, seconds=3 * lab.seconds, pause=_REFRESH,
                        paths=_PATHS)  # fmt: skip
                    tally = workers.run(_writers(url, location), seconds=2 * lab.seconds)
                    rates[name].append(tally.rate)
                    mirrored[name].append(_mirrored_share(url))
                    if asking is not None:
                        _ended(asking)
    asked, idle, none = (statistics.median(rates[name]) for name in ("asked", "idle", "none"))
    shares = {name: 100 * statistics.median(found) for name, found in mirrored.items()}
    yield Row(
        name="cost",
        work=f"{_WRITERS} writers append while {_READERS} dashboards are open",
        ours=asked,
        peer=idle,
        peer_name="nobody asks",
        unit="appends/s",
        better="more",
        bar=0.95,
        note="median of three rounds a side, in turn; the service's worker mirrors in both: at "
        f"the end {shares['asked']:.0f} % of all versions against {shares['idle']:.0f} %",
    )
    yield Row(
        name="cost-mirror",
        work=f"{_WRITERS} writers append beside the service and its worker, and nobody asks",
        ours=idle,
        peer=none,
        peer_name="nothing is mirrored",
        unit="appends/s",
        better="more",
        note="what mirroring takes of the two cores on which the writers and the database run",
    )


def pages(lab: Lab) -> Iterator[Row]:
    """Every page of a table with 1M files and 100k versions."""
    files, versions = lab.scaled(1_000_000, least=2_800), lab.scaled(100_000, least=500)
    with lab.database("pages") as url:
        location = lab.folder("pages").as_uri()
        with ours.connect(url, location) as lake:
            load(lake, 2_800)
        say(f"  {files:,} files and {versions:,} versions are generated")
        _multiply(url, files)
        history.generate(
            url, ours.FILES, versions=versions, dead_files=lab.scaled(1_000_000, least=1_000)
        )
        _mirrored(url)
        tidy(url)
        with _service(lab, url, location, "--no-worker") as (address, _):
            yield from _page_rows(address, versions)


def _page_rows(address: str, versions: int) -> Iterator[Row]:
    table = f"/tables/{ours.FILES}"
    api = f"/api/v1{table}"
    paths = ["/", table, f"{table}?before={versions // 2}", f"{table}/files",
             f"{table}/files?version={versions // 2}", f"{table}/files?where=id%3D7",
             f"{table}/partitions", f"{table}/schema", "/audit", api, f"{api}/history",
             f"{api}/files?limit=1000", f"{api}/snapshot", f"{api}/mirror", "/metrics"]  # fmt: skip
    with httpx.Client(base_url=address, timeout=60) as http:
        for path in paths:
            times = []
            for _ in range(6):
                answer = http.get(path)
                if answer.status_code != 200:
                    raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:300]}")
                times.append(answer.elapsed.total_seconds() * 1000)
            yield Row(
                name="page",
                work=path,
                ours=statistics.median(times[1:]),
                unit="ms",
                better="less",
                bar=500,
                note=f"the first time {times[0]:.0f} ms",
            )


def _multiply(url: str, files: int) -> None:
    """More live files, as wide as those that are there."""
    with psycopg.connect(url, autocommit=True) as connection:
        names = [row[0] for row in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = "
            "'dl_active_files' AND table_schema = 'public' ORDER BY ordinal_position")]  # fmt: skip
        kept = [name for name in names if name not in ("path", "path_key")]
        columns = sql.SQL(", ").join(map(sql.Identifier, kept))
        connection.execute(
            sql.SQL(
                "INSERT INTO dl_active_files ({columns}, path, path_key) "
                "SELECT {columns}, n || '-' || path, substring(sha256((n || '-' || path)::bytea) "
                "FOR 16) FROM dl_active_files, generate_series(1, {times}) AS n"
            ).format(columns=columns, times=sql.Literal(files // 2_800 - 1))
        )


def _settle(url: str) -> None:
    """Let the worker catch up, for a while: beside writers it has more than it can do anyway."""
    deadline = time.monotonic() + 10
    while _mirrored_share(url) < 1 and time.monotonic() < deadline:
        time.sleep(0.5)


def _mirrored_share(url: str) -> float:
    """The share of all versions that are in the mirror."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT avg(CASE WHEN status = 'SUCCESS' THEN 1.0 ELSE 0 END) FROM dl_mirror_status"
        ).fetchone()
    return float(found[0]) if found and found[0] is not None else 1.0


def _mirrored(url: str) -> None:
    """All versions are in the mirror, as they are in a lake with a worker."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE dl_mirror_status SET status = 'SUCCESS', json_written = true, "
            "mirrored_at = now()"
        )


# --- the parts ------------------------------------------------------------------------------


@contextmanager
def _lake(lab: Lab, name: str) -> Iterator[tuple[str, str]]:
    with lab.database(name) as url:
        location = lab.folder(name).as_uri()
        with ours.connect(url, location) as lake:
            for table in _TABLES:
                ours.create_small_table(lake, table)
        yield url, location


@contextmanager
def _service(lab: Lab, url: str, location: str, *options: str) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "deltasql.cli", "serve", "--port", "0", "--url", url,
               "--location", location, "--set", "log.level=warning", *options]  # fmt: skip
    log = lab.folder("service") / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stderr=stderr, stdout=subprocess.DEVNULL)
    try:
        while not (found := re.search(r"serving at (\S+)", log.read_text())):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait(30)


def _writers(url: str, location: str) -> list[workers.Opener]:
    return [
        partial(ours.appender, url, location, table, number, mirror="async")
        for number, table in enumerate(_TABLES)
    ]


def _begin(
    address: str, *, clients: int, seconds: float, pause: float, paths: list[str]
) -> subprocess.Popen[str]:
    options = [str(value) for value in (clients, seconds, pause)]
    command = [sys.executable, "-m", "bench.askers", address, *options, *paths]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy())


def _ended(asking: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = asking.communicate(timeout=300)
    found: dict[str, Any] = json.loads(text)
    return found


def _asked(
    address: str, *, clients: int, seconds: float, pause: float, paths: list[str]
) -> dict[str, Any]:
    asking = _begin(address, clients=clients, seconds=seconds, pause=pause, paths=paths)
    return _ended(asking)


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]
