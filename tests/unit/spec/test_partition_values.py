"""Partition values: the log's strings as typed values, and back."""

from __future__ import annotations

import math
import pickle
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec.partition_values import UnrepresentableValueError, parse_value, render_value
from deltasql.spec.schema import Primitive

WALL = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001
INSTANT = WALL.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("true", "boolean", True),
        ("False", "boolean", False),
        ("-128", "byte", -128),
        ("+7", "short", 7),
        ("9223372036854775807", "long", 2**63 - 1),
        ("1.5E10", "double", 1.5e10),
        ("-Infinity", "float", -math.inf),
        ("0.1", "float", 0.10000000149011612),
        ("12.50", "decimal(4,2)", Decimal("12.5")),
        ("1E+2", "decimal(4,0)", Decimal(100)),
        ("2026-1-2", "date", date(2026, 1, 2)),
        ("2026-01-02 03:04:05", "timestamp", INSTANT),
        ("2026-01-02 03:04:05.000001", "timestamp", INSTANT + timedelta(microseconds=1)),
        ("2026-01-02T03:04:05.5Z", "timestamp", INSTANT + timedelta(milliseconds=500)),
        ("2026-01-02T04:34:05+01:30", "timestamp", INSTANT),
        ("2026-01-01T19:04:05-0800", "timestamp", INSTANT),
        ("2026-01-02", "timestamp", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02 03:04:05", "timestamp_ntz", WALL),
        ("2026-01-02T03:04:05Z", "timestamp_ntz", WALL),
        ("\x01\x02ÿ", "binary", b"\x01\x02\xff"),
        ("\\u0001\\u00FF", "binary", b"\x01\xff"),
        ("€", "binary", "€".encode()),
        (" text ", "string", " text "),
    ],
)
def test_parse(text, name, expected):
    value = parse_value(text, Primitive(name))
    assert (type(value), value) == (type(expected), expected)


def test_nan_is_read():
    assert math.isnan(parse_value("NaN", Primitive("double")))


TYPES = [
    "string",
    "long",
    "integer",
    "boolean",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
    "decimal(5,2)",
]


@pytest.mark.parametrize("name", TYPES)
def test_null_is_none_and_the_empty_text(name):
    assert parse_value(None, Primitive(name)) is None
    assert parse_value("", Primitive(name)) is None
    assert render_value(None, Primitive(name)) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("yes", "boolean"),
        ("128", "byte"),
        ("1_000", "integer"),
        ("٣", "integer"),
        ("1.0", "long"),
        ("9" * 50, "long"),
        ("one", "double"),
        ("1e", "float"),
        ("1e39", "float"),
        ("NaN", "decimal(4,2)"),
        ("1.234", "decimal(4,2)"),
        ("100", "decimal(4,2)"),
        ("2026-02-30", "date"),
        ("2026-13-01", "date"),
        ("20260101", "date"),
        ("2026-01-02 03:04", "timestamp"),
        ("2026-01-02 25:04:05", "timestamp"),
        ("2026-01-02 03:04:05+30:00", "timestamp"),
        ("x", "variant"),
    ],
)
def test_malformed_texts_are_told(text, name):
    with pytest.raises(LogFormatError) as caught:
        parse_value(text, Primitive(name))
    assert caught.value.remedy
    assert not isinstance(caught.value, UnrepresentableValueError)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("10000-01-01", "date"),
        ("+12026-01-01", "date"),
        ("0000-01-01", "date"),
        ("-0044-03-15", "date"),
        ("9999-12-31T23:59:59-05:00", "timestamp"),
        ("10000-01-01 00:00:00", "timestamp_ntz"),
    ],
)
def test_dates_beyond_python_have_an_error_of_their_own(text, name):
    with pytest.raises(UnrepresentableValueError) as caught:
        parse_value(text, Primitive(name))
    assert type(pickle.loads(pickle.dumps(caught.value))) is UnrepresentableValueError


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (True, "boolean", "true"),
        (5, "long", "5"),
        (math.nan, "double", "NaN"),
        (-math.inf, "double", "-Infinity"),
        (Decimal("1E+2"), "decimal(5,2)", "100"),
        (Decimal("1.50"), "decimal(5,2)", "1.50"),
        (date(26, 1, 2), "date", "0026-01-02"),
        (INSTANT, "timestamp", "2026-01-02T03:04:05.000000Z"),
        (
            INSTANT.astimezone(timezone(timedelta(hours=3))),
            "timestamp",
            "2026-01-02T03:04:05.000000Z",
        ),
        (WALL, "timestamp_ntz", "2026-01-02 03:04:05"),
        (b"\x01\xff", "binary", "\x01ÿ"),
        ("", "string", None),
    ],
)
def test_render(value, name, expected):
    assert render_value(value, Primitive(name)) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "boolean"),
        (True, "long"),
        (2**31, "integer"),
        ("1", "long"),
        (Decimal("1.234"), "decimal(5,2)"),
        (1.5, "decimal(5,2)"),
        (INSTANT, "date"),
        (WALL, "timestamp"),
        (INSTANT, "timestamp_ntz"),
        ("x", "binary"),
        (b"x", "string"),
        ({}, "variant"),
    ],
)
def test_values_of_another_type_are_refused(value, name):
    with pytest.raises(ValidationError, match="can't be a partition value"):
        render_value(value, Primitive(name))


ROUND_TRIPS = st.one_of(
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("decimal(10,3)"), st.decimals(-9999999, 9999999, places=3)),
    st.tuples(st.just("date"), st.dates()),
    st.tuples(st.just("timestamp"), st.datetimes(timezones=st.just(UTC))),
    st.tuples(st.just("timestamp_ntz"), st.datetimes()),
    st.tuples(st.just("string"), st.text(min_size=1)),
    st.tuples(st.just("binary"), st.binary(min_size=1) | st.just(b"\\u0041")),
)


@given(ROUND_TRIPS)
def test_values_come_back(pair):
    name, value = pair
    kind = Primitive(name)
    assert parse_value(render_value(value, kind), kind) == value


@given(st.text(), st.sampled_from(TYPES))
def test_any_text_gives_a_value_or_a_format_error(text, name):
    with suppress(LogFormatError):
        parse_value(text, Primitive(name))
