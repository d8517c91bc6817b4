"""What upkeep keeps is whole for all stock readers: every version, after whatever was done."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import deltasql
from tests.maintenance.machine import Machine
from tests.maintenance.tables import ids
from tests.maintenance.test_versions import SIZE, read_by_delta_rs
from tests.parts.spark import Spark
from tests.readers.engines import DuckDb, Polars
from tests.sizes import FULL


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lake_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def kept(lake_url: str, tmp_path: Path) -> Iterator[deltasql.Lake]:
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as opened:
        yield opened


@pytest.mark.timeout(3600 if FULL else 300)
def test_everybody_reads_every_version_that_is_kept(
    kept: deltasql.Lake, lake_url: str, spark: Spark, duck: DuckDb
):
    readers = {
        "Spark": lambda place, version: [row[0] for row in spark.read(place, version)["rows"]],
        "DuckDB": lambda place, version: ids(duck.rows(place, version)),
        "Polars": lambda place, version: ids(Polars().rows(place, version)),
    }
    run_state_machine_as_test(
        partial(Machine, kept, lake_url, {"delta-rs": read_by_delta_rs}, readers),
        settings=settings(SIZE, max_examples=20 if FULL else 2),
    )
