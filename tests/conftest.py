"""Fixtures every test may use: databases of the three kinds, and parts that can be broken."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from deltasql.store.connect import open_log
from tests import scratch
from tests.conformance import tables as conformance
from tests.parts import azurite as azurite_part
from tests.parts import oldest_postgres as oldest_postgres_part
from tests.parts import pgbouncer as pgbouncer_part
from tests.parts import seaweedfs as seaweedfs_part
from tests.parts import toxiproxy as toxiproxy_part
from tests.parts import versitygw as versitygw_part
from tests.parts.azurite import Azurite
from tests.parts.pgbouncer import PgBouncer
from tests.parts.postgres import PostgresServer
from tests.parts.process import PartMissingError
from tests.parts.seaweedfs import SeaweedFs
from tests.parts.toxiproxy import Proxy, Toxiproxy
from tests.parts.versitygw import VersityGateway
from tests.sizes import FULL, is_in_turn

scratch.choose()

# The machine would have to crash for writes of shared servers to matter: they wait for no disk,
# which takes most of the time that a database of each test's own would.
HASTY = {"fsync": "off", "full_page_writes": "off"}

pytest_plugins = ["tests.durations", "tests.skips", "tests.workers"]

# Shared machines pause at any moment: a slow example is no finding.
# The gate makes up the same cases each time; the full run looks for new ones.
settings.register_profile("deltasql", deadline=None, print_blob=True, derandomize=not FULL)
settings.load_profile("deltasql")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `make test-full` repeats, and mark what needs PostgreSQL.

    So `-m "not postgres"` is quick to say. A test that is named is run.
    """
    if not any("::" in argument for argument in config.args):
        left_out = [item for item in items if not _is_in_turn(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _is_in_turn(item)]
    for item in items:
        if {"postgres_server", "private_postgres", "oldest_postgres"} & set(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.postgres)


def _is_in_turn(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is None or is_in_turn(item.nodeid, str(call.params.get("store_url")))


@contextmanager
def open_directory(name: str) -> Iterator[Path]:
    """A folder that a server running as another user can reach; pytest's own are closed."""
    directory = Path(tempfile.mkdtemp(prefix=f"deltasql-{name}-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@cache
def log_template(server: PostgresServer) -> str:
    """The name of a database that has the tables of a log: a copy takes a third of the time."""
    open_log(server.create_database("template_log"), timeout=60).close()
    return "template_log"


@contextmanager
def fresh_database(server: PostgresServer, template: str | None = None) -> Iterator[str]:
    """The name of a database that is dropped when the block ends."""
    name = f"test_{uuid.uuid4().hex}"
    server.create_database(name, template)
    yield name
    server.drop_database(name)


@pytest.fixture(scope="session")
def stress_factor() -> float:
    """How much of its full size a stress test should take, from DELTASQL_STRESS."""
    return float(os.environ.get("DELTASQL_STRESS", "0.1"))


@pytest.fixture(scope="session")
def conformance_dir() -> Path:
    """The conformance tables, which lie beside the repository."""
    if not conformance.TABLES:
        pytest.skip(conformance.MISSING)
    return conformance.ROOT


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for the whole session; never stop it (see `private_postgres`)."""
    with (
        open_directory("postgres") as directory,
        PostgresServer(directory, settings=HASTY) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def oldest_postgres() -> Iterator[PostgresServer]:
    """A server of the oldest version that is supported, as hasty as the shared one."""
    _skip_if_missing(oldest_postgres_part.find)
    with (
        open_directory("oldest") as directory,
        PostgresServer(directory, settings=HASTY, installed=oldest_postgres_part.find()) as server,
    ):
        yield server


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, to stop, kill and restart."""
    with open_directory("postgres") as directory, PostgresServer(directory) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a database that has the tables of a log."""
    return log_template(postgres_server)


@pytest.fixture
def postgres_dbname(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> Iterator[str]:
    """The name of a fresh database on the shared server, empty unless it is a `store_url`."""
    is_copy = "store_url" in request.fixturenames
    template = request.getfixturevalue("postgres_template") if is_copy else None
    with fresh_database(postgres_server, template) as name:
        yield name


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_dbname: str) -> str:
    """The address of a fresh PostgreSQL database."""
    return postgres_server.url(postgres_dbname)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'lake.db'}"


@pytest.fixture
def duckdb_url(tmp_path: Path) -> str:
    """The address of a DuckDB database that does not exist yet."""
    return f"duckdb:///{tmp_path / 'lake.duckdb'}"


@pytest.fixture(scope="session")
def duckdb_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that has the tables of a log: a copy takes a sixth of the time."""
    path = tmp_path_factory.mktemp("template") / "log.duckdb"
    open_log(f"duckdb:///{path}", timeout=60).close()
    return path


_KINDS = ["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=_KINDS)
def empty_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database of each kind in turn, for tests of its first tables."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=_KINDS)
def store_url(request: pytest.FixtureRequest) -> str:
    """The address of a log without a table in a new database of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    if request.param == "duckdb":
        template = request.getfixturevalue("duckdb_template")
        shutil.copyfile(template, url.removeprefix("duckdb:///"))
    return url


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """Transaction pooling in front of the shared server."""
    _skip_if_missing(pgbouncer_part.find)
    with (
        open_directory("pgbouncer") as directory,
        PgBouncer(directory, postgres_server.port) as pool,
    ):
        yield pool


@pytest.fixture
def pgbouncer_url(pgbouncer: PgBouncer, postgres_dbname: str) -> str:
    """The address of a fresh PostgreSQL database, through pgbouncer."""
    return pgbouncer.url(postgres_dbname)


@pytest.fixture(scope="session")
def toxiproxy() -> Iterator[Toxiproxy]:
    """A server for proxies that misbehave on demand."""
    _skip_if_missing(toxiproxy_part.find)
    with open_directory("toxiproxy") as directory, Toxiproxy(directory) as server:
        yield server


@pytest.fixture
def postgres_proxy(toxiproxy: Toxiproxy, postgres_server: PostgresServer) -> Iterator[Proxy]:
    """A proxy before the shared server: `postgres_server.url(name, port=postgres_proxy.port)`."""
    proxy = toxiproxy.proxy(f"postgres_{uuid.uuid4().hex}", postgres_server.port)
    yield proxy
    proxy.delete()


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFs]:
    """An S3 server for the whole session; one to stop is `private_seaweedfs`."""
    _skip_if_missing(seaweedfs_part.find)
    with open_directory("seaweedfs") as directory, SeaweedFs(directory) as server:
        yield server


@pytest.fixture
def private_seaweedfs() -> Iterator[SeaweedFs]:
    """An S3 server of the test's own, to stop, kill and restart."""
    _skip_if_missing(seaweedfs_part.find)
    with open_directory("seaweedfs") as directory, SeaweedFs(directory) as server:
        yield server


@pytest.fixture(scope="session")
def versitygw() -> Iterator[VersityGateway]:
    """A second S3 server for the whole session, where its program was built."""
    _skip_if_missing(versitygw_part.find)
    with open_directory("versitygw") as directory, VersityGateway(directory) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """An Azure Blob service for the whole session."""
    _skip_if_missing(azurite_part.find)
    with open_directory("azurite") as directory, Azurite(directory) as server:
        yield server


def _skip_if_missing(find: Callable[[], object]) -> None:
    try:
        find()
    except PartMissingError as problem:
        pytest.skip(str(problem))
