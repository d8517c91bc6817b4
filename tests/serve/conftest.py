"""The service as a team runs it: another process on a free port, one for each module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from playwright.sync_api import sync_playwright

import deltasql
from tests.parts import chromium
from tests.parts.process import PartMissingError

ROOT = Path(__file__).parents[2]
ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
HOSTILE = "ops.<img src=x onerror=alert(1)>'; DROP TABLE dl_tables; --"


@dataclass
class Service:
    """A running service, its lake, and a client for it."""

    folder: Path
    process: subprocess.Popen[str]
    address: str
    http: httpx.Client
    tokens: dict[str, str] = field(default_factory=dict)

    def lake(self, **options: str) -> deltasql.Lake:
        return open_lake(self.folder, **options)

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


def open_lake(folder: Path, **options: str) -> deltasql.Lake:
    url = f"sqlite:///{folder / 'lake.db'}"
    return deltasql.connect(url, location=str(folder / "lake"), committer="ana", **options)


def orders(first: int, count: int = 10) -> pa.Table:
    days = [f"2026-11-{1 + number % 3:02d}" for number in range(first, first + count)]
    return pa.table(
        {"id": range(first, first + count), "day": days, "amount": [1.5] * count}, schema=ORDERS
    )


def seed(folder: Path) -> None:
    """Tables with versions, a transaction, a changed schema, hostile names, and no rows."""
    with open_lake(folder) as lake:
        table = lake.create_table("sales.orders", ORDERS, partition_by=["day"])
        for number in range(6):
            table.append(orders(number * 10))
        customers = lake.create_table("sales.customers", pa.schema([("id", pa.int64())]))
        with lake.transaction() as tx:
            tx.table("sales.orders").append(orders(60))
            tx.table("sales.customers").append(pa.table({"id": [1]}))
        customers.append(
            pa.table({"id": [2], "note": ["<script>alert(1)</script>"]}), schema_mode="merge"
        )
        column = '"><script>alert(2)</script>'
        schema = pa.schema([(column, pa.string()), ("id", pa.int64())])
        mapped = {"delta.columnMapping.mode": "name"}
        bad = lake.create_table(HOSTILE, schema, [column], mapped)
        bad.append(pa.table({column: ["<script>alert(3)</script>"], "id": [1]}))
        lake.create_table("hr.people", pa.schema([("id", pa.int64())]))


def start(
    folder: Path,
    *arguments: str,
    env: dict[str, str] | None = None,
    url: str | None = None,
    location: str | None = None,
) -> Service:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    place = ["--url", url or f"sqlite:///{folder / 'lake.db'}"]
    place += ["--location", location or str(folder / "lake")]
    process = subprocess.Popen(
        [sys.executable, "-m", "deltasql.cli", "serve", "--port", "0", *place, *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT / "src"), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    address = ""
    for line in process.stderr:
        if line.startswith("serving at "):
            address = line.removeprefix("serving at ").strip()
            break
    assert address, "the service did not start"
    log = (folder / "service.log").open("w")
    # Nobody else reads it: a full pipe would stop the service.
    import threading

    def copy() -> None:
        with log:
            for told in process.stderr:
                log.write(told)
                log.flush()

    threading.Thread(target=copy, daemon=True).start()
    http = httpx.Client(base_url=address, timeout=20, verify=False)
    return Service(folder, process, address, http)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One whose lake the module may change."""
    yield from _running(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for tests that hardly change its lake."""
    yield from _running(tmp_path_factory.mktemp("shared-service"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, once for all modules."""
    try:
        program = chromium.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


def _running(folder: Path) -> Iterator[Service]:
    seed(folder)
    running = start(folder)
    yield running
    running.http.close()
    # An orderly end, whatever the tests did.
    if running.process.poll() is None:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(timeout=30) == 0
