"""Predicates by brute force: random rows and predicates, and the truth about them."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from deltasql.log.predicates.predicate import (
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
)
from deltasql.log.predicates.text_literals import literal_of
from deltasql.spec.schema import Primitive, StructField, StructType

Row = dict[tuple[str, ...], Any]

TYPES = {
    ("i",): "integer",
    ("big",): "long",
    ("f",): "float",
    ("d",): "double",
    ("money",): "decimal(10,2)",
    ("wide",): "decimal(38,10)",
    ("s",): "string",
    ("day",): "date",
    ("at",): "timestamp",
    ("wall",): "timestamp_ntz",
    ("b",): "boolean",
    ("raw",): "binary",
    ("n", "i"): "integer",
    ("n", "s"): "string",
}
_NESTED = StructType(
    (StructField("i", Primitive("integer")), StructField("s", Primitive("string")))
)
SCHEMA = StructType(
    (
        *(StructField(path[0], Primitive(name)) for path, name in TYPES.items() if len(path) == 1),
        StructField("n", _NESTED),
    )
)

# --- values ---------------------------------------------------------------------------

EXACT = Context(prec=100)


def _from_micros(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _ten_places(units: int) -> Decimal:
    return Decimal(units).scaleb(-10, EXACT)


_MICROS = st.one_of(
    st.sampled_from([0, 1, 999, 1000, 1001, -1, -999, -1000, -1001]),
    st.integers(-(10**4), 10**4),
    st.integers(-62_135_510_400_000_000, 253_402_214_400_000_000),
)
_LONGS = [0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63), -(2**53) - 1]
_PIECES = ["", "a", "ab", "b", "é", "😀", "\U0010ffff", "\ue000", "x" * 31, "abcdef", "%", "'"]
_DOUBLES = [0.1, 0.3, 1.5, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.7976931348623157e308]
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1]),
    "long": st.sampled_from(_LONGS) | st.integers(-(2**63), 2**63 - 1),
    "float": st.sampled_from([0.1, 0.3, 0.7, -0.7, -0.0, math.nan, math.inf]).map(_single)
    | st.floats(width=32),
    "double": st.sampled_from(_DOUBLES) | st.floats(),
    "decimal(10,2)": st.sampled_from([Decimal("10.50"), Decimal("-10.50"), Decimal("99999999.99")])
    | st.integers(-99, 99).map(lambda n: Decimal(n) / 100),
    "decimal(38,10)": st.sampled_from([Decimal("0.3"), Decimal("1234567890123456789.0123456789")])
    | st.integers(-9, 9).map(_ten_places)
    | st.integers(1 - 10**38, 10**38 - 1).map(_ten_places),
    "string": st.lists(st.sampled_from(_PIECES), max_size=3).map("".join)
    | st.text(_CHARACTERS, max_size=4),
    "date": st.dates(date(2026, 1, 1), date(2026, 1, 9)) | st.dates(),
    "timestamp": _MICROS.map(_from_micros),
    "timestamp_ntz": _MICROS.map(_from_micros).map(lambda at: at.replace(tzinfo=None)),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=3),
}

NOTHING_BUT_NULLS: Row = dict.fromkeys(TYPES)


@st.composite
def _rows(draw: st.DrawFn) -> list[Row]:
    """Rows with values in a few columns: what is null throughout is a case of its own."""
    paths = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4, unique=True))
    values = st.fixed_dictionaries({path: st.none() | VALUES[TYPES[path]] for path in paths})
    return [NOTHING_BUT_NULLS | row for row in draw(st.lists(values, min_size=1, max_size=3))]


ROWS = _rows()


# --- predicates -----------------------------------------------------------------------

OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
_PATTERNS = st.lists(st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", "a", "ab", "é", "x", "'"]))


def literals_for(path: tuple[str, ...], rows: list[Row]) -> st.SearchStrategy[Any]:
    """Mostly what the rows have, where the bounds of the stats are, or next to it."""
    name = TYPES[path]
    found = [row[path] for row in rows]
    near = [neighbour for value in found for neighbour in _neighbours(value, name)]
    literals = st.sampled_from([*found, *near]) | VALUES[name]
    if name in ("integer", "long"):
        literals |= st.sampled_from([Decimal("0.5"), Decimal("-1.5"), 2**70, -(2**70)])
    if name.startswith("decimal"):
        literals |= st.sampled_from([Decimal("0.005"), Decimal("1e60"), Decimal("1e-60")])
    return literals


def _neighbours(value: Any, name: str) -> list[Any]:
    if name in ("integer", "long") and value is not None:
        return [value - 1, value + 1]
    if name == "decimal(38,10)" and value is not None:
        unit = Decimal("1e-10")
        return [EXACT.add(value, unit), EXACT.subtract(value, unit)]
    return [value + "a", value[:-1]] if isinstance(value, str) else []


def every_test(path: tuple[str, ...], literal: Any, other: Any) -> list[Predicate]:
    """Every way to test a column with a literal, and the opposite of each."""
    column = Column(path)
    tests: list[Predicate] = [Comparison(op, column, Literal(literal)) for op in OPERATORS]
    tests += [IsNull(column), In(column, (literal, other)), In(column, (literal, None))]
    if TYPES[path] == "string" and literal is not None:
        literally = re.sub(r"([%_\\])", r"\\\1", literal)
        tests += [Like(column, literally), Like(column, literally + "%"), Like(column, "_%")]
    return [*tests, *(Not(test) for test in tests)]


@st.composite
def _atoms(draw: st.DrawFn, rows: list[Row]) -> Predicate:
    alive = [path for path in TYPES if any(row[path] is not None for row in rows)]
    path = draw(st.sampled_from(alive * 4 + list(TYPES)))
    name, column = TYPES[path], Column(path)
    literals = literals_for(path, rows)
    shapes = ["compare"] * 4 + ["in", "between", "null"] + ["like"] * (name == "string")
    match draw(st.sampled_from(shapes)):
        case "compare":
            return Comparison(draw(st.sampled_from(OPERATORS)), column, Literal(draw(literals)))
        case "in":
            return In(column, tuple(draw(st.lists(literals | st.none(), min_size=1, max_size=20))))
        case "between":
            low, high = draw(literals), draw(literals)
            parts = (">=", low), ("<=", high)
            return And(tuple(Comparison(op, column, Literal(value)) for op, value in parts))
        case "like":
            return Like(column, "".join(draw(_PATTERNS)))
    return IsNull(column)


_COLUMN_PAIRS = [
    (("i",), ("n", "i")),
    (("i",), ("big",)),
    (("i",), ("money",)),
    (("money",), ("wide",)),
    (("f",), ("d",)),
    (("s",), ("n", "s")),
    (("b",), ("b",)),
]


@st.composite
def _pairs(draw: st.DrawFn) -> Predicate:
    left, right = draw(st.sampled_from(_COLUMN_PAIRS))
    return Comparison(draw(st.sampled_from(OPERATORS)), Column(left), Column(right))


def predicates(rows: list[Row]) -> st.SearchStrategy[Predicate]:
    leaves = _atoms(rows) | _atoms(rows) | _atoms(rows) | _pairs()
    leaves |= st.sampled_from([Constant(value=True), Constant(value=False), Constant(None)])
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Not, inner)
            | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
            | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )


# --- the truth ------------------------------------------------------------------------


def truth(predicate: Predicate, row: Row) -> bool | None:
    """Three-valued, straight from the SQL standard, floats ordered as in Spark."""
    match predicate:
        case Constant(value):
            return value
        case Not(part):
            value = truth(part, row)
            return None if value is None else not value
        case And(parts):
            values = [truth(part, row) for part in parts]
            return False if False in values else None if None in values else True
        case Or(parts):
            values = [truth(part, row) for part in parts]
            return True if True in values else None if None in values else False
        case IsNull(column):
            return row[column.path] is None
        case Like(column, pattern):
            text = row[column.path]
            return None if text is None else bool(re.fullmatch(_regex(pattern), text, re.DOTALL))
        case In(column, values):
            parts = tuple(Comparison("=", column, Literal(value)) for value in values)
            return truth(Or(parts), row)
        case Comparison(operator, left, right):
            other = row[right.path] if isinstance(right, Column) else right.value
            return _compared(operator, row[left.path], other)
    raise AssertionError(predicate)


def _compared(operator: str, left: Any, right: Any) -> bool | None:
    if operator == "<=>":
        if left is None or right is None:
            return left is None and right is None
        operator = "="
    if left is None or right is None:
        return None
    before, after = _place(left), _place(right)
    return {
        "=": before == after,
        "<>": before != after,
        "<": before < after,
        "<=": before <= after,
        ">": before > after,
        ">=": before >= after,
    }[operator]


def _place(value: Any) -> tuple[bool, Any]:
    if isinstance(value, float) and math.isnan(value):
        return (True, 0)
    return (False, value.encode() if isinstance(value, str) else value)


def _regex(pattern: str) -> str:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(piece) or re.escape(piece[-1]) for piece in pieces)


# --- as SQL, as Arrow -----------------------------------------------------------------


def sql(predicate: Predicate) -> str:
    match predicate:
        case Constant(value):
            return {True: "TRUE", False: "false", None: "NULL"}[value]
        case Not(part):
            return f"NOT ({sql(part)})"
        case And(parts):
            return "(" + " AND ".join(sql(part) for part in parts) + ")"
        case Or(parts):
            return "(" + " or ".join(sql(part) for part in parts) + ")"
        case IsNull(column):
            return f"{_name(column)} IS NULL"
        case Like(column, pattern):
            return f"{_name(column)} LIKE {_sql_value(pattern)}"
        case In(column, values):
            return f"{_name(column)} IN ({', '.join(_sql_value(value) for value in values)})"
        case Comparison(operator, left, right):
            other = _name(right) if isinstance(right, Column) else _sql_value(right.value)
            return f"{_name(left)} {operator} {other}"
    raise AssertionError(predicate)


def _name(column: Column) -> str:
    return ".".join(f'"{name}"' if name == "day" else name.upper() for name in column.path)


def _sql_value(value: Any) -> str:
    match value:
        case None | bool():
            return str(value).upper() if value is not None else "NULL"
        case float():
            return repr(value) if math.isfinite(value) else f"'{value}'"
        case str():
            return literal_of(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat()}'"
        case date():
            return f"'{value.isoformat()}'"
    return str(value)


ARROW = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,10)": pa.decimal128(38, 10),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}


def arrow(rows: list[Row]) -> pa.Table:
    columns = {
        path[0]: pa.array([row[path] for row in rows], ARROW[name])
        for path, name in TYPES.items()
        if len(path) == 1
    }
    nested = [
        None if row["n", "i"] is None and row["n", "s"] is None else (row["n", "i"], row["n", "s"])
        for row in rows
    ]
    dicts = [None if pair is None else dict(zip("is", pair, strict=True)) for pair in nested]
    columns["n"] = pa.array(dicts, pa.struct([("i", pa.int32()), ("s", pa.string())]))
    return pa.table(columns)
