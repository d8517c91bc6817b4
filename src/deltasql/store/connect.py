"""From the URL of a lake to its log store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from deltasql.errors import ConfigError, DeltaSqlError
from deltasql.secrecy import discreet, raise_alone
from deltasql.settings.keys import DEFAULTS, Settings
from deltasql.settings.secrets import mask, scrubbed
from deltasql.store.interface import LogStore

_FORMS = "postgresql://user@host/database, sqlite:///lake.db or duckdb:///lake.duckdb"


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """A server to read from, and how old its answers may be, in seconds."""

    url: str = field(repr=False)
    max_age: float = DEFAULTS.sql_read_max_age

    @classmethod
    def of(cls, settings: Settings) -> ReplicaOptions | None:
        """The one that the settings name."""
        url = settings.sql_read_url
        return None if url is None else cls(url, settings.sql_read_max_age)


@discreet
def open_log(
    url: str,
    *,
    pool_size: int = DEFAULTS.sql_pool_size,
    timeout: float = DEFAULTS.sql_timeout,
    schema: str = DEFAULTS.sql_schema,
    replica: ReplicaOptions | None = None,
) -> LogStore:
    """The log store that a URL names.

    `timeout` bounds, in seconds, every wait for a connection or a lock. `schema` says what
    to do with a database whose schema is missing or old: `create` it, or raise an `error`.
    """
    try:
        return _open(url, replica, pool_size=pool_size, timeout=timeout, schema=schema)
    except UnicodeError:
        # Its message may quote the whole URL.
        raise_alone(
            ConfigError(
                "the URL of the database has characters that can't be sent",
                cause="the name of its host is none that can be resolved, or it is not UTF-8",
                remedy=f"write {_FORMS}, and other characters as in %C3%A9",
            )
        )
    except DeltaSqlError as error:
        # Drivers quote what they can't parse, and that may contain a password.
        for secret in (url, *([replica.url] if replica else [])):
            error = replace(
                error,
                problem=scrubbed(error.problem, secret),
                cause=scrubbed(error.cause, secret),
                remedy=scrubbed(error.remedy, secret),
            )
        raise_alone(error)


def _open(
    url: str, replica: ReplicaOptions | None, *, pool_size: int, timeout: float, schema: str
) -> LogStore:
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme.isalnum():
        raise ConfigError(
            # Not shown: without a scheme, it is unknown where a password would be.
            "the URL of the database has no scheme",
            cause="the scheme says which kind of database it is",
            remedy=f"write {_FORMS}",
        )
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, replica, pool_size=pool_size, timeout=timeout, schema=schema)
    if replica is not None:
        raise ConfigError(
            f"a log in {scheme} has no replicas",
            cause="sql.read_url is set",
            remedy="take it out; replicas are streaming standbys of PostgreSQL",
        )
    if scheme == "sqlite":
        from deltasql.store.sqlite import SqliteStore

        return SqliteStore.open(_path(url), timeout=timeout, schema=schema)
    if scheme == "duckdb":
        return _open_duckdb(url, timeout=timeout, schema=schema)
    raise ConfigError(f"there is no database for the scheme {scheme!r}", remedy=f"write {_FORMS}")


def _open_postgres(
    url: str, replica: ReplicaOptions | None, *, pool_size: int, timeout: float, schema: str
) -> LogStore:
    try:
        from deltasql.store.postgres import PostgresStore, ReplicatedStore
    except ModuleNotFoundError as error:
        raise _missing("PostgreSQL", "postgres", error) from None
    if replica is None:
        return PostgresStore.open(url, pool_size=pool_size, timeout=timeout, schema=schema)
    store = ReplicatedStore.open(url, pool_size=pool_size, timeout=timeout, schema=schema)
    try:
        store.read_from(replica.url, pool_size=pool_size, timeout=timeout, max_age=replica.max_age)
    except BaseException:
        store.close()
        raise
    return store


def _open_duckdb(url: str, *, timeout: float, schema: str) -> LogStore:
    try:
        from deltasql.store.duckdb import DuckdbStore
    except ModuleNotFoundError as error:
        raise _missing("DuckDB", "duckdb", error) from None
    return DuckdbStore.open(_path(url), timeout=timeout, schema=schema)


def _path(url: str) -> str:
    """The path of a database file: relative after three slashes, absolute after four."""
    scheme, _, rest = url.partition("://")
    if not rest.startswith("/") or rest == "/":
        raise ConfigError(
            f"{mask(url)!r} does not name a file",
            cause="a host was given, or nothing, where a path belongs",
            remedy=f"write {scheme}:///relative.db or {scheme}:////path/from/the/root.db",
        )
    path = rest[1:]
    if path.startswith(":memory:"):
        raise ConfigError(
            f"a {scheme} log can't be in memory",
            cause="the log is the only truth about a lake: it must outlive the process",
            remedy=f"name a file, such as {scheme}:///lake.db",
        )
    if "?" in path or "#" in path:
        raise ConfigError(
            f"{mask(url)!r} has options, and {scheme} URLs take none",
            remedy="leave out what begins with ? or #; settings are in deltasql.toml",
        )
    return path


def _missing(product: str, extra: str, error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(
        f"the driver for {product} is not installed",
        cause=str(error),
        remedy=f"pip install 'deltasql[{extra}]'",
    )
