"""A lake, the roles of `db grants`, and connections as each of them.

All of it on the newest PostgreSQL and on the oldest that is supported.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

import deltasql
from deltasql.lake.database import grants
from tests.cli.grants.statements import ROLES, ROWS, as_role
from tests.conftest import fresh_database, log_template
from tests.parts.postgres import PostgresServer


@pytest.fixture(
    params=[
        pytest.param("postgres_server", id="newest", marks=pytest.mark.postgres),
        pytest.param("oldest_postgres", id="oldest", marks=pytest.mark.postgres),
    ]
)
def server(request: pytest.FixtureRequest) -> PostgresServer:
    found: PostgresServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def postgres_url(server: PostgresServer) -> Iterator[str]:
    with fresh_database(server, log_template(server)) as name:
        yield server.url(name)


@pytest.fixture
def names(server) -> dict[str, str]:
    """Roles of the cluster, with names that need quoting."""
    made = {role: f'{role} "{uuid.uuid4().hex[:8]}"' for role in ROLES}
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in made.values():
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    return made


@pytest.fixture
def strict() -> bool:
    """Whether writers only call functions."""
    return False


@pytest.fixture
def connect_as(postgres_url, names, tmp_path, strict) -> Iterator[Callable[[str], deltasql.Lake]]:
    lakes = []

    def connect(role: str) -> deltasql.Lake:
        url = as_role(postgres_url, names[role]) if role != "owner" else postgres_url
        lake = deltasql.connect(
            url, location=str(tmp_path / "lake"), settings={"sql.timeout": "5s"}
        )
        lakes.append(lake)
        return lake

    owner = connect("owner")
    owner.create_table("t", ROWS.schema).append(ROWS)
    # An open lake mirrors for a moment what others commit.
    owner.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(grants(**names, strict=strict))
    yield connect
    for lake in lakes:
        lake.close()
