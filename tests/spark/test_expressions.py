"""Expressions without Spark: the same values as Spark's, an error where it has one, or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltasql.data.expressions import dialect
from deltasql.data.expressions.engine import Engine
from deltasql.data.expressions.scope import Relation, Scope
from deltasql.data.expressions.types import engine_type
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.spec.schema import parse_schema

DDL = (
    "b tinyint, i int, l bigint, f float, d double, m decimal(10,2), s string, n string, "
    "z boolean, y date, t timestamp, x binary, k struct<a: int, c: string>"
)
NAN = float("nan")
ROWS: list[tuple[Any, ...]] = [
    (
        1, 7, 2**40, 0.5, 2.5, Decimal("12.34"), "abc", "42", True, date(2024, 2, 29),
        datetime(2024, 2, 29, 13, 14, 15, 500000, tzinfo=UTC), b"ab", (3, "q"),
    ),
    (
        -128, -7, -5, -1.5, -2.5, Decimal("-0.01"), "Zé'x%", " 7 ", False, date(1969, 12, 31),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), b"\x00\xff", (None, None),
    ),
    (
        127, 2**31 - 1, 2**63 - 1, NAN, NAN, Decimal("99999999.99"), "", "0", None, None, None,
        b"", None,
    ),
    (None,) * 13,
]  # fmt: skip

# Evaluated in both; where Spark fails, so do we.
SAME = (
    # Arithmetic: overflow and a division by zero fail, / gives doubles, % has the dividend's sign.
    "b + 1", "i / 2", "l / i", "i % 3",
    "-i", "d * 2", "f + d", "m + 1", "m * 2", "m - 0.5", "m + m", "1.5 * i", "f / f",
    "mod(l, 10)",
    # Comparisons and null.
    "s < n", "s < 'b'", "s = 'abc'", "n = 42", "n > 5", "42 = n", "n IN (42, 7)", "i = '7'",
    "d = d", "d > 1", "f < d", "d <=> NULL", "s <=> s", "i <> 7", "i != 7", "i == 7",
    "NOT z", "z AND NULL", "z OR NULL", "i IN (7, NULL)", "i NOT IN (7, NULL)",
    "i BETWEEN -10 AND 10", "m = 12.34", "m > i", "y > '2000-01-01'", "y = DATE '2024-02-29'",
    "t >= '2024-02-29 13:14:15.5'", "t < TIMESTAMP '2000-01-01 00:00:00'", "y < t", "z = true",
    "x = X'6162'", "s IS NULL", "k.a = 3", "k.c", "k IS NOT NULL",
    # Casts: fractions are cut off, what does not fit fails.
    "CAST(m AS int)", "CAST(m AS bigint)",
    "CAST(n AS int)",
    "CAST(n AS double)", "CAST(n AS bigint)", "CAST(i AS string)", "CAST(m AS string)",
    "CAST(z AS string)", "CAST(y AS string)", "CAST(t AS string)", "CAST(z AS int)",
    "CAST(i AS boolean)", "CAST('yes' AS boolean)", "CAST(i AS double)",
    "CAST(i AS decimal(12,1))",
    "CAST(t AS date)", "CAST(y AS timestamp)", "CAST('2024-01-02' AS date)",
    "CAST('2024-01-02 03:04:05' AS timestamp)", "CAST(s AS binary)", "CAST(X'6162' AS string)",
    "CAST(NULL AS int)",
    "CAST(d AS float)", "CAST(i AS float)", "CAST(m AS double)", "CAST('+5' AS int)",
    # Texts.
    "concat(s, '-', n)", "concat(s, NULL)", "s || n", "s || i", "1 + 2 || s", "s || -1",
    "s || 2 * 3", "upper(s)", "lower(s)", "length(s)",
    "char_length(s)", "trim(n)", "ltrim(n)", "rtrim(n)", "substring(s, 2, 1)", "substring(s, 2)",
    "substr(s, 1, 2)", "replace(s, 'b', 'xx')", "s LIKE 'a%'", "s LIKE '%\\%'", "s LIKE '_bc'",
    "s NOT LIKE 'a%'", "startswith(s, 'a')", "endswith(s, 'c')", "contains(s, 'b')", "s LIKE NULL",
    "left(s, 2)", "left(s, -1)", "right(s, 2)", "right(s, 0)", "lpad(s, 5, '*')", "rpad(s, 2)",
    "lpad(s, -1, 'x')", "repeat(s, 2)", "repeat(s, -1)", "instr(s, 'b')", "instr(s, '')",
    "locate('c', s)", "position('c' IN s)", "concat_ws('-', s, NULL, i)", "concat_ws(NULL, s)",
    "concat_ws('-', NULL)",
    "substring(s, 1, NULL)", "left(s, NULL)", "rpad(s, NULL)", "repeat(s, NULL)", "md5(s)",
    "md5(x)", "sha2(s, 256)", "sha2(x, 0)",
    # Arrays.
    "array(i, 3, NULL)", "array(s, 'x')", "ARRAY (m, i)",
    "size(array(i, 3))", "size(NULLIF(array(i), array(i)))", "array_contains(array(1, 2), 2)",
    "array_contains(array(1, NULL), 2)", "array_contains(array(i, 7), CAST(7 AS bigint))",
    "array(s, 'x')[1]", "k['a']",
    # Choices.
    "z IS TRUE", "z IS NOT FALSE", "(i > 0) IS NOT TRUE", "nvl2(i, s, 'none')", "isnotnull(i)",
    "coalesce(s, n, 'q')", "nvl(i, 0)", "ifnull(i, 0)", "nullif(i, 7)", "isnull(i)",
    "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'o' END", "CASE i WHEN 7 THEN 1 END",
    "if(z, 1, 2)", "greatest(i, 3)", "least(i, NULL, 3)", "greatest(d, 1.0)",
    "CASE WHEN i = 0 THEN 1 / i ELSE 0 END", "isnan(d)",
    # Numbers.
    "abs(i)", "abs(d)", "floor(m)", "ceil(i)", "floor(l)", "ceil(9007199254740993)", "round(m, 1)",
    "round(m)", "round(i, 2)", "round(-2.5)", "sqrt(i)", "sqrt(m)",
    # Days and times.
    "year(y)", "month(t)", "day(y)", "hour(t)", "minute(t)", "date_add(y, 1)", "date_sub(y, 1)",
    "datediff(y, DATE '2024-01-01')", "to_date('2024-01-01')", "to_date(t)", "year('2024-03-01')",
    "date_trunc('MONTH', t)", "date_trunc('week', t)", "date_trunc('dd', y)",
    "date_trunc('Hour', t)", "date_trunc('QUARTER', '2024-05-06 07:08:09')", "trunc(y, 'MM')",
    "trunc(y, 'week')", "trunc(t, 'year')", "trunc('2024-05-06', 'quarter')",
    "t + INTERVAL 1 DAY", "t - INTERVAL 2 HOURS", "y + 1", "dayofmonth(t)",
    "current_date > DATE '2000-01-01'", "second(t)", "quarter(y)", "dayofweek(y)",
    "weekday(y)", "dayofyear(t)", "weekofyear(y)", "last_day(y)", "last_day(t)",
    "add_months(y, 1)", "add_months(y, -12)", "make_date(2024, 2, 29)", "to_timestamp(y)",
    "to_timestamp('2024-01-02 03:04:05')", "extract(year FROM t)", "date_part('week', y)",
    "extract(dow FROM y)", "date_format(t, 'yyyy-MM-dd HH:mm:ss')", "date_format(y, 'yyyyMM')",
    # Structs.
    "named_struct('a', i, 'c', s)", "k = named_struct('a', 3, 'c', 'q')",
    # Texts have escapes, unless they are raw.
    r"'a\nb'", r"'a\\nb'", "'it''s'", r"'it\'s'", r"'\u0041\u004'", r"'\U0001F600'", r"'\101\201'",
    r"'\%\_'", r"'\Z\b\t\r\q\x41'", r"'\"'", r"r'a\nb'", r"'\uD83D\uDE00'", r"'C:\temp'", r"'\\'",
    r"'a\b' LIKE 'a\b'", r"'a\\b' LIKE 'a\\\\b'", r"'a%' LIKE 'a\%'", r"'a\\x' LIKE 'a\\\\%'",
    r"s = 'Z\u00e9\'x\%'", r"DATE '2024\u002d01-01'", "'a\\\nb'", "concat(r'\\', s)",
    # A text beside a number is one; so are the branches of a choice.
    "nullif(i, '7')", "nullif('7', i)", "nullif(i, 7.0)", "nullif(l, f)", "nullif(s, NULL)",
    "coalesce(i, '7')", "coalesce('7', i)", "coalesce(NULL, i, '7')", "coalesce(l, m)",
    "coalesce(i, f)", "coalesce(y, t)", "coalesce(y, '2020-01-01', t)", "coalesce(z, 'true')",
    "coalesce(x, 'a')", "coalesce(i, m, '3.5')", "coalesce(m, 1)", "nvl(i, '8')",
    "ifnull(NULL, '6.6')",
    "CASE WHEN z THEN '6' ELSE i END", "if(z, '6', i)", "if(z, '2020-01-01', y)", "if(z, 1, 2.5)",
    "CASE i WHEN '7' THEN 1 ELSE CAST(2 AS bigint) END",
    "greatest(l, f)", "greatest(m, d)", "greatest(y, t)", "greatest(s, n)", "greatest(i, m)",
    "i IN ('6', '7')", "n IN (42, 7.5)", "i IN ('7', NULL)", "i BETWEEN '6' AND '7'", "mod(i, f)",
    "i % m", "i % d", "isnan(i)", "length(x)", "length(i)", "length(m)", "length(z)",
    "contains(i, '7')",
    "startswith(i, 7)", "replace(i, 7, 8)", "concat(i, l)", "concat(z, y)", "date_add(y, '1')",
    "substring(s, '2')", "t + INTERVAL '1' DAY", "s LIKE 1", "i LIKE '7'",
)  # fmt: skip

# Spark fails for some of the rows.
MAY_FAIL = (
    "i + 1", "l - 1", "i / 0", "i % 0", "d / 0", "CAST(d AS int)", "CAST(i AS tinyint)",
    "CAST(l AS int)", "CAST(s AS int)", "CAST('1.5' AS int)", "CAST('maybe' AS boolean)",
    "CAST(d AS decimal(5,1))", "CAST(m AS decimal(4,1))", "CAST('x' AS date)", "abs(b)",
    "CAST(i AS bigint) + l", "CASE WHEN i > 7 THEN '6.6' ELSE i END",
    "if(i > 7, '6.6', i)", "nvl(z, 'x')", "i IN ('6.6', 7)", "n IN ('a', 42)",
    "i BETWEEN '6' AND '7.5'", "date_add(y, '1.6')", "substring(s, '2.6')",
    "coalesce(NULL, '6.6', i)",
    "t + INTERVAL 1.6 DAY", "t + INTERVAL '1.6' DAY",
    "make_date(2023, 2, 29)", "CAST('1_000' AS float)", "CAST('1_0' AS decimal(5,1))",
    "concat('1', '_0') > d", "CAST('2024/01/31' AS date)",
    "CAST('infinity' AS timestamp)", "CAST('2024-01-31 24:00:00' AS timestamp)",
    "t < concat('2024', '/01/31')",
)  # fmt: skip
# Spark fails for rows that have a value; for null it need not look at the other side.
FAIL = (
    "nullif(i, '6.6')", "CASE i WHEN '7.6' THEN 1 END", r"s LIKE 'a\\b'", r"s LIKE 'a\\'",
)  # fmt: skip
# Spark has a value, and we say that we have none.
REFUSED = (
    "s || 1 + 2", "s || n - 1 || s",
    "m / 2", "m / m", "ceil(d)", "floor(f)", "CAST(d AS string)", "rand()", "uuid()", "round(d)",
    "sum(i)", "CAST(i AS timestamp)", "CAST(t AS bigint)", "y - DATE '2024-01-01'", "(SELECT 1)",
    "date_trunc('eon', t)", "trunc(y, s)", "extract(second FROM t)", "round(m, i)", "round(m, -1)",
    "i = y", "l < t", "x = i", "size(s)", "array_contains(array('1'), 1)",
    "array_contains(array(1), NULL)",
    "date_format(t, 'EEE')", "date_format(t, s)", "sha2(s, 512)", "count(*) OVER ()",
    "try_cast(s AS int)", "s + 1",
    "regexp_replace(s, 'a', 'b')", "read_text(s)",
    "abs(n)", "-n", "n / 2", "n % 2", "floor(n)", "isnan(n)", "concat(x, x)", "substring(x, 1, 1)",
    "substring(s, 2.6)",
    # Nor has Spark.
    "greatest(i, '7.6')", "least(i, 1.5, '3')", "greatest(s, y)", "coalesce(z, 1)", "nullif(z, 1)",
    "z = 1", "date_add(y, l)", "date_add(y, 1.6)", "y + l",
    "k = named_struct('a', '3', 'c', 'q')", "coalesce(k, named_struct('a', '1', 'c', 'x'))",
)  # fmt: skip
# Neither has one.
MALFORMED = (
    "i +", "i; DROP TABLE t", "i FROM t", "nothing", "k.nothing", "i)", "upper(s, s)",
    r"E'a\nb'", "$$a$$", r"'a\'", r"'\uD800'", r"'\0'", r"'\U00110000'", "B'1'",
)  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark):
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return spark.createDataFrame(ROWS, DDL).coalesce(1).cache()


@pytest.fixture(scope="module")
def rows(frame) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(frame.columns, row, strict=True)) for row in _with_structs(ROWS)],
        schema=pa.schema(
            [
                ("b", pa.int8()), ("i", pa.int32()), ("l", pa.int64()), ("f", pa.float32()),
                ("d", pa.float64()), ("m", pa.decimal128(10, 2)), ("s", pa.string()),
                ("n", pa.string()), ("z", pa.bool_()), ("y", pa.date32()),
                ("t", pa.timestamp("us", "UTC")), ("x", pa.binary()),
                ("k", pa.struct([("a", pa.int32()), ("c", pa.string())])),
            ]
        ),
    )  # fmt: skip


def _with_structs(given):
    return [
        (*row[:-1], None if row[-1] is None else {"a": row[-1][0], "c": row[-1][1]})
        for row in given
    ]


@pytest.fixture(scope="module")
def scope(frame):
    schema = parse_schema(frame.schema.json())
    with Engine("500MB") as engine:
        kinds = {item.name: engine_type(item.type) for item in schema.fields}
        yield engine, Scope(engine, [Relation("target", kinds)])


def _here(scope, rows: pa.Table, expression: str, number: int) -> Any:
    engine, known = scope
    translator = dialect.Translator(known, "2024-01-01 00:00:00+00:00")
    sql = translator.sql(dialect.parse(engine, expression))
    one = rows.slice(number, 1)
    with engine.reading(one.schema, one.to_batches()) as name:
        found = engine.table(f'SELECT {sql} AS value FROM {name} AS "target"')
    return found.column("value").to_pylist()[0]


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if hasattr(value, "asDict"):
        return value.asDict()
    return bytes(value) if isinstance(value, bytearray) else value


def _wanted(frame, number: int, expressions: tuple[str, ...]) -> list[Any]:
    """What Spark has for one row; an exception if it fails."""
    from pyspark.sql import functions as sql

    one = frame.sparkSession.createDataFrame([ROWS[number]], DDL)
    chosen = [sql.expr(expression).alias(f"c{n}") for n, expression in enumerate(expressions)]
    try:
        return [_comparable(value) for value in one.select(*chosen).collect()[0]]
    except Exception as error:  # noqa: BLE001 - any of Spark's
        return [error]


def _differences(frame, rows, scope, number: int, expressions: tuple[str, ...]) -> dict[str, Any]:
    differ = {}
    wanted = _wanted(frame, number, expressions)
    for expression, value in zip(expressions, wanted, strict=True):
        try:
            found = _comparable(_here(scope, rows, expression, number))
        except ValidationError as error:
            found = error
        if isinstance(value, Exception) and isinstance(found, Exception):
            continue
        if isinstance(value, Exception) or isinstance(found, Exception) or value != found:
            differ[expression] = str(value)[:80], str(found)[:80]
    return differ


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_expressions_have_the_values_of_spark(frame, rows, scope, number):
    assert not _differences(frame, rows, scope, number, SAME)


@pytest.mark.parametrize("expression", MAY_FAIL)
def test_what_fails_in_spark_fails(frame, rows, scope, expression):
    for number in (2, 3):
        assert not _differences(frame, rows, scope, number, (expression,))


@pytest.mark.parametrize("expression", FAIL)
def test_what_fails_for_values_fails(frame, rows, scope, expression):
    assert not _differences(frame, rows, scope, 0, (expression,))


@pytest.mark.parametrize("expression", REFUSED)
def test_what_would_differ_is_refused_by_name(scope, rows, expression):
    with pytest.raises(UnsupportedFeatureError):
        _here(scope, rows, expression, 0)


@pytest.mark.parametrize("expression", MALFORMED)
def test_malformed_expressions_say_so(scope, rows, expression):
    with pytest.raises(ValidationError):
        _here(scope, rows, expression, 0)
