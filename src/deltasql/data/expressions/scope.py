"""What an expression can name: the relations of an operation, their columns and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltasql.data.expressions.engine import Engine, quoted, text
from deltasql.errors import ValidationError

# Prefix of our own columns, next to the user's.
OWN = "__deltasql_"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation by the name that expressions use for it, with DuckDB's types of its columns."""

    alias: str
    columns: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """The column as it is spelled; no two names differ only in case."""
        if name in self.columns:
            return name
        folded = name.lower()
        return next((known for known in self.columns if known.lower() == folded), None)


@dataclass(frozen=True, slots=True)
class Found:
    """A column of a relation, and the path into it if it is a struct."""

    relation: Relation
    column: str
    path: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The column as the engine finds it."""
        sql = f"{quoted(self.relation.alias)}.{quoted(self.column)}"
        for name in self.path:
            sql = f"struct_extract({sql}, {text(name)})"
        return sql


class Scope:
    """The relations that an expression is over."""

    def __init__(self, engine: Engine, relations: Sequence[Relation]) -> None:
        self._engine = engine
        self._relations = relations
        self._known: dict[str, str] = {}

    def find(self, names: Sequence[str]) -> Found | None:
        """The column of a dotted name; a relation's name takes precedence over a struct's."""
        if len(names) > 1:
            for relation in self._relations:
                if relation.alias.lower() == names[0].lower():
                    column = relation.find(names[1])
                    if column is not None:
                        return Found(relation, column, tuple(names[2:]))
        found = [
            Found(relation, column, tuple(names[1:]))
            for relation in self._relations
            if (column := relation.find(names[0])) is not None
        ]
        if len(found) > 1:
            shown = " or ".join(f"{item.relation.alias}.{item.column}" for item in found)
            raise ValidationError(
                f"the column {'.'.join(names)!r:.80} is ambiguous",
                cause=f"it may be {shown}",
                remedy="name the one that you mean, as above",
            )
        return found[0] if found else None

    def unknown(self, names: Sequence[str]) -> ValidationError:
        """The error for an unknown name."""
        known = [f"{item.alias}.{name}" for item in self._relations for name in item.columns]
        shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        return ValidationError(
            f"the expression names an unknown column {'.'.join(names)!r:.80}",
            cause=f"the columns are {shown}",
            remedy="name one of these; strings go in single quotes",
            column=".".join(names),
        )

    def type_of(self, sql: str) -> str:
        """DuckDB's type of an expression."""
        known = self._known.get(sql)
        if known is None:
            found = self._engine.rows(f"DESCRIBE SELECT {sql} AS value {self._from()}")
            known = self._known[sql] = str(found[0][1])
        return known

    def _from(self) -> str:
        shapes = []
        for relation in self._relations:
            columns = ", ".join(
                f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in relation.columns.items()
            )
            shapes.append(f"(SELECT {columns or '1'}) AS {quoted(relation.alias)}")
        return f"FROM {', '.join(shapes)}" if shapes else ""
