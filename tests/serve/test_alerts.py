"""Prometheus itself scrapes a service: alerts fire and go away, and no panel is empty."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

import deltasql
from tests.parts import prometheus
from tests.parts.process import PartMissingError
from tests.serve.conftest import start

DOCS = Path(__file__).parents[2] / "docs"
ROWS = pa.table({"id": [1]})
# Quicker than in a real life, or the tests would take their minutes.
QUICK = ["mirror.validate_interval=500ms", "mirror.poll_interval=200ms",
         "mirror.reconcile_interval=1s", "mirror.retry_backoff_base=200ms",
         "mirror.sync_timeout=200ms"]  # fmt: skip


def quick_rules() -> str:
    """The rules that users get, with seconds for their minutes."""
    text = (DOCS / "prometheus" / "rules.yaml").read_text()
    text = re.sub(r"for: \d+m", "for: 0s", text)
    for old, new in (("mirror_lag_seconds) > 300", "mirror_lag_seconds) > 2"), ("- 120)", "- 20)")):
        assert old in text
        text = text.replace(old, new)
    return text


def test_alerts_and_panels(private_seaweedfs, tmp_path):
    try:
        prometheus.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    store, url = private_seaweedfs, f"sqlite:///{tmp_path / 'lake.db'}"
    location = store.location("alerts")
    with deltasql.connect(url, location=location, settings=store.options()) as lake:
        table = lake.create_table("sales.orders", ROWS.schema)
        table.append(ROWS)
        objects = table.objects
        settings = [part for item in QUICK for part in ("--set", item)]
        env = {f"DELTASQL_{key.upper().replace('.', '_')}": value
               for key, value in store.options().items()}  # fmt: skip
        env["AWS_EC2_METADATA_DISABLED"] = "true"
        service = start(tmp_path, *settings, env=env, url=url, location=location)
        target = service.address.removeprefix("http://")
        (tmp_path / "prometheus").mkdir()
        watch = prometheus.Prometheus(tmp_path / "prometheus", target, quick_rules())
        try:
            with watch:
                _until(lambda: watch.query("lake_up == 1"))
                table.append(ROWS)
                _a_foreign_file(watch, objects)
                _the_store_dies(watch, store, service.http)
                _no_panel_is_empty(watch)
                service.stop()
                watch.wait(fires="NoWorker")
                again = start(tmp_path, *settings, "--port", target.rpartition(":")[2],
                              env=env, url=url, location=location)  # fmt: skip
                service.http.close()
                service = again
                watch.wait(ends="NoWorker")
                # One slow version of three is slow for the five minutes that its rule looks at.
                assert watch.firing() <= {"MirrorSlow", "MirrorVerySlow"}
        finally:
            service.http.close()
            service.stop()


def _a_foreign_file(watch, objects):
    key = f"_delta_log/{99:020}.json"
    objects.put(key, b"{}\n")
    watch.wait(fires="MirrorDrift")
    objects.delete([key])
    watch.wait(ends="MirrorDrift")


def _the_store_dies(watch, store, http):
    store.stop()
    body = {"commit_id": "while-it-is-away", "actions": [{"txn": {"appId": "a", "version": 1}}]}
    answer = http.post("/api/v1/tables/sales.orders/commits", json=body, timeout=60)
    assert answer.status_code == 201
    watch.wait(fires="MirrorLate")
    store.start()
    watch.wait(ends="MirrorLate")
    watch.wait(ends="MirrorFailed")
    watch.wait(ends="MirrorDrift")


def _no_panel_is_empty(watch):
    """Every expression of Grafana's dashboard has a value, of figures that are numbers."""
    board = json.loads((DOCS / "grafana" / "dashboard.json").read_text())
    panels = [(panel["title"], target["expr"]) for panel in board["panels"]
              for target in panel["targets"]]  # fmt: skip
    assert len(panels) > 15
    assert all('job="$job"' in expression for _, expression in panels)
    for title, expression in panels:
        asked = expression.replace("$__rate_interval", "1m").replace("$job", "deltasql")
        _until(lambda asked=asked: watch.query(asked), title)
        # A histogram that nothing was added to would be NaN.
        assert all(item["value"][1] != "NaN" for item in watch.query(asked)), title


def _until(condition, what=""):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
