"""Settings, parsed once into typed values: defaults, environment, arguments; later wins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
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
    mirror_validate_interval: float | None = None


def load(given: Mapping[str, Any] | None, environment: Mapping[str, str]) -> Settings:
    """The settings in force; `DELTASQL_SQL_POOL_SIZE` is the variable of `sql.pool_size`."""
    values: dict[str, Any] = {}
    known = {_key(field.name): field.name for field in fields(Settings)}
    for attribute in known.values():
        variable = "DELTASQL_" + attribute.upper()
        if variable in environment:
            values[attribute] = _PARSERS[attribute](variable, environment[variable])
    for key, value in (given or {}).items():
        if key not in known:
            raise _unknown(key, list(known))
        values[known[key]] = _PARSERS[known[key]](key, value)
    return Settings(**values)


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
    "sql_pool_size": _parse_count,
    "sql_timeout": parse_duration,
    "sql_schema": _one_of("create", "error"),
    "mirror_mode": _one_of("sync", "async", "off"),
    "mirror_sync_timeout": parse_duration,
    "mirror_checkpoint_interval": _parse_count,
    "mirror_reconcile_interval": parse_duration,
    "mirror_retry_interval": parse_duration,
    "mirror_max_retry_attempts": _parse_count,
    "mirror_retry_backoff_base": parse_duration,
    "mirror_parallelism": _parse_count,
    "mirror_lag_alert": parse_duration,
    "mirror_validate_interval": _parse_interval,
}


def _key(attribute: str) -> str:
    return attribute.replace("_", ".", 1)


def _unknown(key: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(key, known, n=1)
    return ConfigError(
        f"there is no setting {key!r}",
        cause=f"the settings are {', '.join(known)}",
        remedy=f"did you mean {near[0]}?" if near else "correct the name",
    )


def _ill_typed(key: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{key} must be {wanted}", cause=f"found {value!r:.80}")
