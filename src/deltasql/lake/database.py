"""The database of a lake as its administrator sees it: schema version, migrations, grants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from deltasql.errors import DatabaseError, SchemaVersionError, ValidationError
from deltasql.lake.catalog import open_lake
from deltasql.secrecy import redacted
from deltasql.settings.sources import Configuration
from deltasql.store.interface import LogStore
from deltasql.store.migrations import newest_version

_WORD = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"^-- \[(\w+)\n(.*?)^-- \]\n", re.DOTALL | re.MULTILINE)
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Which schema version a database has (0: none), and which one this release works with."""

    url: str
    found: int
    expected: int
    server: Mapping[str, str] = field(default_factory=dict)
    # Where reads go, and how far that is behind; without `sql.read_url`, nothing.
    replica: Mapping[str, str] = field(default_factory=dict)


def status(configuration: Configuration) -> SchemaStatus:
    """Look at a database without changing it."""
    strict = configuration.overriding({"sql.schema": "error"})
    url = configuration.shown("url")
    try:
        with open_lake(strict) as lake:
            server = dict(lake.store.describe())
            expected = newest_version(server["dialect"])
            return SchemaStatus(url, expected, expected, server, _replica(lake.store))
    except SchemaVersionError as error:
        return SchemaStatus(url, error.found, error.expected)


def _replica(store: LogStore) -> dict[str, str]:
    try:
        found = store.replica()
    except DatabaseError as error:
        return {"state": f"{error.problem}: {error.cause}"}
    return {} if found is None else {"url": found[0], "state": found[1]}


def migrate(configuration: Configuration) -> SchemaStatus:
    """Bring a database to the schema of this release; the result says what it had before."""
    before = status(configuration)
    open_lake(configuration.overriding({"sql.schema": "create"})).close()
    return before


def grants(
    *, reader: str, writer: str, mirror: str, schema: str = "public", strict: bool = False
) -> str:
    """PostgreSQL statements that give three roles the rights they need, and no more.

    With `strict`, writers get no rights to the rows of the log, only to functions that check.
    """
    names = {"reader": reader, "writer": writer, "mirror": mirror, "schema": schema}
    quoted = {key: _identifier(key, name) for key, name in names.items()}
    text = (files("deltasql.store") / "sql" / "postgres" / "grants.sql").read_text("utf-8")
    wanted = "strict" if strict else "direct"
    chosen = _CHOICE.sub(lambda match: match[2] if match[1] == wanted else "", text)
    return _WORD.sub(lambda match: quoted[match[1]], chosen)


def _identifier(what: str, name: str) -> str:
    is_legal = name and name.isprintable() and len(name.encode()) <= _LONGEST_NAME
    if not is_legal or redacted(name) != name:
        raise ValidationError(
            f"{name!r:.80} can't be the name of a {what}",
            cause=f"PostgreSQL's names have 1 to {_LONGEST_NAME} bytes; control characters, and "
            "what looks like a password, are refused here",
            remedy="choose another",
        )
    return '"' + name.replace('"', '""') + '"'
