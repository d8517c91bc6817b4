"""Lakes by name, for the processes that Spark plans and commits in.

The data source runs in workers that know nothing about the program that attached a lake and, with
Spark Connect, are not even on the same machine. So a lake is named by a profile, never by an option
that would show in a plan. `attach` keeps its program's profiles in a file that only this user can
read and that disappears with the program; a server has its profiles in its deltasql.toml, which
DELTASQL_CONFIG names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from deltasql.errors import ConfigError
from deltasql.lake.catalog import Lake, connect
from deltasql.secrecy import discreet
from deltasql.settings.object_store import options_in
from deltasql.settings.sources import resolve
from deltasql.spark.sessions.driver_file import DriverFile

DEFAULT = "default"
_FILE_SCHEMES = ("sqlite", "duckdb")

_attached: dict[str, Mapping[str, Any]] = {}
_file: Final = DriverFile("deltasql-profiles")


@discreet
def keep(lake: Lake, name: str) -> Path:
    """Store under a name how a lake was opened; returns the file with all of them."""
    if lake.opening is None:
        raise ConfigError(
            "the lake can't be opened in another process",
            cause="it was not made by deltasql.connect",
            remedy="open it with deltasql.connect",
        )
    url = lake.opening["url"]
    _attached[name] = {**lake.opening, "url": url and _absolute(url)}
    return _written()


def kept_file() -> Path | None:
    """The file with all of them; None while there are none."""
    return _written() if _attached else None


def _written() -> Path:
    return _file.write(json.dumps(_attached).encode())


@discreet
def open_lake(name: str | None, kept: str | None) -> Lake:
    """The lake of a profile; without a name, the only attached one, or the configuration's."""
    return connect(**_arguments(name, kept))


@discreet
def storage_options(name: str | None, kept: str | None) -> dict[str, Any]:
    """The options of the object store, as far as this machine knows them."""
    try:
        given = _arguments(name, kept)
        return resolve(given.get("settings"), profile=given.get("profile")).storage
    except ConfigError:
        # An executor has no profile, and needs none: the store's own variables will do.
        return options_in(os.environ)


def _arguments(name: str | None, kept: str | None) -> dict[str, Any]:
    """The arguments of `connect` for a lake."""
    attached = _load(kept)
    if name is None and attached:
        name = DEFAULT if len(attached) > 1 else next(iter(attached))
        if name not in attached:
            raise ConfigError(
                "several lakes are attached, and none was chosen",
                cause=f"they are {', '.join(sorted(attached))}",
                remedy='choose one: option("lake", …)',
            )
    if name is None:
        return {}
    if name in attached:
        return dict(attached[name])
    try:
        resolve(profile=name)
    except ConfigError as error:
        known = ", ".join(sorted(attached)) or "none"
        raise ConfigError(
            f"there is no lake {name!r} here",
            cause=f"attached are: {known}; and {error.problem}",
            remedy="attach it first, or add the profile to this machine's deltasql.toml",
        ) from None
    return {"profile": name}


def _load(kept: str | None) -> dict[str, Mapping[str, Any]]:
    if not kept or not Path(kept).exists():
        return {}
    found: dict[str, Mapping[str, Any]] = json.loads(Path(kept).read_text())
    return found


def _absolute(url: str) -> str:
    """An embedded database's URL with an absolute path, so that it works in any folder."""
    parts = urlsplit(url)
    if parts.scheme not in _FILE_SCHEMES:
        return url
    return f"{parts.scheme}:///{Path(parts.path.removeprefix('/')).absolute()}"
