"""Lakes on a disk and on S3, by SQLite and PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import deltasql
from deltasql.lake.table import Table
from tests.mirror.scenarios.broken_store import (
    SCHEMA,
    Connect,
)


@pytest.fixture(params=["local", "s3", pytest.param("postgres", marks=pytest.mark.postgres)])
def connect(request, tmp_path) -> Iterator[Connect]:
    """Lakes on one database: SQLite with a disk or S3, PostgreSQL with a disk."""
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    if request.param == "s3":
        server = request.getfixturevalue("seaweedfs")
        location, options = server.location(uuid.uuid4().hex), server.options()
    else:
        location, options = (tmp_path / "lake").as_uri(), {}
    opened: list[deltasql.Lake] = []

    def make(**settings: Any) -> deltasql.Lake:
        given = {f"mirror.{name}": value for name, value in settings.items()}
        opened.append(deltasql.connect(url, location=location, settings={**options, **given}))
        return opened[-1]

    yield make
    for lake in opened:
        lake.close()


@pytest.fixture
def lake(connect: Connect) -> deltasql.Lake:
    return connect()


@pytest.fixture
def later(connect: Connect) -> deltasql.Lake:
    """A lake that leaves everything to a worker, which here is `mirror.run(once=True)`."""
    return connect(mode="async")


@pytest.fixture
def table(lake: deltasql.Lake) -> Table:
    return lake.create_table("t", SCHEMA)
