"""Settings as typed values: what there is, how each is written, and what it means.

Where the values come from is `deltasql.settings.sources`'s.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from deltasql.errors import ConfigError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting; the attribute `sql_pool_size` is the key `sql.pool_size`."""

    sql_pool_size: int = 10
    sql_timeout: float = 30.0
    sql_schema: str = "create"
    mirror_mode: str = "sync"
    mirror_sync_timeout: float = 5.0
    mirror_checkpoint_interval: int = 10
    mirror_reconcile_interval: float = 30.0
    mirror_retry_interval: float = 3600.0
    mirror_max_retry_attempts: int = 5
    mirror_retry_backoff_base: float = 1.0
    mirror_parallelism: int = 10
    mirror_lag_alert: float = 60.0
    mirror_lag_alert_versions: int = 1000
    mirror_validate_interval: float | None = None
    log_format: str = "console"
    log_level: str = "warning"


@dataclass(frozen=True, slots=True)
class Key:
    """A setting as users write it; `default` is written as in a file."""

    name: str
    attribute: str
    default: str
    wanted: str
    meaning: str

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return variable_of(self.name)


def all_keys() -> list[Key]:
    """Every setting, in the order of the documentation."""
    return [
        Key(_key(field.name), field.name, *_DESCRIPTIONS[field.name])
        for field in sorted(fields(Settings), key=lambda field: list(_PARSERS).index(field.name))
    ]


def parse(values: Mapping[str, Any], named: Callable[[str], str] = str) -> Settings:
    """Settings from values by key; `named` says where a value came from, for errors."""
    known = {_key(field.name): field.name for field in fields(Settings)}
    return Settings(
        **{known[key]: _PARSERS[known[key]](named(key), value) for key, value in values.items()}
    )


def variable_of(key: str) -> str:
    """The environment variable of a key: `DELTASQL_SQL_POOL_SIZE` is that of `sql.pool_size`."""
    return "DELTASQL_" + key.replace(".", "_").upper()


def parse_duration(key: str, value: Any) -> float:
    """Seconds from a number or a text such as `500ms`, `30s`, `5m`, `1h`."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise _ill_typed(key, value, "a duration such as 30s")
    return float(match[1]) * _SECONDS[match[2]]


def _parse_interval(key: str, value: Any) -> float | None:
    return None if value in (None, "off") else parse_duration(key, value)


def _parse_count(key: str, value: Any) -> int:
    text = str(value).strip()
    if not text.isdecimal() or int(text) < 1:
        raise _ill_typed(key, value, "a positive integer")
    return int(text)


def _one_of(*words: str) -> Callable[[str, Any], str]:
    def parse(key: str, value: Any) -> str:
        if value not in words:
            raise _ill_typed(key, value, " or ".join(words))
        return str(value)

    return parse


_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    "mirror_mode": _one_of("sync", "async", "off"),
    "mirror_sync_timeout": parse_duration,
    "mirror_checkpoint_interval": _parse_count,
    "mirror_reconcile_interval": parse_duration,
    "mirror_retry_backoff_base": parse_duration,
    "mirror_max_retry_attempts": _parse_count,
    "mirror_retry_interval": parse_duration,
    "mirror_parallelism": _parse_count,
    "mirror_lag_alert": parse_duration,
    "mirror_lag_alert_versions": _parse_count,
    "mirror_validate_interval": _parse_interval,
    "sql_pool_size": _parse_count,
    "sql_timeout": parse_duration,
    "sql_schema": _one_of("create", "error"),
    "log_format": _one_of("console", "json"),
    "log_level": _one_of("debug", "info", "warning", "error"),
}

# Default as written, what is wanted, meaning.
_DESCRIPTIONS: Mapping[str, tuple[str, str, str]] = {
    "mirror_mode": (
        "sync",
        "`sync`, `async` or `off`",
        "when commit files are written: before the commit returns, by the worker, or not at all",
    ),
    "mirror_sync_timeout": ("5s", "duration", "how long a commit waits for its mirror"),
    "mirror_checkpoint_interval": (
        "10",
        "count",
        "versions between checkpoints; the table property `delta.checkpointInterval` wins",
    ),
    "mirror_reconcile_interval": (
        "30s",
        "duration",
        "how often the worker looks for versions without a status",
    ),
    "mirror_retry_backoff_base": ("1s", "duration", "wait after a failure; doubled after each"),
    "mirror_max_retry_attempts": ("5", "count", "failures until a version is `FAILED`"),
    "mirror_retry_interval": ("1h", "duration", "how often a `FAILED` version is tried again"),
    "mirror_parallelism": ("10", "count", "tables that are mirrored at once"),
    "mirror_lag_alert": ("60s", "duration", "lag that alerts"),
    "mirror_lag_alert_versions": ("1000", "count", "lag that alerts, in versions"),
    "mirror_validate_interval": (
        "off",
        "duration or `off`",
        "how often the worker validates every table",
    ),
    "sql_pool_size": ("10", "count", "connections to PostgreSQL at most"),
    "sql_timeout": ("30s", "duration", "bound on every wait for a connection or a lock"),
    "sql_schema": (
        "create",
        "`create` or `error`",
        "what to do with a database whose schema is missing or old",
    ),
    "log_format": ("console", "`console` or `json`", "how the command line logs to stderr"),
    "log_level": (
        "warning",
        "`debug`, `info`, `warning` or `error`",
        "the least that is logged; `mirror run` logs from `info` on unless told",
    ),
}


def _key(attribute: str) -> str:
    return attribute.replace("_", ".", 1)


def unknown(key: str, known: Sequence[str], *, where: str = "") -> ConfigError:
    """The error for a key that does not exist, with the nearest that does."""
    near = nearest(key, known)
    return ConfigError(
        f"there is no setting {key!r:.80}",
        cause=f"found in {where}" if where else "",
        remedy=f"did you mean {near}?" if near else "docs/configuration.md lists the settings",
    )


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known name that the word was probably meant to be, by its whole or its last part."""
    folded = word.lower()
    near = difflib.get_close_matches(folded, known, n=1)
    if near:
        return near[0]
    tails = {name.rpartition(".")[2]: name for name in known}
    near = difflib.get_close_matches(folded.rpartition(".")[2], list(tails), n=1)
    return tails[near[0]] if near else None


def _ill_typed(key: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{key} must be {wanted}", cause=f"found {value!r:.80}")
