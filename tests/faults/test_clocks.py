"""The server's clock steps back and forth: the mirror goes on, and nobody waits for a clock."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator

import pytest

import deltasql
from deltasql.mirror.worker import Worker
from deltasql.store.mirroring.interface import Lease, Work
from deltasql.telemetry import metrics
from tests.conftest import open_directory
from tests.faults.waiting import Background, until, within
from tests.parts import faketime
from tests.parts.faketime import FalseClock
from tests.parts.postgres import PostgresServer
from tests.parts.process import PartMissingError
from tests.stress.writers import SCHEMA, new_add

SYNC = {"mirror.mode": "sync"}
# Days from the true time: while the lake works, and after the step.
STEPS = pytest.mark.parametrize(
    ("before", "after"), [(0, -3), (30, 0)], ids=["three days back", "thirty ahead and back"]
)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[PostgresServer, FalseClock]]:
    try:
        faketime.find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
    with open_directory("faketime") as directory:
        clock = FalseClock(directory)
        with PostgresServer(directory, clock.environment) as running:
            yield running, clock


@pytest.fixture
def clock(server) -> Iterator[FalseClock]:
    yield server[1]
    server[1].shift(0)


@pytest.fixture
def url(server, clock, request) -> str:
    return server[0].create_database(f"clock_{abs(hash(request.node.name))}")


def _server_days(lake: deltasql.Lake) -> float:
    return (lake.store.clock_ms() / 1000 - time.time()) / 86_400


def _leased(lake: deltasql.Lake, table: deltasql.Table, work: Work = Work.COMMITS) -> Lease:
    """The lease, as soon as the publish run after the last commit has given it back."""
    found: list[Lease] = []

    def take() -> bool:
        lease = lake.store.acquire_lease(table.table_id, "somebody", 30, work)
        found.extend([lease] if lease else [])
        return bool(found)

    until(take)
    return found[0]


@STEPS
def test_the_mirror_goes_on(url, clock, tmp_path, before, after):
    clock.shift(before)
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=SYNC) as lake:
        table = lake.create_table("a", SCHEMA, partition_by=["p"])
        for number in range(11):
            table.commit([new_add(number, 1)])
        lake.mirror.run(once=True)
        assert abs(_server_days(lake) - before) < 0.1
        clock.shift(after)
        assert abs(_server_days(lake) - after) < 0.1
        with within(10):
            for number in range(9):
                table.commit([new_add(number, 2)])
            status = table.mirror.status()
            assert (status.mirrored_version, status.lag_versions) == (20, 0)
            assert lake.mirror.run(once=True) == 1, "the checkpoint of version 20"
            assert Background(lambda: table.mirror.repair(force=True)).result().ok
        assert table.mirror.validate().ok


@STEPS
def test_a_lease_of_another_time_is_not_believed(url, clock, tmp_path, before, after):
    """Its holder died, and its end is days away."""
    clock.shift(before)
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=SYNC) as lake:
        table = lake.create_table("a", SCHEMA, partition_by=["p"])
        for work in Work:
            _leased(lake, table, work)
        clock.shift(after)
        table.commit([new_add("a", 1)])
        assert table.mirror.status().lag_versions == 0
        assert Background(table.mirror.repair).result(10).ok


def test_a_lease_of_this_time_is(url, tmp_path):
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=SYNC) as lake:
        table = lake.create_table("a", SCHEMA, partition_by=["p"])
        lease = _leased(lake, table)
        assert lake.store.acquire_lease(table.table_id, "other", 30) is None
        assert not lake.store.look(table.table_id, 0).is_free
        lake.store.release_lease(lease)
        assert lake.store.look(table.table_id, 0).is_free
        assert lake.store.acquire_lease(table.table_id, "other", 30) is not None


@STEPS
def test_lag_alerts(url, clock, tmp_path, caplog, before, after):
    """Versions that seem to come from the future are late all the same."""
    clock.shift(before)
    settings = {"mirror.mode": "async", "mirror.lag_alert": "200ms"}
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
        table = lake.create_table("a", SCHEMA, partition_by=["p"])
        clock.shift(after)
        table.commit([new_add("a", 1)])
        worker = Worker(lake.engine, lake.store)
        with caplog.at_level(logging.ERROR, "deltasql.mirror"):
            worker.observe(lake.store.clock_ms())
            time.sleep(0.3)
            worker.observe(lake.store.clock_ms())
        # Seconds, whatever the clock has done: a busy machine may take some.
        assert re.search("a: the mirror is 2 versions and [0-9] s behind", caplog.text)
        assert metrics.REGISTRY.get_sample_value("mirror_alert", {"table": "a"}) == 1


@STEPS
def test_an_attempt_of_another_time_holds_up_no_other(url, clock, tmp_path, before, after):
    clock.shift(before)
    settings = {**SYNC, "mirror.retry_backoff_base": "1m"}
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
        table = lake.create_table("a", SCHEMA, partition_by=["p"])
        lake.store.forget_mirrored(table.table_id, first=0, last=0)
        lease = _leased(lake, table)
        assert lake.store.record_failure(lease, 0, "no space", is_final=False)
        lake.store.release_lease(lease)
        clock.shift(after)
        table.commit([new_add("a", 1)])
        assert table.mirror.status().lag_versions == 0
