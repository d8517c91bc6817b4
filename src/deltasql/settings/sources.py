"""Where settings come from: deltasql.toml, the environment, arguments; later wins.

A file has the lake's `url` and `location`, the settings in tables (`[mirror]`, `[sql]`, `[log]`,
`[s3]`, …), and profiles, `[profiles.prod]`, that override them. A profile named by an argument
takes precedence over the environment, as an argument does; one named by DELTASQL_PROFILE, or by the
file's own `profile`, does not.
"""

from __future__ import annotations

import getpass
import os
import platform
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from deltasql.errors import ConfigError
from deltasql.secrecy import Hidden, discreet
from deltasql.settings import keys, url_command
from deltasql.settings.object_store import STORES, is_option, is_secret, option_names
from deltasql.settings.secrets import mask, mask_address

FILE_NAME: Final = "deltasql.toml"
NAMES: Final = ("url", "location", "committer")
_PREFIX: Final = keys.VARIABLE_PREFIX
# Beyond these nobody means it, and Python would fail to show it.
_LONGEST_KEY: Final = 300
_MOST_BITS: Final = 64
# User names that identify nobody.
_NOBODY: Final = frozenset({"root", "unknown"})


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it was written, and where."""

    key: str
    given: Any = field(repr=False)
    source: str

    @property
    def shown(self) -> str:
        """The value for display, with secrets masked."""
        if self.key in ("url", keys.READ_URL):
            return mask(str(self.given))
        if self.key == url_command.KEY:
            return url_command.shown(str(self.given))
        return "***" if is_secret(self.key) else mask_address(_text(self.given))


@dataclass(frozen=True)
class Configuration:
    """The settings in force."""

    values: Mapping[str, Value]
    file: Path | None = None
    profile: str | None = None

    def text(self, key: str) -> str | None:
        """One of the names, `url`, `location` or `committer`."""
        value = self.values.get(key)
        if value is not None and value.given:
            return str(value.given)
        return self._url_of_command if key == "url" else None

    @cached_property
    def _url_of_command(self) -> str | None:
        command = self.values.get(url_command.KEY)
        return None if command is None else url_command.url_from(str(command.given))

    @cached_property
    def settings(self) -> keys.Settings:
        """The settings, typed."""
        known = {key.name for key in keys.all_keys()}
        given = {key: value.given for key, value in self.values.items() if key in known}
        return keys.parse(given, lambda key: _named(self.values[key]))

    @property
    def storage(self) -> dict[str, Any]:
        """Options of the object stores."""
        return {key: value.given for key, value in self.values.items() if is_option(key)}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments with which `connect` opens the same lake anywhere."""
        given = {key: value.given for key, value in self.values.items()}
        names = {name: given.pop(name, None) for name in NAMES}
        return {**names, "settings": given}

    def defaulting(self, defaults: Mapping[str, Any]) -> Configuration:
        """The same with other defaults, for a program that has its own."""
        ours = {key: Value(key, value, "default") for key, value in defaults.items()}
        return Configuration({**ours, **self.values}, file=self.file, profile=self.profile)

    def overriding(self, settings: Mapping[str, Any]) -> Configuration:
        """The same with some settings overridden."""
        ours = {key: Value(key, value, "argument") for key, value in settings.items()}
        return Configuration({**self.values, **ours}, file=self.file, profile=self.profile)

    def shown(self, key: str) -> str:
        """A value for display, with secrets masked."""
        value = self.values.get(key)
        return "" if value is None else value.shown

    def everything(self) -> list[Value]:
        """Every value in force, including defaults, in the order of the documentation."""
        names = [self.values.get(name, Value(name, "", "not set")) for name in NAMES]
        names += [self.values[url_command.KEY]] if url_command.KEY in self.values else []
        settings = [
            self.values.get(key.name, Value(key.name, key.default, "default"))
            for key in keys.all_keys()
        ]
        storage = sorted(key for key in self.values if is_option(key))
        return [*names, *settings, *(self.values[key] for key in storage)]


