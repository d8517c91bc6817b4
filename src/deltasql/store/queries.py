"""Named queries from the `.sql` files beside this module.

A file contains queries, each under a line `-- name: noun_verb`. Parameters are written `:name`, and
time expressions `@now`, `@now_ms`, `@ms(column)` and `@in_ms(:milliseconds)`. What several queries
share, or say differently in a dialect, is under a line `-- part: noun`, and is written
`@part(noun)` in them. `sql/shared` serves every dialect; a file in `sql/<dialect>` overrides a
query or a part by its name and says why in a line `-- Differs: …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_KINDS = ("name", "part")
_NAME = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_PART = re.compile(r"@part\((\w+)\)")
# Neither a cast (`::`) nor a time in a literal.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_NO_QUERIES = ("schema.sql", "functions.sql", "grants.sql")
_STYLES = {"postgres": r"%(\1)s", "sqlite": r":\1", "duckdb": r"$\1"}
# The few time expressions that no two databases share: now, a time as milliseconds, and a time some
# milliseconds from now.
_WORDS = {
    "postgres": {
        "now": "clock_timestamp()",
        "now_ms": "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        # Whoever may write a row may write a time without end, too: the ends of Python's calendar.
        "ms": "CASE {} WHEN 'infinity' THEN 253402300799999 WHEN '-infinity' THEN -62135596800000"
        " ELSE (extract(epoch FROM {}) * 1000)::bigint END",
        "in_ms": "(clock_timestamp() + {} * interval '1 millisecond')",
    },
    "sqlite": {
        "now": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
        "now_ms": "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
        "ms": "CAST(round((julianday({}) - 2440587.5) * 86400000) AS INTEGER)",
        "in_ms": "strftime('%Y-%m-%d %H:%M:%f', 'now', ({} / 1000.0) || ' seconds')",
    },
    "duckdb": {
        "now": "get_current_timestamp()",
        "now_ms": "epoch_ms(get_current_timestamp())",
        "ms": "epoch_ms({})",
        "in_ms": "(get_current_timestamp() + to_milliseconds({}))",
    },
}
_WORD = re.compile(r"@(ms|in_ms)\((:?[\w.]+)\)|@(now_ms|now)\b")


@cache
def load(dialect: str) -> Mapping[str, str]:
    """The queries of a dialect by name, in its driver's parameter style."""
    root = files("deltasql.store") / "sql"
    found, parts = (
        {**_read(root / "shared", kind), **_read(root / dialect, kind)} for kind in _KINDS
    )
    found = {name: _PART.sub(lambda part: parts[part[1]], text) for name, text in found.items()}
    style, words = _STYLES[dialect], _WORDS[dialect]

    def spoken(match: re.Match[str]) -> str:
        return words[match[1] or match[3]].replace("{}", match[2] or "")

    found = {name: _WORD.sub(spoken, text) for name, text in found.items()}
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


def _read(folder: Any, wanted: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not item.name.endswith(".sql") or item.name in _NO_QUERIES:
            continue
        _, *pieces = _NAME.split(item.read_text("utf-8"))
        for kind, name, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            if kind == wanted:
                found[name] = text.strip().rstrip(";")
    return found
