"""A busy service: many readers while others commit, and thousands of requests one after another."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pyarrow as pa
import pytest

import deltasql
from tests.serve.conftest import start
from tests.sizes import FULL

READERS = 200
WRITERS = 8
COMMITS = 20 if FULL else 4
REQUESTS = 10_000 if FULL else 1_000
PATHS = ["/", "/tables/team.t0", "/tables/team.t1/files", "/audit", "/api/v1/tables",
         "/api/v1/tables/team.t2/history", "/api/v1/tables/team.t3/files?where=id%3C3",
         "/api/v1/tables/team.t0/snapshot", "/api/v1/audit", "/metrics"]  # fmt: skip
ROWS = pa.table({"id": range(10)})


@pytest.fixture(scope="module")
def busy(postgres_server, tmp_path_factory):
    """A service beside PostgreSQL, with a table for each writer."""
    folder = tmp_path_factory.mktemp("busy")
    location, name = str(folder / "lake"), "busy_service"
    postgres_server.create_database(name)
    url = postgres_server.url(name)
    with deltasql.connect(url, location=location) as lake:
        for number in range(WRITERS):
            lake.create_table(f"team.t{number}", ROWS.schema)
    running = start(folder, url=url, location=location)
    yield running, url, location
    running.http.close()
    assert running.stop() == 0
    assert "Traceback" not in (folder / "service.log").read_text()
    postgres_server.drop_database(name)


def ask(address: str, requests: int, at_once: int) -> Counter[int]:
    """The statuses of that many requests, so many of them under way at any time."""
    codes: Counter[int] = Counter()
    left = iter(range(requests))

    async def go(client: httpx.AsyncClient) -> None:
        for number in left:
            answer = await client.get(PATHS[number % len(PATHS)])
            codes[answer.status_code] += 1

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=at_once)
        async with httpx.AsyncClient(base_url=address, timeout=100, limits=limits) as client:
            await asyncio.gather(*(go(client) for _ in range(at_once)))

    asyncio.run(all_of_them())
    return codes


@pytest.mark.postgres
def test_two_hundred_readers_while_eight_writers_commit(busy):
    running, url, location = busy

    def write(number: int) -> int:
        with deltasql.connect(url, location=location) as lake:
            return [lake.table(f"team.t{number}").append(ROWS) for _ in range(COMMITS)][-1]

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, number) for number in range(WRITERS)]
        codes = ask(running.address, 2 * READERS, READERS)
        versions = [item.result() for item in writing]
    assert codes == {200: 2 * READERS}
    assert versions == [COMMITS] * WRITERS
    told = running.http.get("/metrics").text
    assert float(re.search(r"^sql_round_trips_total (\S+)$", told, re.MULTILINE)[1]) > 10
    # What the service tells afterwards is all of it.
    found = running.http.get("/api/v1/tables").json()["tables"]
    assert [item["version"] for item in found] == versions


@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_memory_stays_flat(busy):
    running, _, _ = busy
    process = psutil.Process(running.process.pid)
    ask(running.address, 300, 4)
    warm = process.memory_info().rss
    files = process.num_fds()
    assert ask(running.address, REQUESTS, 4) == {200: REQUESTS}
    grown = (process.memory_info().rss - warm) / 2**20
    # A kilobyte kept of each request would be 10 MiB after ten thousand.
    assert grown < 12, f"{grown:.1f} MiB more after {REQUESTS} requests"
    assert process.num_fds() <= files + 8
