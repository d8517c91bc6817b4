"""Random histories of several writers are serial, whatever runs at once and whatever is cut.

Every version must be what its operation makes of the version before it. `WriteSerializable` lets a
commit leave blind appends alone that it did not see, and nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import open_directory
from tests.histories.cutting import Cutter
from tests.histories.running import History
from tests.parts.pgbouncer import PgBouncer
from tests.parts.postgres import PostgresServer
from tests.parts.toxiproxy import Proxy, Toxiproxy
from tests.sizes import FULL

SEEDS = range(25 if FULL else 1)
STEPS = 12


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_serial(store_url: str, tmp_path: Path, seed: int):
    history = History(store_url, str(tmp_path / "lake"), seed)
    try:
        print(history.run(STEPS))
    finally:
        history.close()


@pytest.fixture(scope="module")
def cut_pooler(
    toxiproxy: Toxiproxy, postgres_server: PostgresServer
) -> Iterator[tuple[PgBouncer, Proxy]]:
    """A pooler that reaches its server through a proxy."""
    behind = toxiproxy.proxy(f"behind_{uuid.uuid4().hex}", postgres_server.port)
    with open_directory("pgbouncer") as directory, PgBouncer(directory, behind.port) as pooler:
        yield pooler, behind
    behind.delete()


@pytest.fixture
def way(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, postgres_dbname: str
) -> tuple[str, list[Proxy]]:
    """The address of a fresh database, and what on the way to it can be cut."""
    made: Callable[[], tuple[str, list[Proxy]]] = {
        "server": lambda: _to_server(request, postgres_server, postgres_dbname),
        "pooler": lambda: _to_pooler(request, postgres_dbname),
    }[request.param]
    return made()


def _to_server(
    request: pytest.FixtureRequest, server: PostgresServer, name: str
) -> tuple[str, list[Proxy]]:
    proxy = request.getfixturevalue("postgres_proxy")
    return server.url(name, port=proxy.port), [proxy]


def _to_pooler(request: pytest.FixtureRequest, name: str) -> tuple[str, list[Proxy]]:
    pooler, behind = request.getfixturevalue("cut_pooler")
    toxiproxy = request.getfixturevalue("toxiproxy")
    before = toxiproxy.proxy(f"before_{uuid.uuid4().hex}", pooler.port)
    request.addfinalizer(before.delete)
    url = pooler.url(name).replace(f":{pooler.port}/", f":{before.port}/")
    return url, [before, behind, behind]


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["server", "pooler"], indirect=True)
@pytest.mark.parametrize("seed", SEEDS)
def test_serial_while_connections_are_cut(
    way: tuple[str, list[Proxy]],
    postgres_url: str,
    postgres_server: PostgresServer,
    postgres_dbname: str,
    tmp_path: Path,
    seed: int,
):
    url, proxies = way
    cutter = Cutter(proxies, postgres_server.url(), postgres_dbname, seed)
    history = History(url, str(tmp_path / "lake"), seed, plain_url=postgres_url)
    try:
        print(history.run(STEPS, before=cutter.start, after=cutter.stop), f"{cutter.cuts} cuts")
    finally:
        history.close()
