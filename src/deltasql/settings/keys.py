"""Every setting, declared once: its key, its type, its default, and what it means.

Parsing, `deltasql config show`, the environment's variables and the reference in the docs are
made from the declarations. Where values come from is `deltasql.settings.sources`'s.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final

from deltasql.errors import ConfigError

VARIABLE_PREFIX: Final = "DELTASQL_"
READ_URL: Final = "sql.read_url"

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_PLAIN_KEY = re.compile(r"[\w. -]*")
_SIZE = re.compile(r"\d+(?:\.\d+)?\s*[kKmMgGtT]i?[bB]")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


# --- what a value may be --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be: a word for the reference, and the parser, which names the key."""

    words: str
    parse: Callable[[str, Any], Any]


def parse_duration(key: str, value: Any) -> float:
    """Seconds from a number or a text such as `500ms`, `30s`, `5m`, `1h`."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise _ill_typed(key, value, "a duration such as 30s")
    return float(match[1]) * _SECONDS[match[2]]


def _parse_interval(key: str, value: Any) -> float | None:
    return None if value in (None, "off") else parse_duration(key, value)


def _parse_url(key: str, value: Any) -> str | None:
    text = str(value).strip()
    if text == "off":
        return None
    if not text.startswith(("postgresql://", "postgres://")):
        # Not shown: it may contain a password.
        raise ConfigError(
            f"{key} must be off, or a URL of PostgreSQL",
            remedy="write postgresql://user@host/database",
        )
    return text


def _parse_count(key: str, value: Any) -> int:
    text = str(value).strip()
    if not text.isdecimal() or int(text) < 1:
        raise _ill_typed(key, value, "a positive integer")
    return int(text)


def _one_of(*words: str) -> Kind:
    def parse(key: str, value: Any) -> str:
        if value not in words:
            raise _ill_typed(key, value, " or ".join(words))
        return str(value)

    quoted = [f"`{word}`" for word in words]
    return Kind(f"{', '.join(quoted[:-1])} or {quoted[-1]}", parse)


def _ill_typed(key: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{key} must be {wanted}", cause=f"found {value!r:.80}")


def _parse_size(key: str, value: Any) -> str:
    text = str(value).strip()
    if _SIZE.fullmatch(text) is None:
        raise _ill_typed(key, value, "a size such as 512MB or 4GB")
    return text


def _parse_credentials(key: str, value: Any) -> str:
    text = str(value).strip()
    if text not in ("auto", "off") and not text.startswith("arn:"):
        raise _ill_typed(key, value, "auto, off, or the ARN of a role")
    return text


AUTO: Final = "auto"
DURATION: Final = Kind("duration", parse_duration)
INTERVAL: Final = Kind("duration or `off`", _parse_interval)
COUNT: Final = Kind("count", _parse_count)
SIZE: Final = Kind("size", _parse_size)
URL: Final = Kind("URL or `off`", _parse_url)


# --- the declarations -----------------------------------------------------------------


def _setting(kind: Kind, default: str, meaning: str) -> Any:
    """A declaration; the default is written as in a file."""
    facts = {"kind": kind, "default": default, "meaning": meaning}
    parsed = kind.parse("the default", default)
    # A URL may contain a password.
    return field(default=parsed, metadata=facts, repr=kind is not URL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting; the attribute `sql_pool_size` is the key `sql.pool_size`."""

    mirror_mode: str = _setting(
        _one_of("sync", "async", "off"),
        "sync",
        "when commit files are written: before the commit returns, by the worker, or not at all",
    )
    mirror_sync_timeout: float = _setting(DURATION, "5s", "how long a commit waits for its mirror")
    mirror_checkpoint_interval: int = _setting(
        COUNT,
        "10",
        "the least number of versions between checkpoints; with the table property "
        "`delta.checkpointInterval`, exactly that many",
    )
    mirror_checkpoint_rate: int = _setting(
        COUNT,
        "8",
        "the most actions written into checkpoints for each action committed; with more, readers "
        "replay less",
    )
    mirror_checkpoints: str = _setting(
        _one_of("auto", "worker"),
        "auto",
        "who writes checkpoints: `worker` leaves them to workers; with `auto`, a writer in `sync` "
        "mode writes them in the background while no worker is alive",
    )
    mirror_poll_interval: float = _setting(
        DURATION, "1s", "how often the worker looks for work, when no notification wakes it"
    )
    mirror_reconcile_interval: float = _setting(
        DURATION, "30s", "how often the worker looks for versions without a status"
    )
    mirror_retry_backoff_base: float = _setting(
        DURATION, "1s", "the wait after a failure, doubled after each one"
    )
    mirror_max_retry_attempts: int = _setting(COUNT, "5", "failures until a version is `FAILED`")
    mirror_retry_interval: float = _setting(
        DURATION, "1h", "how often a `FAILED` version is retried"
    )
    mirror_parallelism: int = _setting(COUNT, "10", "tables that are mirrored at once")
    mirror_bridge: str = _setting(
        _one_of("on", "off"),
        "on",
        "whether a worker bridges a backlog that takes longer than `mirror.lag_alert`: it writes a "
        "checkpoint at the newest version first, and the versions below it afterwards",
    )
    mirror_lag_alert: float = _setting(DURATION, "60s", "lag that raises an alert")
    mirror_lag_alert_versions: int = _setting(COUNT, "1000", "lag in versions that raises an alert")
    mirror_sample_interval: float | None = _setting(
        INTERVAL, "1h", "how often the worker looks at a sample of every mirror"
    )
    mirror_validate_interval: float | None = _setting(
        INTERVAL, "off", "how often the worker validates every table"
    )
    maintenance_auto: str = _setting(
        _one_of("on", "off"),
        "off",
        "whether the worker optimizes, vacuums, expires and analyses what is due",
    )
    maintenance_interval: float = _setting(
        DURATION, "1h", "how often the worker looks for upkeep that is due"
    )
    maintenance_optimize_files: int = _setting(
        COUNT, "100", "how many files to compact in a table make an optimize due"
    )
    maintenance_vacuum_files: int = _setting(
        COUNT, "1000", "how many files to delete make a vacuum due"
    )
    maintenance_expire_versions: int = _setting(
        COUNT, "1000", "how many versions past their retention make an expiration due"
    )
    maintenance_bytes_per_hour: int = _setting(
        COUNT,
        "1000000000000",
        "how many bytes may be deleted or rewritten in an hour before workers begin no more upkeep",
    )
    sql_pool_size: int = _setting(COUNT, "10", "the most connections to PostgreSQL")
    sql_timeout: float = _setting(DURATION, "30s", "the longest wait for a connection or a lock")
    sql_schema: str = _setting(
        _one_of("create", "error"),
        "create",
        "what to do with a database whose schema is missing or old",
    )
    sql_read_url: str | None = _setting(
        URL,
        "off",
        "a streaming standby of the PostgreSQL server in `url`, for snapshots, files and history",
    )
    sql_read_max_age: float = _setting(
        DURATION,
        "10s",
        "how old an answer from `sql.read_url` may be; never older than what this client has "
        "committed or seen",
    )
    duckdb_memory_limit: str = _setting(
        SIZE,
        "1GB",
        "memory of a delete, update or merge from Python, beyond which it spills to disk",
    )
    catalog_credentials: str = _setting(
        Kind("`auto`, `off` or a role's ARN", _parse_credentials),
        "auto",
        "where `deltasql serve` gets the credentials that it gives to readers of tables in S3: "
        "from the S3 server's own STS, not at all, or on AWS by assuming a role",
    )
    telemetry_traces: str = _setting(
        _one_of("on", "off"),
        "off",
        "whether writes and the mirror are traced by OpenTelemetry, which needs the extra `otel`",
    )
    log_format: str = _setting(
        _one_of("console", "json"), "console", "how the command line logs to stderr"
    )
    log_level: str = _setting(
        _one_of("debug", "info", "warning", "error"),
        "warning",
        "the lowest level that is logged; the default of `mirror run` is `info`",
    )

    @property
    def mirror_bridged_after(self) -> float | None:
        """How long a backlog may take before it is bridged, in seconds; None: none is."""
        return self.mirror_lag_alert if self.mirror_bridge == "on" else None

    def mirror_backoff(self, retry_count: int) -> float:
        """How long after a failed attempt the next one is due, by the number of failures.

        The wait doubles up to and including the one after the attempt that made it FAILED.
        """
        if retry_count > self.mirror_max_retry_attempts:
            return self.mirror_retry_interval
        return self.mirror_retry_backoff_base * 2.0 ** (retry_count - 1) if retry_count else 0.0


