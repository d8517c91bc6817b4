"""The contract of a log store on the oldest PostgreSQL that is supported; all at full size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deltasql.testing import LogStoreContract
from deltasql.testing.contracts.commits import CommitContract
from deltasql.testing.contracts.outcomes import OutcomeContract
from tests.conftest import fresh_database, log_template
from tests.parts.postgres import PostgresServer
from tests.sizes import FULL


@pytest.fixture
def store_url(oldest_postgres: PostgresServer) -> Iterator[str]:
    with fresh_database(oldest_postgres, log_template(oldest_postgres)) as name:
        yield oldest_postgres.url(name)


class _Part(CommitContract, OutcomeContract):
    """What writers depend on."""


class TestLogStore(LogStoreContract if FULL else _Part):  # type: ignore[misc]
    pass
