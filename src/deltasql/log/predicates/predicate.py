"""Predicates: WHERE clauses as values. `parse` the text, `bind` it to a schema, then use it."""

from __future__ import annotations

from deltasql.log.predicates.ast import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    columns,
)
from deltasql.log.predicates.binding import bind
from deltasql.log.predicates.parser import parse

__all__ = [
    "And",
    "Column",
    "Comparison",
    "Constant",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "bind",
    "columns",
    "parse",
]
