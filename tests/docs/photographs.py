"""Photographs of the dashboard for the documentation, in the light and in the dark."""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from playwright.sync_api import sync_playwright

import deltasql
from tests.parts import chromium
from tests.serve.conftest import start

# The pages of the dashboard by name.
PAGES = {
    "overview": "/",
    "table": "/tables/sales.orders",
    "partitions": "/tables/sales.orders/partitions",
}
_SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
_TABLES = {"crm.customers": 9, "crm.tickets": 7, "ops.deliveries": 12, "ops.shipments": 8,
           "sales.lines": 15, "web.clicks": 22, "web.visits": 17}  # fmt: skip
_ELSEWHERE = """() => {
  const place = document.querySelector(".title p.mono");
  if (place) place.textContent = place.textContent.replace(/^.*(?=\\/lake\\/)/, "s3:/");
}"""
_MINUTE = 60_000
_DAY = 24 * 60 * _MINUTE
_WHO = ("etl@airflow", "stream@clicks", "ana@laptop")


def photographs() -> dict[str, bytes]:
    """Pages of the service in a real browser, by the names of their files."""
    folder = Path(tempfile.mkdtemp(prefix="lake-", dir="/tmp"))
    try:
        _fill(folder)
        _spread(folder / "lake.db")
        service = start(folder)
        try:
            return _photographed(service.address)
        finally:
            service.http.close()
            service.stop()
    finally:
        shutil.rmtree(folder)


def _photographed(address: str) -> dict[str, bytes]:
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
        for scheme, suffix in (("light", ""), ("dark", "-dark")):
            page = browser.new_page(
                base_url=address, color_scheme=scheme, viewport={"width": 1280, "height": 860}
            )
            for name, path in PAGES.items():
                page.goto(path)
                # The folder of this run is of no interest, and another one each time.
                page.evaluate(_ELSEWHERE)
                found[f"{name}{suffix}"] = page.screenshot()
            page.close()
        browser.close()
    return found


def _fill(folder: Path) -> None:
    """A lake as people have them: some tables, some days, some with more in them than others."""
    chance = random.Random(7)
    lakes = [
        deltasql.connect(
            f"sqlite:///{folder / 'lake.db'}", location=str(folder / "lake"), committer=who
        )
        for who in _WHO
    ]
    airflow, stream, ana = lakes
    orders = airflow.create_table("sales.orders", _SCHEMA, ["day"])
    for number in range(26):
        orders.append(_rows(1 + number % 9, 2000 + 5000 * (number % 4)))
        if number == 14:
            orders.optimize()
    orders.delete("id < 100 AND day = '2026-11-03'")
    for name, commits in _TABLES.items():
        by = stream if name.startswith("web.") else airflow
        table = by.create_table(name, _SCHEMA)
        for _ in range(commits):
            table.append(_rows(1, chance.randint(500, 9000)))
    with ana.transaction() as tx:
        tx.table("sales.orders").append(_rows(5, 500))
        tx.table("sales.lines").append(_rows(5, 2500))
    for _ in range(3):
        orders.append(_rows(2, 3000))
    ana.create_table("ops.inventory", _SCHEMA).append(_rows(1, 1200))
    ana.table("ops.inventory").mirror.pause()
    for lake in lakes:
        lake.close()


def _rows(days: int, count: int) -> pa.Table:
    names = [f"2026-11-{1 + number % days:02d}" for number in range(count)]
    return pa.table(
        {"id": range(count), "day": names, "amount": [9.5 * n % 7919 for n in range(count)]}
    )


def _spread(database: Path) -> None:
    """As if all of it had been committed over a day, more in its second half."""
    chance = random.Random(11)
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "SELECT table_id, version, transaction_id FROM dl_table_versions "
            "ORDER BY in_commit_timestamp, table_id, version"
        ).fetchall()
        now = int(time.time() * 1000)
        ages = sorted((chance.random() ** 1.2 * _DAY for _ in rows), reverse=True)
        together: dict[str, int] = {}
        for (table, version, transaction), age in zip(rows, ages, strict=True):
            at = now - 3 * _MINUTE - int(age)
            at = together.setdefault(transaction, at) if transaction else at
            connection.execute(
                "UPDATE dl_table_versions SET in_commit_timestamp = ? "
                "WHERE table_id = ? AND version = ?",
                (at, table, version),
            )
        connection.execute(
            "UPDATE dl_table_heads SET last_ict = (SELECT in_commit_timestamp "
            "FROM dl_table_versions AS v WHERE v.table_id = dl_table_heads.table_id "
            "AND v.version = current_version)"
        )
    connection.close()
