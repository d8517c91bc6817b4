"""Lag: in the status, in SQL, as metrics, and as a line in the log."""

from __future__ import annotations

import logging
import re
import sqlite3
from pathlib import Path

from deltasql.mirror.worker import Worker
from deltasql.telemetry import metrics
from tests.mirror.conftest import SCHEMA, rows

DOCS = Path(__file__).parents[2] / "docs" / "mirror.md"


def _value(name, **labels):
    return metrics.REGISTRY.get_sample_value(name, labels)


def _worker(lake):
    return Worker(lake.engine, lake.store)


def test_status_counts_versions_and_seconds(open_lake):
    lake = open_lake(mode="async")
    table = lake.create_table("lag.a", SCHEMA)
    table.append(rows(1))
    status = table.mirror.status()
    assert (status.version, status.mirrored_version, status.lag_versions) == (1, None, 2)
    assert 0 <= status.lag_seconds < 60
    lake.mirror.run(once=True)
    status = table.mirror.status()
    assert (status.mirrored_version, status.lag_versions, status.lag_seconds) == (1, 0, 0.0)
    assert [item.table for item in lake.mirror.status()] == ["lag.a"]


def test_metrics_tell_the_lag(open_lake):
    lake = open_lake(mode="async")
    table = lake.create_table("lag.b", SCHEMA)
    table.append(rows(1))
    worker = _worker(lake)
    worker.observe(lake.store.clock_ms() + 5_000)
    assert _value("mirror_lag_versions", table="lag.b") == 2
    assert 5 <= _value("mirror_lag_seconds", table="lag.b") < 60
    assert _value("mirror_backlog_gauge") == 2
    assert _value("mirror_alert", table="lag.b") == 0
    lake.mirror.run(once=True)
    worker.observe(lake.store.clock_ms())
    assert _value("mirror_lag_versions", table="lag.b") == 0
    assert _value("mirror_lag_seconds", table="lag.b") == 0


def test_too_much_lag_alerts_once_and_ends(open_lake, caplog):
    lake = open_lake(mode="async", lag_alert="60s")
    table = lake.create_table("lag.c", SCHEMA)
    worker = _worker(lake)
    late = lake.store.clock_ms() + 61_000
    with caplog.at_level(logging.ERROR, "deltasql.mirror"):
        worker.observe(late)
        worker.observe(late)
    assert _value("mirror_alert", table="lag.c") == 1
    (line,) = caplog.messages
    assert re.match(r"lag\.c: the mirror is 1 versions and 6\d s behind", line)
    lake.mirror.run(once=True)
    worker.observe(late)
    assert _value("mirror_alert", table=table.name) == 0


def test_a_failed_table_alerts_at_once(lake, make_table, outage):
    table = make_table(lake, 1, name="lag.d")
    outage(lake, table).is_down = True
    table.append(rows(2))
    worker = _worker(lake)
    worker.observe(lake.store.clock_ms())
    assert _value("mirror_alert", table="lag.d") == 0
    for _ in range(4):
        lake.mirror.run(once=True)
    worker.observe(lake.store.clock_ms())
    assert _value("mirror_alert", table="lag.d") == 1


def test_the_query_of_the_docs_runs(open_lake, sqlite_url):
    lake = open_lake(mode="async")
    lake.create_table("lag.e", SCHEMA).append(rows(1))
    (query,) = re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        ((name, versions, since),) = connection.execute(query).fetchall()
    assert (name, versions) == ("lag.e", 2)
    assert since
