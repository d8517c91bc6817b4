"""Scenarios of how it is written: in order, once, with its status, and again."""

from __future__ import annotations

import itertools
import logging
import os
import re
import threading
import time

import pytest

import deltasql
from deltasql.errors import MirrorConflictError
from deltasql.lake.table import Table
from deltasql.mirror.worker import Worker
from deltasql.objectstore import files
from deltasql.telemetry import metrics
from deltasql.testing.faulty_store import Call, Fault
from tests.mirror.scenarios.broken_store import (
    SCHEMA,
    add,
    broken,
    commits,
    failing_puts,
    name,
    names,
    status,
)

# --- post-commit mirroring ----------------------------------------------------------------


def test_scenario_sequencing_guarantee(lake, table):
    table.commit([add("a")])
    store = broken(lake, table, lambda _: None)
    before = names(table)
    with pytest.raises(deltasql.VersionConflictError):
        table.commit([add("b")], expected_version=1)
    with pytest.raises(deltasql.ValidationError):
        table.commit([add("b"), add("b")])
    assert names(table) == before
    assert {call.verb for call in store.calls} <= {"head", "list"}


def test_scenario_mirroring_order(lake, table):
    seen: list[int] = []

    def look(call: Call) -> None:
        if call.verb == "put_if_absent" and call.path.endswith(".json"):
            seen.append(lake.store.head(table.table_id).version)

    broken(lake, table, look)
    for version in (1, 2):
        assert table.commit([add(str(version))]) == version
        assert seen[-1] == version, "SQL had it first"
        assert commits(table)[-1] == name(version), "and the mirror when the call returned"


# --- idempotent mirroring -----------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.EXISTS])
def test_scenario_duplicate_mirror_attempt(later, fault):
    table = later.create_table("t", SCHEMA)
    table.commit([add("a")])
    store = broken(
        later,
        table,
        lambda call: fault if call.path == name(1) and len(store.injected) == 0 else None,
    )
    later.mirror.run(once=True)
    later.mirror.run(once=True)
    assert len(store.injected) == 1
    assert status(later, table, 1).status == "SUCCESS"
    (record,) = later.store.commits(table.table_id, after=0)
    assert table.objects.read(name(1)) == record.body
    assert later.mirror.run(once=True) == 0


def test_scenario_overwrite_safety(later):
    table = later.create_table("t", SCHEMA)
    table.commit([add("a")])
    later.engine.catch_up(table.target)
    table.commit([add("b")])
    (ours,) = later.store.commits(table.table_id, after=1)
    table.objects.put(name(2), b'{"commitInfo":{}}\n')
    with pytest.raises(MirrorConflictError, match="differs from what SQL has"):
        later.engine.catch_up(table.target)
    assert table.objects.read(name(2)) == b'{"commitInfo":{}}\n'
    assert status(later, table, 2).status == "FAILED"
    table.objects.delete([name(2)])
    table.objects.put(name(2), ours.body)
    later.mirror.run(once=True)
    assert status(later, table, 2).status == "SUCCESS"


def test_a_conflict_is_recorded_with_its_own_version(later):
    table = later.create_table("t", SCHEMA)
    table.commit([add("a")])
    table.objects.put(name(1), b'{"commitInfo":{}}\n')
    later.mirror.run(once=True)
    assert commits(table) == [name(0), name(1)]
    assert [status(later, table, version).status for version in (0, 1)] == ["SUCCESS", "FAILED"]


# --- mirror status tracking ---------------------------------------------------------------


def test_scenario_recording_success(lake, table):
    before = lake.store.clock_ms()
    table.commit([add("a")])
    found = status(lake, table, 1)
    assert (found.status, found.json_written, found.error_message) == ("SUCCESS", True, None)
    assert before <= found.mirrored_at <= lake.store.clock_ms()


def test_scenario_recording_failure(connect):
    lake = connect(mode="async", max_retry_attempts=3)
    table = lake.create_table("t", SCHEMA)
    broken(lake, table, failing_puts())
    for attempt in (1, 2, 3):
        lake.mirror.run(once=True)
        found = status(lake, table, 0)
        assert found.retry_count == attempt
        assert "fault was injected" in found.error_message
        assert found.status == ("FAILED" if attempt == 3 else "PENDING")
        assert found.last_attempt_at is not None
        assert found.mirrored_at is None
    assert table.mirror.status().is_failed


def test_scenario_pending_status(later):
    table = later.create_table("t", SCHEMA)
    found = status(later, table, 0)
    assert (found.status, found.json_written, found.retry_count) == ("PENDING", False, 0)
    lease = later.store.acquire_lease(table.table_id, "somebody", 30)
    assert later.engine.catch_up(table.target) is None, "no second attempt meanwhile"
    assert commits(table) == []
    later.store.release_lease(lease)
    assert later.engine.catch_up(table.target) == 1


# --- mirror lag monitoring ----------------------------------------------------------------


def gauge(metric: str, table: Table) -> float | None:
    return metrics.REGISTRY.get_sample_value(metric, {"table": table.name})


