"""The SQL log by itself: what the mirror does with it is tested elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import open_directory
from tests.parts.postgres import PostgresServer


@pytest.fixture(scope="package", autouse=True)
def _no_mirror() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        # By the environment, which the writers' processes inherit.
        environment.setenv("DELTASQL_MIRROR_MODE", "off")
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server that waits for its disk: who waits for whom depends on it."""
    with open_directory("postgres") as directory, PostgresServer(directory) as server:
        yield server
