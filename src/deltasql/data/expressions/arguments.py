"""The arguments of a function in an expression, and what is said of those that can't be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from deltasql.data.expressions import types
from deltasql.errors import UnsupportedFeatureError, ValidationError


@dataclass(frozen=True, slots=True)
class Arguments:
    """A function's arguments: rendered, with their types, and the names of a struct's fields."""

    sql: Sequence[str]
    kinds: Sequence[str]
    names: Sequence[str] = field(default_factory=list)

    def text(self, position: int) -> str:
        """An argument as a text."""
        return types.cast(self.sql[position], self.kinds[position], "VARCHAR")

    def day(self, position: int) -> str:
        """An argument as a date."""
        return types.cast(self.sql[position], self.kinds[position], "DATE")

    def whole(self, position: int) -> str:
        """An argument as a whole number, such as a position or a number of days."""
        kind = self.kinds[position]
        if kind == "VARCHAR":
            return types.cast(self.sql[position], kind, "INTEGER")
        if kind not in types.DAYS:
            raise unsupported(f"a {kind.lower()} as a number of days or a place", "cast it to int")
        return self.sql[position]

    def must_have_no_text(self, name: str) -> None:
        """Raise if DuckDB would turn texts into numbers in its own way."""
        if "VARCHAR" in self.kinds:
            raise unsupported(f"{name} of strings", "cast them to numbers")


Render: TypeAlias = Callable[[Arguments], str]


def unsupported(what: str, remedy: str = "") -> UnsupportedFeatureError:
    """The error for something that expressions don't support."""
    return UnsupportedFeatureError(
        f"expressions can't use {what} here",
        cause="without Spark, only expressions with the same result as in Spark are evaluated",
        remedy=remedy or "rewrite it (docs/python.md lists the functions), or use Spark",
    )


def must_have(given: Arguments, name: str, least: int, most: int | None = None) -> None:
    """Raise unless a function is called with a number of values that it takes."""
    if not least <= len(given.sql) <= (most or least):
        raise ValidationError(
            f"{name} is called with {len(given.sql)} values",
            cause=f"it takes {least if most is None else f'{least} to {most}'}",
            remedy="correct the call",
        )