def test_scenario_lag_calculation(later):
    table = later.create_table("lagging", SCHEMA)
    later.mirror.run(once=True)
    assert (table.mirror.status().lag_versions, table.mirror.status().lag_seconds) == (0, 0.0)
    for number in range(3):
        table.commit([add(str(number))])
    time.sleep(0.05)
    found = table.mirror.status()
    assert (found.version, found.mirrored_version, found.lag_versions) == (3, 0, 3)
    assert 0.05 <= found.lag_seconds < 60
    Worker(later.engine, later.store).observe(later.store.clock_ms())
    assert gauge("mirror_lag_versions", table) == 3
    assert gauge("mirror_lag_seconds", table) >= 0.05


def test_scenario_lag_alerting(later, caplog):
    table = later.create_table("late", SCHEMA)
    worker, now = Worker(later.engine, later.store), later.store.clock_ms()
    worker.observe(now + 30_000)
    assert gauge("mirror_alert", table) == 0
    with caplog.at_level(logging.ERROR, "deltasql.mirror"):
        worker.observe(now + 61_000)
    assert gauge("mirror_alert", table) == 1
    assert re.search(r"late: the mirror is 1 versions and 6\d s behind", caplog.text)
    later.mirror.run(once=True)
    worker.observe(now + 61_000)
    assert gauge("mirror_alert", table) == 0


# --- background reconciliation ------------------------------------------------------------


def test_scenario_gap_detection(connect):
    lake = connect(mode="async", max_retry_attempts=1)
    table = lake.create_table("t", SCHEMA)
    failing = broken(lake, table, failing_puts())
    lake.mirror.run(once=True)
    assert status(lake, table, 0).status == "FAILED"
    table.commit([add("a")])
    with lake.store.locked([]) as log:
        log.execute("DELETE FROM dl_mirror_status WHERE version = 1")
    failing.schedule = lambda _: None
    assert lake.mirror.run(once=True) == 2
    assert commits(table) == [name(0), name(1)]
    assert [status(lake, table, version).status for version in (0, 1)] == ["SUCCESS"] * 2


def test_scenario_automatic_retry(connect):
    waits = [connect().engine.settings.mirror_backoff(count) for count in range(1, 7)]
    assert waits == [1, 2, 4, 8, 16, 3600]
    lake = connect(mode="async", retry_backoff_base="50ms", max_retry_attempts=5)
    table = lake.create_table("t", SCHEMA)
    attempts: list[float] = []
    fails = failing_puts(3)

    def choose(call: Call) -> Fault | None:
        fault = fails(call)
        if fault is not None:
            attempts.append(time.monotonic())
        return fault

    broken(lake, table, choose)
    stop = threading.Event()
    worker = threading.Thread(target=lambda: lake.mirror.run(stop=stop))
    worker.start()
    try:
        deadline = time.monotonic() + 60
        while status(lake, table, 0).status != "SUCCESS" and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        stop.set()
        worker.join()
    assert status(lake, table, 0).status == "SUCCESS"
    waits = [after - before for before, after in itertools.pairwise(attempts)]
    assert len(waits) == 2
    assert waits[0] >= 0.05
    assert waits[1] >= 0.1


def test_scenario_gap_notification(connect, caplog):
    lake = connect(mode="async", max_retry_attempts=2)
    table = lake.create_table("stuck", SCHEMA)
    broken(lake, table, failing_puts())
    before = metrics.REGISTRY.get_sample_value("mirror_failures_total", {"table": "stuck"}) or 0
    for _ in range(2):
        lake.mirror.run(once=True)
    with caplog.at_level(logging.ERROR, "deltasql.mirror"):
        Worker(lake.engine, lake.store).observe(lake.store.clock_ms())
    assert status(lake, table, 0).status == "FAILED"
    assert "stuck: the mirror is 1 versions" in caplog.text
    assert "fault was injected" in caplog.text
    assert gauge("mirror_alert", table) == 1
    after = metrics.REGISTRY.get_sample_value("mirror_failures_total", {"table": "stuck"})
    assert after == before + 2


# --- atomic object store operations -------------------------------------------------------


def test_scenario_conditional_put(lake, table):
    store = broken(lake, table, lambda _: None)
    table.commit([add("a")])
    writes = {call.verb for call in store.calls if call.verb not in ("head", "read", "list")}
    assert writes == {"put_if_absent"}
    body = table.objects.read(name(1))
    assert table.objects.put_if_absent(name(1), b"other") is False
    assert table.objects.read(name(1)) == body


def test_scenario_atomic_rename(tmp_path, monkeypatch):
    url, place = f"sqlite:///{tmp_path / 'lake.db'}", tmp_path / "lake"
    published: list[tuple[str, bytes]] = []
    publish = files.publish

    def look(temporary: str, full: str) -> bool:
        assert not os.path.lexists(full)
        with open(temporary, "rb") as file:  # noqa: PTH123
            published.append((os.path.basename(full), file.read()))  # noqa: PTH119
        return publish(temporary, full)

    monkeypatch.setattr(files, "publish", look)
    with deltasql.connect(url, location=place.as_uri()) as lake:
        table = lake.create_table("t", SCHEMA)
        table.commit([add("a")])
    whole = {path.name: path.read_bytes() for path in (place / "t" / "_delta_log").iterdir()}
    assert dict(published) == whole, "complete under another name, and no temporary file is left"
    assert f"{1:020}.json" in whole