@dataclass(frozen=True, slots=True)
class Key:
    """A setting as users write it; `default` is written as in a file."""

    name: str
    attribute: str
    kind: Kind
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return variable_of(self.name)


def _key_of(item: Field[Any]) -> Key:
    return Key(item.name.replace("_", ".", 1), item.name, **item.metadata)


_KEYS: Final[Mapping[str, Key]] = {key.name: key for key in map(_key_of, fields(Settings))}
DEFAULTS: Final = Settings()


def all_keys() -> list[Key]:
    """Every setting, in the order of the documentation."""
    return list(_KEYS.values())


def sections() -> list[str]:
    """The first parts of keys: `mirror`, `sql`, …"""
    return list(dict.fromkeys(name.partition(".")[0] for name in _KEYS))


def parse(values: Mapping[str, Any], named: Callable[[str], str] = str) -> Settings:
    """Settings from values by key; `named` says where a value came from, for errors."""
    found = {_KEYS[name]: value for name, value in values.items()}
    return Settings(
        **{key.attribute: key.kind.parse(named(key.name), value) for key, value in found.items()}
    )


def variable_of(key: str) -> str:
    """The environment variable of a key: `DELTASQL_SQL_POOL_SIZE` is that of `sql.pool_size`."""
    return VARIABLE_PREFIX + key.replace(".", "_").upper()


def unknown(key: str, known: Sequence[str], *, where: str = "") -> ConfigError:
    """The error for a key that does not exist, with the nearest that does."""
    near = nearest(key, known)
    return ConfigError(
        f"there is no setting {shown_key(key)}",
        cause=f"found in {where}" if where else "",
        remedy=f"did you mean {near}?" if near else "docs/configuration.md lists the settings",
    )


def shown_key(key: object) -> str:
    """A key as messages show it: a URL in its place, with the password, was meant as a value."""
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
        return repr(key[:80])
    return "of the given name, which is not shown as it may be a secret"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known name that the word was probably meant to be, by its whole or its last part."""
    folded = word.lower()
    near = difflib.get_close_matches(folded, known, n=1)
    if near:
        return near[0]
    tails = {name.rpartition(".")[2]: name for name in known}
    near = difflib.get_close_matches(folded.rpartition(".")[2], list(tails), n=1)
    return tails[near[0]] if near else None
