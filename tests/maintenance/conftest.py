"""A lake on each database, and what its tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import deltasql
from tests.sizes import FULL

# Minutes of waiting for a retention to pass. What `test_vacuum_killed.py` does on a disk, this
# does in a bucket, beside writers and readers.
collect_ignore = [] if FULL else ["test_killed_on_s3.py"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lake_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database of the two kinds that several processes may open."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def lake(lake_url: str, tmp_path: Path) -> Iterator[deltasql.Lake]:
    with deltasql.connect(lake_url, location=str(tmp_path / "lake")) as opened:
        yield opened


@pytest.fixture
def any_lake(store_url: str, tmp_path: Path) -> Iterator[deltasql.Lake]:
    with deltasql.connect(store_url, location=str(tmp_path / "lake")) as opened:
        yield opened


@pytest.fixture
def quick_lake(sqlite_url: str, tmp_path: Path) -> Iterator[deltasql.Lake]:
    """For what does not depend on the database."""
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as opened:
        yield opened
