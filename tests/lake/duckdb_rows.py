"""DuckDB as the judge of predicates: which rows of an Arrow table satisfy one."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from deltasql.log.predicates.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from tests.unit.predicate_model import TYPES

# Literals further from one than this are doubles to DuckDB, whatever they are written as.
_FAR = 30


class DuckDbRows:
    """One connection for many questions."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()

    def satisfying(self, rows: pa.Table, condition: Predicate | str) -> set[int]:
        """The ids of the rows of which the condition is true."""
        text = condition if isinstance(condition, str) else in_duckdb(condition)
        self._connection.register("judged", rows)
        try:
            found = self._connection.execute(f"SELECT id FROM judged WHERE {text}").fetchall()
        finally:
            self._connection.unregister("judged")
        return {row[0] for row in found}


def in_duckdb(predicate: Predicate) -> str:
    """The predicate in DuckDB's SQL, every literal with its type."""
    match predicate:
        case Constant(value):
            return "NULL::BOOLEAN" if value is None else str(value).upper()
        case Not(part):
            return f"NOT ({in_duckdb(part)})"
        case And(parts):
            return "(" + " AND ".join(map(in_duckdb, parts)) + ")"
        case Or(parts):
            return "(" + " OR ".join(map(in_duckdb, parts)) + ")"
        case IsNull(column):
            return f"{_name(column)} IS NULL"
        case Like(column, pattern):
            return f"{_name(column)} LIKE {_literal(pattern)} ESCAPE '\\'"
        case In(column, values):
            return f"{_name(column)} IN ({', '.join(map(_literal, values))})"
        case Comparison(operator, left, right):
            operator = "IS NOT DISTINCT FROM" if operator == "<=>" else operator
            other = _name(right) if isinstance(right, Column) else _literal(right.value)
            return f"{_name(left)} {operator} {other}"
    raise AssertionError(predicate)


def _name(column: Column) -> str:
    name = ".".join(f'"{part}"' for part in column.path)
    return f"CAST({name} AS DOUBLE)" if TYPES[column.path] == "float" else name


def _literal(value: Any) -> str:
    match value:
        case None | bool():
            return "NULL" if value is None else str(value).upper()
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            far = bool(value) and abs(value.adjusted()) > _FAR
            return f"CAST('{float(value)!r}' AS DOUBLE)" if far else f"{value:f}"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"from_hex('{value.hex()}')"
        case datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
    return str(value)


def shown(rows: pa.Table) -> list[str]:
    """Rows as text, by their ids: NaN is equal to itself there."""
    return [
        repr({name: _plain(value) for name, value in row.items()})
        for row in rows.sort_by("id").to_pylist()
    ]


def _plain(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
