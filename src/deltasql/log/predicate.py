"""Predicates: WHERE clauses as values. `parse` the text, `bind` it to a schema, then use it."""

from __future__ import annotations

from deltasql.log.predicate_ast import (
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
from deltasql.log.predicate_binding import bind
from deltasql.log.predicate_parser import parse

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
