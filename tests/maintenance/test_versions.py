"""Made-up histories with all kinds of upkeep and deaths: see `machine`."""

from __future__ import annotations

from functools import cache, partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import deltasql
from tests.maintenance.machine import Machine
from tests.maintenance.tables import ids
from tests.readers.engines import DeltaRs
from tests.sizes import FULL

SIZE = settings(
    max_examples=100 if FULL else 6,
    stateful_step_count=50 if FULL else 20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@cache
def _delta_rs() -> DeltaRs:
    return DeltaRs()


def read_by_delta_rs(place: str, version: int) -> list[int]:
    return ids(_delta_rs().rows(place, version))


@pytest.mark.stress
@pytest.mark.timeout(3600 if FULL else 300)
def test_every_version_that_is_kept_is_whole(lake: deltasql.Lake, lake_url: str):
    judges = {"delta-rs": read_by_delta_rs}
    run_state_machine_as_test(partial(Machine, lake, lake_url, judges), settings=SIZE)
