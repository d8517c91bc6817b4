"""Rows given as dicts, as a table: a column for every key that any of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from deltasql.errors import SchemaMismatchError, ValidationError


def table_of_dicts(rows: Sequence[Any]) -> pa.Table:
    """The rows as a table; a column is null in rows that lack it.

    Arrow itself would take the columns of the first row for all rows.
    """
    names = _names(rows)
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _names(rows: Sequence[Any]) -> list[str]:
    names: dict[Any, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValidationError(
                f"row {number} is not a dict",
                cause=f"the first row is one, but this is of type {type(row).__qualname__}",
                remedy="pass rows of one kind",
            )
        names.update(dict.fromkeys(row))
    if not names:
        raise ValidationError(
            "the rows have no columns",
            cause="all of the dicts are empty",
            remedy="name a column in at least one of them; its value may be None",
        )
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise ValidationError(
            f"{odd[0]!r:.80} is not a column name",
            cause=f"it is of type {type(odd[0]).__qualname__}",
            remedy="use strings as keys",
        )
    return list(names)


def _column(name: str, values: list[Any]) -> pa.Array:
    kinds: dict[str, str] = {}
    for where, kind in _moments(values, name):
        if kinds.setdefault(where, kind) != kind:
            raise _mixed(where, f"it has both {kinds[where]} and {kind}")
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _mixed(name, str(error).split("\n", 1)[0] or repr(error)) from None


def _moments(values: Iterable[Any], where: str) -> Iterator[tuple[str, str]]:
    """Dates and times, which Arrow would silently turn into one another."""
    for value in values:
        if isinstance(value, datetime):
            yield where, "times" if value.tzinfo is None else "times with a zone"
        elif isinstance(value, date):
            yield where, "dates"
        elif isinstance(value, Mapping):
            for name, inner in value.items():
                yield from _moments([inner], f"{where}.{name}")
        elif isinstance(value, list | tuple):
            yield from _moments(value, f"{where}[]")


def _mixed(name: str, cause: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the values of the column {name!r:.80} have different types",
        cause=cause,
        remedy="give them the same type, or pass a pyarrow Table with the type that you want",
        column=name,
    )
