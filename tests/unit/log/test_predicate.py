"""The text of a predicate, what it means, and how its mistakes are told."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.errors import ValidationError
from deltasql.log.predicates.ast import compare, push_not
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
    bind,
    columns,
    parse,
)
from deltasql.log.predicates.text_literals import literal_of
from deltasql.spec.schema import ArrayType, Primitive, StructField, StructType
from tests.unit.predicate_model import ROWS, SCHEMA, predicates, sql, truth

A, B = Column(("a",)), Column(("b",))


def is_(operator, value, column=A):
    return Comparison(operator, column, Literal(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", is_("=", 1)),
        ("a == 1", is_("=", 1)),
        ("a != 1", is_("<>", 1)),
        ("1 < a", is_(">", 1)),
        ("a <=> NULL", is_("<=>", None)),
        ("a >= -1.50e1", is_(">=", Decimal("-15.0"))),
        ("a = .5 or a = 5.", Or((is_("=", Decimal("0.5")), is_("=", Decimal(5))))),
        ("a = 'it''s'", is_("=", "it's")),
        ("a = x'00Ff'", is_("=", b"\x00\xff")),
        ("a = DATE '2026-11-01'", is_("=", date(2026, 11, 1))),
        (
            "a = timestamp '2026-11-01 10:00:00+02:00'",
            is_("=", datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ),
        ("date = '2026-11-01'", is_("=", "2026-11-01", Column(("date",)))),
        ("a IN (1, -2, NULL)", In(A, (1, -2, None))),
        ("a not in ('x')", Not(In(A, ("x",)))),
        ("a BETWEEN 1 AND 5 AND b", And((And((is_(">=", 1), is_("<=", 5))), is_("=", True, B)))),
        ("a NOT BETWEEN 1 AND 5", Not(And((is_(">=", 1), is_("<=", 5))))),
        ("3 BETWEEN a AND b", And((is_("<=", 3), is_(">=", 3, B)))),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a LIKE 'x%'", Like(A, "x%")),
        ("a NOT LIKE 'x%'", Not(Like(A, "x%"))),
        ("NOT NOT NOT a = 1", Not(is_("=", 1))),
        ("a = 1 OR b = 2 AND a = 3", Or((is_("=", 1), And((is_("=", 2, B), is_("=", 3)))))),
        ("(a = 1 OR b = 2) AND a = 3", And((Or((is_("=", 1), is_("=", 2, B))), is_("=", 3)))),
        ("((a)) = (1)", is_("=", 1)),
        ("a < b", Comparison("<", A, B)),
        ("n.x = 1", is_("=", 1, Column(("n", "x")))),
        ('"a.b".`c``d` = 1', is_("=", 1, Column(("a.b", "c`d")))),
        ("größe = 1", is_("=", 1, Column(("größe",)))),
        ("TRUE", Constant(value=True)),
        ("1 = 1.0", Constant(value=True)),
        ("'a' > 'b' OR NULL", Or((Constant(value=False), Constant(None)))),
    ],
)
def test_parse(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "a column or a value"),
        ("a =", 3, "a column or a value"),
        ("a = 1 b", 6, "AND, OR or the end"),
        ("a = 'open", 4, "a column, a value or an operator"),
        ("a IN ()", 6, "a column or a value"),
        ("a IN (1, b)", 9, "a value"),
        ("a IN (1", 7, ")"),
        ("(a = 1", 6, ")"),
        ("a NOT 5", 6, "IN, BETWEEN or LIKE"),
        ("a IS 5", 5, "NULL"),
        ("a BETWEEN 1 OR 2", 12, "AND"),
        ("a LIKE 5", 7, "a pattern"),
        ("5 IN (5)", 0, "a column"),
        ("(a = 1) = 2", 0, "a column or a value"),
        ("a = 5x", 4, "a column, a value"),
        ("a = 1e999", 4, "a number that some column can hold"),
        ("a = DATE '2026-02-30'", 9, "a date such as"),
        ("a = X'123'", 4, "hexadecimal"),
        ("1", 1, "a comparison"),
        ("1 = 'a'", 7, "values of one type"),
        ("a = '\0'", 5, "no NUL"),
        ("a = '\ud800'", 5, "no lone surrogate"),
        ("a = 1; DROP TABLE b", 5, "a column, a value or an operator"),
        ("(" * 65 + "a" + ")" * 65, 65, "at most 64 nested"),
        ("n. = 1", 3, "the name of a nested column"),
    ],
)
def test_mistakes_are_shown_where_they_are(text, position, expected):
    with pytest.raises(ValidationError) as caught:
        parse(text)
    assert caught.value.position == position
    assert expected in caught.value.cause
    assert caught.value.remedy


def test_deep_texts_are_refused_and_long_ones_are_not():
    with pytest.raises(ValidationError):
        parse("(" * 100_000 + "a = 1")
    assert len(parse(" AND ".join(["a = 1"] * 20_000)).parts) == 20_000
    assert parse("NOT " * 20_001 + "a = 1") == Not(is_("=", 1))


def test_only_text_is_parsed():
    with pytest.raises(ValidationError, match="must be text"):
        parse(None)


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from([*"ab1'(),.=<", "NOT", "IN", "IS", "LIKE"])).map(" ".join)
)
def test_any_text_gives_a_predicate_or_a_validation_error(text):
    with suppress(ValidationError):
        bind(parse(text), StructType((StructField("a", Primitive("long")),)))


def test_predicates_are_values():
    predicate = parse("a = 1 AND n.x IN (1, 2) AND NOT b IS NULL")
    assert pickle.loads(pickle.dumps(predicate)) == copy.deepcopy(predicate) == predicate
    assert len({predicate, parse("a = 1 AND n.x IN (1, 2) AND NOT b IS NULL")}) == 1
    assert columns(predicate) == {("a",), ("b",), ("n", "x")}
    assert columns(parse("a < b OR TRUE")) == {("a",), ("b",)}


@settings(max_examples=60, deadline=None)
@given(st.data(), ROWS)
def test_pushing_not_down_changes_no_truth(data, rows):
    predicate = data.draw(predicates(rows))
    for row in rows:
        assert truth(push_not(predicate), row) == truth(predicate, row)
        assert truth(push_not(Not(predicate)), row) == truth(Not(predicate), row)


@settings(max_examples=60, deadline=None)
@given(st.data(), ROWS)
def test_binding_changes_no_truth(data, rows):
    predicate = data.draw(predicates(rows))
    bound = bind(parse(sql(predicate)), SCHEMA)
    for row in rows:
        assert truth(bound, row) == truth(predicate, row)


def test_nan_is_greatest_and_equals_itself():
    nan = float("nan")
    assert compare(nan, nan) == 0
    assert compare(nan, float("inf")) > 0 > compare(1.0, nan)


# --- binding --------------------------------------------------------------------------


def bound_to(delta_type, text):
    schema = StructType((StructField("Col", Primitive(delta_type)),))
    predicate = bind(parse(text), schema)
    assert predicate.left == Column(("Col",), Primitive(delta_type))
    value = predicate.right.value
    return type(value), value


@pytest.mark.parametrize(
    ("delta_type", "literal", "expected"),
    [
        ("long", "5", 5),
        ("long", "'5'", 5),
        ("integer", "5.0", 5),
        ("integer", "5.5", Decimal("5.5")),
        ("double", "1", 1.0),
        ("double", "'-Infinity'", float("-inf")),
        ("float", "0.1", 0.1),
        ("decimal(10,2)", "'1.23'", Decimal("1.23")),
        ("decimal(10,2)", "7", Decimal(7)),
        ("string", "''", ""),
        ("date", "'2026-11-01'", date(2026, 11, 1)),
        ("date", "'2026-1-1'", date(2026, 1, 1)),
        ("date", "TIMESTAMP '2026-11-01 00:00:00'", date(2026, 11, 1)),
        ("timestamp", "'2026-11-01'", datetime(2026, 11, 1, tzinfo=UTC)),
        ("timestamp", "'2026-11-01T01:00:00.5+01:00'", datetime(2026, 11, 1, 0, 0, 0, 500000, UTC)),
        ("timestamp", "TIMESTAMP '2026-11-01 01:00:00'", datetime(2026, 11, 1, 1, tzinfo=UTC)),
        ("timestamp", "DATE '2026-11-01'", datetime(2026, 11, 1, tzinfo=UTC)),
        ("timestamp_ntz", "'2026-11-01 01:00:00'", datetime(2026, 11, 1, 1)),  # noqa: DTZ001
        ("boolean", "'TRUE'", True),
        ("binary", "'é'", "é".encode()),
    ],
)
def test_literals_become_the_columns_type(delta_type, literal, expected):
    assert bound_to(delta_type, f"cOL = {literal}") == (type(expected), expected)


@pytest.mark.parametrize(
    ("delta_type", "literal"),
    [
        ("long", "'five'"),
        ("long", "TRUE"),
        ("long", "''"),
        ("double", "1e309"),
        ("double", "'one'"),
        ("string", "5"),
        ("string", "DATE '2026-11-01'"),
        ("date", "'2026-02-30'"),
        ("date", "'10000-01-01'"),
        ("date", "5"),
        ("date", "TIMESTAMP '2026-11-01 01:00:00'"),
        ("timestamp", "'noon'"),
        ("timestamp_ntz", "'2026-11-01 01:00:00Z'"),
        ("timestamp_ntz", "TIMESTAMP '2026-11-01 01:00:00+01:00'"),
        ("boolean", "1"),
        ("variant", "1"),
    ],
)
def test_literals_of_another_kind_are_refused(delta_type, literal):
    with pytest.raises(ValidationError, match="can't be compared") as caught:
        bound_to(delta_type, f"col = {literal}")
    assert caught.value.cause
    assert caught.value.remedy


def test_names_are_found_without_case_and_the_nearest_is_named():
    nested = StructType((StructField("Street", Primitive("string")),))
    schema = StructType((StructField("Address", nested), StructField("amount", Primitive("long"))))
    bound = bind(parse("ADDRESS.street = 'x'"), schema)
    assert bound.left.path == ("Address", "Street")
    with pytest.raises(ValidationError, match="did you mean amount") as caught:
        bind(parse("amuont = 1"), schema)
    assert caught.value.column == "amuont"
    with pytest.raises(ValidationError, match=r"did you mean Address\.Street"):
        bind(parse("address.stret = 'x'"), schema)
    with pytest.raises(ValidationError, match="unknown column"):
        bind(parse("amount.x = 1"), schema)


def test_null_literals_are_folded_after_the_column_is_found():
    schema = StructType((StructField("a", Primitive("long")),))
    assert bind(parse("a = NULL"), schema) == Constant(None)
    assert bind(parse("NULL <=> a"), schema) == IsNull(Column(("a",), Primitive("long")))
    with pytest.raises(ValidationError):
        bind(parse("b = NULL"), schema)


def test_types_that_have_no_order_can_be_null_only():
    schema = StructType(
        (StructField("tags", ArrayType(Primitive("string"))), StructField("a", Primitive("long")))
    )
    assert isinstance(bind(parse("tags IS NULL"), schema), IsNull)
    for text in ("tags = 'x'", "tags IN (NULL)", "tags LIKE 'x'", "a LIKE 'x'", "a = tags"):
        with pytest.raises(ValidationError):
            bind(parse(text), schema)


@pytest.mark.parametrize("pattern", ["a\\", "\\a"])
def test_malformed_patterns_are_refused(pattern):
    with pytest.raises(ValidationError, match="LIKE pattern"):
        parse(f"a LIKE {literal_of(pattern)}")
