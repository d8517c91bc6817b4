"""Lakes by name, for the processes that Spark plans and commits in.

The data source runs in workers that know nothing of the program that attached a lake, over
Spark Connect not even on the same machine. So a lake is named by a profile, never by an option
that would show in a plan: `attach` keeps those of its own program in a file that only this user
can read, and a server has its profiles in the file that DELTASQL_PROFILES names:

    [sales]
    url = "postgresql://…"
    location = "s3://bucket/lake"
    settings = { "s3.region" = "eu-west-1" }

Where there is no profile, DELTASQL_URL and DELTASQL_LOCATION name the lake.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deltasql.catalog import Lake, connect
from deltasql.errors import ConfigError

VARIABLE = "DELTASQL_PROFILES"
DEFAULT = "default"
_KEYS = frozenset({"url", "location", "committer", "settings"})
_FILE_SCHEMES = ("sqlite", "duckdb")

_attached: dict[str, Mapping[str, Any]] = {}
_folder: Path | None = None


def keep(lake: Lake, name: str) -> Path:
    """Keep how a lake was opened under a name; returns the file of all that are kept."""
    global _folder  # noqa: PLW0603 - one file a program, gone with it
    if _folder is None:
        _folder = Path(tempfile.mkdtemp(prefix="deltasql-profiles-"))
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    if lake.opening is None:
        raise ConfigError(
            "the lake can't be opened in another process",
            cause="it was not made by deltasql.connect",
            remedy="open it with deltasql.connect",
        )
    _attached[name] = {**lake.opening, "url": _absolute(lake.opening["url"])}
    file = _folder / "profiles.json"
    fresh = _folder / "profiles.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        json.dump(_attached, out)
    fresh.rename(file)
    return file


def open_lake(name: str | None, kept: str | None) -> Lake:
    """The lake of a profile; without a name the only one there is, or the environment's."""
    return connect(**_find(name, kept))


def storage_options(name: str | None, kept: str | None) -> dict[str, Any]:
    """The options of the object store, as far as this machine knows them."""
    from deltasql.objectstore.options import is_option, options_in

    try:
        given = _find(name, kept).get("settings") or {}
    except ConfigError:
        # An executor has no profile, and needs none: the store's own variables will do.
        given = {}
    found = {key: value for key, value in given.items() if is_option(key)}
    return {**options_in(os.environ), **found}


def _find(name: str | None, kept: str | None) -> dict[str, Any]:
    profiles = _load(kept)
    if name is None and not profiles:
        return {}
    wanted = name or (DEFAULT if DEFAULT in profiles or len(profiles) > 1 else next(iter(profiles)))
    if wanted not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise ConfigError(
            f"there is no lake {wanted!r} here",
            cause=f"the profiles of this process are: {known}",
            remedy=f"attach the lake first, or name it in the file of {VARIABLE}",
        )
    strange = set(profiles[wanted]) - _KEYS
    if strange:
        raise ConfigError(
            f"the profile {wanted!r} has a key {min(strange)!r}",
            cause=f"the keys are {', '.join(sorted(_KEYS))}",
            remedy=f"correct the file of {VARIABLE}",
        )
    return dict(profiles[wanted])


def _load(kept: str | None) -> dict[str, Mapping[str, Any]]:
    named = os.environ.get(VARIABLE)
    found: dict[str, Mapping[str, Any]] = {}
    if named:
        try:
            found |= tomllib.loads(Path(named).read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(
                f"the profiles in {named} can't be read",
                cause=str(error),
                remedy=f"correct the file, or {VARIABLE}",
            ) from None
    if kept and Path(kept).exists():
        found |= json.loads(Path(kept).read_text())
    return found


def _absolute(url: str) -> str:
    """An embedded database's URL that means the same in any folder."""
    parts = urlsplit(url)
    if parts.scheme not in _FILE_SCHEMES:
        return url
    return f"{parts.scheme}:///{Path(parts.path.removeprefix('/')).absolute()}"
