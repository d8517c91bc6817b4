"""Named queries from the `.sql` files beside this module.

A file holds queries, each under a line `-- name: noun_verb`; parameters are written
`:name`. `sql/shared` serves every dialect; a file in `sql/<dialect>` overrides a query by
its name and says why in a line `-- Differs: …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# Not a cast (`::`), not a time in a literal.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_STYLES = {"postgres": r"%(\1)s", "sqlite": r":\1", "duckdb": r"$\1"}


@cache
def load(dialect: str) -> Mapping[str, str]:
    """The queries of a dialect by name, in its driver's parameter style."""
    root = files("deltasql.store") / "sql"
    found = _read(root / "shared") | _read(root / dialect)
    style = _STYLES[dialect]
    if dialect == "postgres":
        found = {name: text.replace("%", "%%") for name, text in found.items()}
    return {name: _PARAMETER.sub(style, text) for name, text in found.items()}


@cache
def migrations(dialect: str) -> list[tuple[int, str, str]]:
    """Number, name and script of every migration of a dialect, in order."""
    folder = files("deltasql.store") / "sql" / dialect / "migrations"
    found = []
    for item in folder.iterdir():
        if item.name.endswith(".sql"):
            number, name = item.name.removesuffix(".sql").split("_", 1)
            found.append((int(number), name, item.read_text("utf-8")))
    return sorted(found)


def _read(folder: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not item.name.endswith(".sql") or item.name in ("schema.sql", "functions.sql"):
            continue
        _, *parts = _NAME.split(item.read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            found[name] = text.strip().rstrip(";")
    return found
