"""SLOs: what the metrics say of everybody's commits, and the rules that watch them."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pytest

from deltasql.mirror.worker import Worker
from deltasql.serve.jobs import Jobs
from deltasql.serve.service import Service
from deltasql.serve.unity.vending import Vending
from deltasql.serve.watching import LakeFigures
from deltasql.telemetry import metrics
from tests.faults.waiting import until
from tests.parts import prometheus
from tests.parts.process import PartMissingError
from tests.serve.conftest import open_lake

RULES = Path(__file__).parents[2] / "docs" / "prometheus"


def landed() -> float:
    return metrics.REGISTRY.get_sample_value("mirror_publish_latency_ms_count")


def value(name: str, table: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, {"table": table})


def test_every_version_counts_wherever_it_lands(tmp_path):
    rows = pa.table({"id": [1]})
    with open_lake(tmp_path) as lake, open_lake(tmp_path) as writer:
        before = lake.create_table("old", rows.schema)
        before.append(rows)
        worker = Worker(lake.engine, lake.store)
        worker.observe(lake.store.clock_ms())
        counted = landed()
        # Mirrored by a writer, from version 0 on; late, by the worker; what was there before not.
        table = writer.create_table("new", rows.schema)
        table.append(rows)
        table.mirror.pause()
        table.append(rows)
        worker.observe(lake.store.clock_ms())
        assert landed() - counted == 2
        time.sleep(1.1)
        table.mirror.resume()
        worker.drain()
        total = metrics.REGISTRY.get_sample_value("mirror_publish_latency_ms_sum")
        worker.observe(lake.store.clock_ms())
        assert landed() - counted == 3
        late = metrics.REGISTRY.get_sample_value("mirror_publish_latency_ms_sum") - total
        assert late >= 1000
        worker.observe(lake.store.clock_ms())
        assert landed() - counted == 3


def test_late_failed_and_drifted_are_three_things(tmp_path):
    rows = pa.table({"id": [1]})
    with open_lake(tmp_path, settings={"mirror.lag_alert": "1ms"}) as lake:
        table = lake.create_table("sad", rows.schema)
        table.mirror.pause()
        table.append(rows)
        worker = Worker(lake.engine, lake.store)
        worker.observe(lake.store.clock_ms() + 5000)
        names = ("mirror_late", "mirror_failed", "mirror_drift", "mirror_alert")
        assert [value(name, "sad") for name in names] == [1, 0, 0, 1]
        lake.drop_table("sad")
        worker.observe(lake.store.clock_ms())
        assert [value(name, "sad") for name in names] == [None] * 4


def test_the_service_tells_of_others_commits(shared_service):
    def versions() -> float:
        text = shared_service.http.get("/metrics").text
        assert "lake_up 1.0" in text
        assert "lake_worker_up 1.0" in text
        return float(re.search(r"^lake_versions_total (\S+)$", text, re.MULTILINE)[1])

    before = versions()
    with shared_service.lake() as lake:
        lake.table("hr.people").append(pa.table({"id": [1]}))
    until(lambda: versions() == before + 1)
    deadline = time.monotonic() + 10
    pattern = r'^mirror_publish_latency_ms_bucket\{le="\+Inf"\} ([1-9]\S*)$'
    while not re.search(pattern, shared_service.http.get("/metrics").text, re.MULTILINE):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_commits_are_counted_whatever_becomes_of_their_tables(tmp_path):
    """A counter that shrinks is a restart to Prometheus, and one that jumps a rush of commits."""
    rows = pa.table({"id": [1]})
    with open_lake(tmp_path) as lake:
        service = Service(lake, Jobs(), Vending({}, "off"))
        try:
            figures = LakeFigures(service)

            def counted() -> float:
                found = {item.name: item.samples[0].value for item in figures.collect()}
                return found["lake_versions"]

            assert counted() == 0
            gone, stays = (lake.create_table(name, rows.schema) for name in ("gone", "stays"))
            for table in (gone, stays, gone, stays):
                table.append(rows)
            until(lambda: counted() == 6)
            lake.drop_table("gone", purge=True)
            assert counted() == 6
            stays.append(rows)
            until(lambda: counted() == 7)
        finally:
            service.jobs.close()


def test_the_rules_fire_and_go_away(tmp_path):
    try:
        promtool = prometheus.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    for name in ("rules.yaml", "rules_test.yaml"):
        (tmp_path / name).write_text((RULES / name).read_text())
    command = [promtool, "test", "rules", "rules_test.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # A test that can't fail proves nothing.
    text = (tmp_path / "rules.yaml").read_text()
    (tmp_path / "rules.yaml").write_text(text.replace("> 300\n", "> 302\n"))
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def test_the_rules_name_metrics_that_there_are(shared_service):
    text = shared_service.http.get("/metrics").text
    rules = (RULES / "rules.yaml").read_text()
    named = set(re.findall(r"\b((?:mirror|lake|commit)_[a-z_]+)\b(?=[\[)({ ]|$)", rules))
    named = {name for name in named if "_" in name} - {"mirror_status"}
    assert len(named) >= 7
    assert not {name for name in named if f"\n{name}" not in text and f"# TYPE {name} " not in text}
