"""`deltasql mirror run`: metrics for Prometheus, and logs that tell one commit from another."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable

import pytest

from tests.cli.conftest import rows

METRICS = [
    "metadata_open_latency_ms", "commit_latency_ms", "mirror_latency_ms", "mirror_lag_seconds",
    "mirror_lag_versions", "mirror_backlog_gauge", "mirror_failures_total", "mirror_alert",
    "versions_committed_total", "commit_conflicts_total", "files_active_gauge", "sql_pool_in_use",
    "sql_pool_waiting",
]  # fmt: skip


@pytest.fixture
def worker(program):
    """Start the worker; yields the process and the address of its metrics."""
    started = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = program.start("mirror", "run", "--metrics-port", "0", *arguments)
        started.append(process)
        address = process.stderr.readline().strip().removeprefix("metrics at ")
        return process, address

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)


def test_metrics_are_served_on_loopback(worker, orders):
    orders.mirror.pause()
    orders.append(rows(4))
    _, address = worker("--set", "mirror.lag_alert=100ms")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", address)
    _until(lambda: 'mirror_alert{table="sales.orders"} 1.0' in _scrape(address))
    text = _scrape(address)
    for name in METRICS:
        assert f"# TYPE {name} " in text or f"# TYPE {name.removesuffix('_total')} " in text, name
    assert 'mirror_lag_versions{table="sales.orders"} 1.0' in text
    assert 'files_active_gauge{table="sales.orders"} 3.0' in text
    assert not re.search(r'mirror_lag_seconds\{table="sales.orders"\} 0\.0$', text, re.MULTILINE)


def test_a_port_that_is_taken(worker, program, orders):
    _, address = worker()
    port = address.split(":")[2].partition("/")[0]
    failed = program("mirror", "run", "--metrics-port", port)
    assert failed.code == 1
    assert f"can't be served at port {port}" in failed.err


def test_metrics_please_promtool(worker, orders):
    promtool = shutil.which("promtool")
    if promtool is None:
        # The exposition format is prometheus_client's own; here its parser is the judge.
        from prometheus_client.parser import text_string_to_metric_families

        _, address = worker()
        assert list(text_string_to_metric_families(_scrape(address)))
        return
    _, address = worker()
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=_scrape(address),
        text=True,
        capture_output=True,
        check=False,
    )
    assert "error" not in done.stderr.lower(), done.stderr


def test_logs_follow_a_commit(worker, lake, orders):
    orders.mirror.pause()
    version = orders.append(rows(4))
    commit_id = orders.history(limit=1)[0].commit_id
    process, _ = worker("--set", "log.format=json")
    orders.mirror.resume()
    _until(lambda: orders.mirror.status().lag_versions == 0)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    lines = [json.loads(line) for line in err.splitlines()]
    (line,) = [item for item in lines if item.get("commit_id") == commit_id]
    assert line["message"] == "mirrored"
    assert line["table"] == "sales.orders"
    assert line["version"] == version
    assert line["attempt"] == 1
    assert line["key"].endswith(f"sales/orders/_delta_log/{version:020}.json")


def test_logs_tell_failures(worker, program, orders):
    orders.mirror.pause()
    orders.append(rows(4))
    log = program.folder / "lake/sales/orders/_delta_log"
    (log / f"{3:020}.json").write_text("{}")
    process, _ = worker("--set", "log.format=json")
    orders.mirror.resume()
    _until(lambda: orders.mirror.status().is_failed)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    lines = [json.loads(line) for line in err.splitlines()]
    failed = next(line for line in lines if "MirrorConflictError" in line.get("error", ""))
    assert (failed["table"], failed["version"], failed["attempt"]) == ("sales.orders", 3, 1)
    assert failed["level"] == "warning"


def _scrape(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return str(answer.read().decode())


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
