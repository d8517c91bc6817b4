"""What notebooks show: plain HTML tables that no value can break out of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final, TypeVar

from deltasql.errors import DeltaSqlError
from deltasql.showing.columns import in_columns

T = TypeVar("T")
# Nobody reads more in a notebook cell.
_MOST_ROWS: Final = 20
_LONGEST: Final = 200


class Listing(list[T]):
    """A list that a notebook shows as a table, and a prompt in columns."""

    def __repr__(self) -> str:
        if not self or not is_dataclass(self[0]):
            return super().__repr__()
        columns = _columns(self[0])
        rows = [[_value(item, name) for name in columns] for item in self[:_MOST_ROWS]]
        return in_columns(columns, rows, note=more(len(self)))

    def _repr_html_(self) -> str:
        shown = self[:_MOST_ROWS]
        values = {
            name: [_value(item, name) for item in shown]
            for name in (_columns(self[0]) if self else ())
        }
        # What says nothing of any of them takes no room.
        told = {name: column for name, column in values.items() if any(map(_says, column))}
        rows = zip(*([_worded(value) for value in column] for column in told.values()), strict=True)
        return html_table(list(told), rows, note=more(len(self)))


def more(count: int) -> str:
    """The note about rows that are not shown."""
    return f"{count:,} in total, the first {_MOST_ROWS} shown" if count > _MOST_ROWS else ""


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", note: str = ""
) -> str:
    """Rows under headings."""
    heading = "".join(f"<th>{_text(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    caption = f"<p><b>{_text(title)}</b></p>" if title else ""
    below = f"<p><small>{_text(note)}</small></p>" if note else ""
    return f"{caption}<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>{below}"


def html_record(title: str, values: Mapping[str, Any]) -> str:
    """One object: its properties line by line, without empty ones."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{_text(key)}</th><td>{_text(_worded(value))}</td></tr>"
        for key, value in values.items()
        if _says(value) or value is False
    )
    return f"<p><b>{_text(title)}</b></p><table><tbody>{rows}</tbody></table>"


def schema_html(schema: Any) -> str:
    """The columns of an Arrow schema."""
    rows = [(field.name, field.type, "" if field.nullable else "not null") for field in schema]
    return html_table(("column", "type", ""), rows)


def failed(title: str, error: DeltaSqlError) -> str:
    """What a notebook shows for an object that can't be read: showing must not fail."""
    return html_record(title, {"problem": error.problem, "cause": error.cause})


def _columns(item: object) -> list[str]:
    """The fields that a value shows of itself; those of an entry inside it take its place."""
    if not is_dataclass(item):
        return ["name", "location"] if hasattr(item, "location") else ["value"]
    names: list[str] = []
    for found in fields(item):
        if not found.repr:
            continue
        inner = getattr(item, found.name)
        names += _columns(inner) if is_dataclass(inner) else [found.name]
    return names


def _value(item: object, name: str) -> Any:
    if name == "value" and not hasattr(item, name):
        return item
    if hasattr(item, name):
        return getattr(item, name)
    assert is_dataclass(item), "a column comes from the item or from a value within it"
    inner = [getattr(item, found.name) for found in fields(item)]
    return next((getattr(value, name) for value in inner if hasattr(value, name)), None)


def _says(value: Any) -> bool:
    return value is not None and value is not False and value not in ("", [], {}, ())


def _worded(value: Any) -> Any:
    """What a value of ours is called; those of users stay as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items() if item is not None)
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        value = value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    elif isinstance(value, timedelta):
        value = str(value).removesuffix(", 0:00:00")
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return escape(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
