"""A procedure: what it takes, what it returns, and what it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

Row: TypeAlias = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument; one with a default, written in SQL, may be omitted."""

    name: str
    type: str = "STRING"
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """An operation of the lake by its name in SQL; `columns` are those of its rows."""

    name: str
    about: str
    columns: str
    run: Callable[[Lake, Mapping[str, Any]], Iterable[Row]]
    parameters: tuple[Parameter, ...] = ()
    # Refused inside a transaction, since it would not be part of it.
    writes: bool = False

    def described(self) -> dict[str, Any]:
        """The description for Spark."""
        return {
            "name": self.name,
            "about": self.about,
            "columns": self.columns,
            "parameters": [
                {"name": item.name, "type": item.type, "default": item.default}
                for item in self.parameters
            ],
        }


def plain(value: Any) -> Any:
    """A value as it is sent to Spark: times in microseconds."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    return value
