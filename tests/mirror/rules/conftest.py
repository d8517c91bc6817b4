"""A table whose checkpoints are due often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import deltasql
from deltasql.lake.table import Table
from tests.mirror.rules.log_actions import SCHEMA


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[deltasql.Lake]:
    url, place = f"sqlite:///{tmp_path / 'lake.db'}", (tmp_path / "lake").as_uri()
    with deltasql.connect(url, location=place) as lake:
        yield lake


@pytest.fixture
def table(lake: deltasql.Lake) -> Table:
    """Its checkpoints are due at every second version."""
    return lake.create_table("t", SCHEMA, properties={"delta.checkpointInterval": "2"})
