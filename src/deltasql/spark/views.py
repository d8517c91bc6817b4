"""Temporary views over the tables of a namespace, all of one cut."""

from __future__ import annotations

from collections.abc import Iterable

from deltasql.errors import TableNotFoundError, ValidationError


def view_names(tables: Iterable[str], namespace: str | None) -> dict[str, str]:
    """The view of each table in the namespace: the rest of its name, with dots as underscores."""
    start = f"{namespace}." if namespace else ""
    found: dict[str, str] = {}
    for table in sorted(tables):
        if not table.startswith(start):
            continue
        view = table.removeprefix(start).replace(".", "_")
        if view in found.values():
            other = next(name for name, taken in found.items() if taken == view)
            raise ValidationError(
                f"{other} and {table} would both be the view {view}",
                cause="a temporary view has no namespace, so dots become underscores",
                remedy="register a smaller namespace, or rename one of the tables",
            )
        found[table] = view
    if not found:
        raise TableNotFoundError(
            f"there are no tables in {namespace!r}" if namespace else "the lake has no tables",
            remedy="see lake.tables()",
        )
    return found