@discreet
def resolve(
    arguments: Mapping[str, Any] | None = None,
    *,
    profile: str | None = None,
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """The configuration in force.

    `arguments` are by key, including `url` and `location`; None means not given. `file` is by
    default what DELTASQL_CONFIG names, else deltasql.toml in the current folder.
    """
    environment = os.environ if environment is None else environment
    path = _find(file, environment)
    content = _read(path) if path is not None else {}
    chosen = profile or environment.get(f"{_PREFIX}PROFILE") or content.get("profile")
    found = list(_values(_top(content), str(path), str(path)))
    if chosen and not isinstance(chosen, str):
        raise ConfigError("the profile must be text", remedy="give the name of a profile")
    of_profile = [] if not chosen else list(_profile_values(content, chosen, path))
    from_environment = list(_environment_values(environment))
    layers = (
        [*found, *from_environment, *of_profile]
        if profile
        else [*found, *of_profile, *from_environment]
    )
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    layers += _values(given, "the arguments", "argument")
    result = Configuration(
        {value.key: value for value in layers}, file=path, profile=str(chosen) if chosen else None
    )
    # Report ill-typed values now, whether or not anybody asks for them.
    _ = result.settings
    if path is not None and not _is_named(file, environment):
        _must_not_run(result, path)
    return result


def _must_not_run(found: Configuration, path: Path) -> None:
    """A file found in the current folder may come from anybody."""
    command = found.values.get(url_command.KEY)
    if command is not None and command.source.startswith(str(path)):
        raise ConfigError(
            f"{url_command.KEY} of {path} is not run",
            cause="the file was found in the current folder, where others may have put it",
            remedy="name the file with --config or DELTASQL_CONFIG, or set "
            f"{keys.variable_of(url_command.KEY)}",
        )


def user_name() -> str:
    """The user of this process: the committer, if neither the settings nor the database name one.
    In a container everybody is root, and the host says more.
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return name if name not in _NOBODY else f"{name}@{platform.node()}"


def known_keys() -> list[str]:
    """Every key."""
    return [*NAMES, url_command.KEY, *(key.name for key in keys.all_keys()), *option_names()]


# --- the file -----------------------------------------------------------------------------


def _is_named(given: str | Path | None, environment: Mapping[str, str]) -> bool:
    return bool(given or environment.get(f"{_PREFIX}CONFIG"))


def _find(given: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    if _is_named(given, environment):
        path = Path(given or environment[f"{_PREFIX}CONFIG"])
        if not path.is_file():
            raise ConfigError(
                f"there is no file {str(path)!r}",
                remedy=f"correct the name, or leave it out: {FILE_NAME} in the current folder "
                "is read by itself",
            )
        return path
    path = Path(FILE_NAME)
    return path if path.is_file() else None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML", cause=str(error)) from None
    except OSError as error:
        raise ConfigError(f"{path} can't be read", cause=error.strerror or str(error)) from None


def _top(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in ("profile", "profiles")}


def _profile_values(content: Mapping[str, Any], name: str, path: Path | None) -> Iterator[Value]:
    profiles = content.get("profiles")
    profiles = profiles if isinstance(profiles, dict) else {}
    if not isinstance(profiles.get(name), dict):
        near = keys.nearest(name, sorted(profiles))
        raise ConfigError(
            f"there is no profile {name!r:.80}",
            cause=f"{path} has {', '.join(sorted(profiles)) or 'none'}"
            if path
            else f"there is no {FILE_NAME}",
            remedy=f"did you mean {near}?" if near else f"add [profiles.{name}] to {FILE_NAME}",
        )
    source = f"{path} [profiles.{name}]"
    yield from _values(profiles[name], source, source)


def _values(given: Mapping[str, Any], where: str, source: str) -> Iterator[Value]:
    known = known_keys()
    for key, value in _flat(given):
        if key not in known and not is_option(key):
            raise keys.unknown(key, known, where=where)
        if key in (*NAMES, url_command.KEY) and not isinstance(value, str):
            raise ConfigError(f"{key} must be text", cause=f"found another type in {where}")
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ConfigError(f"{key} is too large a number", cause=f"found in {where}")
        yield Value(key, Hidden(value) if _is_hidden(key, value) else value, source)


def _is_hidden(key: str, value: Any) -> bool:
    """Whether reports of errors must not print the value."""
    may_be_secret = key in ("url", keys.READ_URL, url_command.KEY) or is_secret(key)
    return may_be_secret and isinstance(value, str)


def _flat(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    if len(prefix) > _LONGEST_KEY:
        raise ConfigError(f"there is no setting {prefix[:40]!r}…", cause="it is nested too deep")
    for key, value in given.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


# --- the environment ----------------------------------------------------------------------


def _environment_values(environment: Mapping[str, str]) -> Iterator[Value]:
    variables = {keys.variable_of(key): key for key in known_keys()}
    beginnings = tuple(f"{keys.variable_of(part)}_" for part in (*keys.sections(), *STORES))
    for name in sorted(environment):
        if name in variables:
            key, value = variables[name], environment[name]
            yield Value(key, Hidden(value) if _is_hidden(key, value) else value, name)
        elif name.startswith(beginnings):
            near = keys.nearest(name.lower(), [known.lower() for known in variables])
            raise ConfigError(
                f"no setting has the variable {name}",
                cause="it looks like the variable of a setting, but there is no such setting",
                remedy=f"did you mean {near.upper()}?" if near else "unset it",
            )


def _named(value: Value) -> str:
    """A key as its user wrote it, for messages."""
    if value.source.startswith(_PREFIX):
        return value.source
    return value.key if value.source == "argument" else f"{value.key} in {value.source}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
