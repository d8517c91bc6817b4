"""What `deltasql doctor` checks: each finding with its remedy."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, Literal

from deltasql.errors import DeltaSqlError, SchemaVersionError
from deltasql.lake.catalog import Lake, open_lake
from deltasql.lake.looking.probing import probe
from deltasql.mirror.released import is_released
from deltasql.mirror.validation.sampling import sample
from deltasql.store.upkeep.interface import WORKER
from deltasql.version import __version__

if TYPE_CHECKING:
    from deltasql.settings.sources import Configuration

_DRIVERS: Final = ("psycopg", "duckdb", "pyspark", "fastapi")
_CLOCKS_APART: Final = 5.0
# For how many tables the newest commit files are read.
_SAMPLED: Final = 20
State = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; a problem has a remedy."""

    check: str
    state: State
    finding: str
    remedy: str = ""


def examine(
    configuration: Configuration, more: Callable[[], Iterator[Finding]] = lambda: iter(())
) -> Iterator[Finding]:
    """Check everything that a lake needs, in the order in which it is needed.

    `more` checks what other layers know about, such as Spark.
    """
    yield _versions()
    yield from more()
    try:
        lake = open_lake(configuration.overriding({"sql.schema": "error"}))
    except SchemaVersionError as error:
        is_empty = error.found == 0
        told = "it has no log yet" if is_empty else f"its schema is version {error.found}"
        remedy = "deltasql init" if is_empty else "deltasql db migrate"
        if error.found > error.expected:
            remedy = "upgrade deltasql"
        yield Finding("database", "problem", told, remedy)
        return
    except DeltaSqlError as error:
        yield _failed("database", error)
        return
    with lake:
        yield from _checks(lake)


def _checks(lake: Lake) -> Iterator[Finding]:
    for name, check in (
        ("database", _database),
        ("replica", _replica),
        ("grants", _grants),
        ("clock", _clock),
        ("store", _store),
        ("worker", _worker),
        ("mirror", _mirror),
        ("drift", _drift),
    ):
        try:
            yield from check(lake)
        except DeltaSqlError as error:
            yield _failed(name, error)


def _failed(check: str, error: DeltaSqlError) -> Finding:
    told = f"{error.problem}: {error.cause}" if error.cause else error.problem
    return Finding(check, "problem", told, error.remedy)


def _versions() -> Finding:
    found = [f"deltasql {__version__}", f"Python {platform.python_version()}"]
    for name in _DRIVERS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return Finding("versions", "ok", ", ".join(found))


def _database(lake: Lake) -> Iterator[Finding]:
    server = lake.store.describe()
    told = f"{lake.url}: {server['dialect']} {server.get('server_version', '')}".rstrip()
    if server.get("everybody_may_create") == "on":
        yield Finding(
            "database",
            "problem",
            f"{told}; every role may create functions in the log's schema",
            "REVOKE CREATE ON SCHEMA … FROM PUBLIC, as deltasql db grants does",
        )
    else:
        yield Finding("database", "ok", told)


def _replica(lake: Lake) -> Iterator[Finding]:
    found = lake.store.replica()
    if found is not None:
        yield Finding("replica", "ok", f"{found[0]}: {found[1]}")


def _grants(lake: Lake) -> Iterator[Finding]:
    role = lake.store.role()
    who = f"the role {role}" if role else "anyone who can open the file"
    if not lake.store.may_commit():
        yield Finding(
            "grants", "note", f"{who} may read only", "deltasql db grants prints what writers need"
        )
    elif not lake.store.may_purge():
        yield Finding(
            "grants", "ok", f"{who} may commit; only the owner may adopt, recover and purge"
        )
    else:
        yield Finding("grants", "ok", f"{who} may do everything")


def _clock(lake: Lake) -> Iterator[Finding]:
    before = time.time()
    theirs = lake.store.clock_ms() / 1000
    apart = theirs - (before + time.time()) / 2
    if abs(apart) > _CLOCKS_APART:
        yield Finding(
            "clock",
            "problem",
            f"the database's clock is {abs(apart):.0f} s {'ahead' if apart > 0 else 'behind'}",
            "let NTP set both clocks: times of versions are the database's",
        )
    else:
        yield Finding("clock", "ok", f"{abs(apart):.1f} s from the database's")


def _store(lake: Lake) -> Iterator[Finding]:
    if lake.location is None:
        yield Finding(
            "store", "note", "new tables have no location", "set DELTASQL_LOCATION or --location"
        )
        return
    probe(lake.objects(lake.location))
    shown = lake.objects(lake.location).location
    yield Finding("store", "ok", f"{shown}: an object was written, listed, read and deleted")


def _worker(lake: Lake) -> Iterator[Finding]:
    alive = [item for item in lake.sessions() if item.kind == WORKER and item.is_alive]
    if alive:
        hosts = ", ".join(sorted({f"{item.host} ({item.pid})" for item in alive}))
        yield Finding("worker", "ok", f"{len(alive)} running: {hosts}")
    else:
        yield Finding(
            "worker",
            "note",
            "none is running: checkpoints and upkeep wait for writers",
            "run deltasql mirror run as a service",
        )


def _mirror(lake: Lake) -> Iterator[Finding]:
    status = lake.mirror.status()
    failed = [item for item in status if item.is_failed]
    late = [item for item in status if item.lag_versions and not item.is_failed]
    for item in failed:
        told = f"{item.table} failed: {item.error_message or 'see the log of the worker'}"
        yield Finding("mirror", "problem", told, f"deltasql mirror repair {item.table}")
    for item in late:
        paused = item.is_paused
        yield Finding(
            "mirror",
            "problem",
            f"{item.table} is {item.lag_versions} versions behind{', paused' if paused else ''}",
            f"deltasql mirror resume {item.table}" if paused else "deltasql mirror run --once",
        )
    if not failed and not late:
        tables = f"{len(status)} table{'s' * (len(status) != 1)}"
        yield Finding("mirror", "ok", f"{tables}, none behind")


def _drift(lake: Lake) -> Iterator[Finding]:
    tables = [table for table in lake.tables() if not is_released(table.read_only)]
    looked = 0
    drifted = False
    for table in tables[:_SAMPLED]:
        found = sample(lake.store, table.objects, table.target)
        looked += found.looked_at
        if not found.ok:
            drifted = True
            yield Finding(
                "drift",
                "problem",
                f"{table.name}: {found.told}",
                f"deltasql mirror validate {table.name}, then deltasql mirror repair {table.name}",
            )
    if not drifted:
        yield Finding(
            "drift",
            "ok",
            f"the files of each mirror match SQL, as do the bytes of the newest {looked}",
        )
