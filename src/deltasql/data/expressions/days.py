"""The functions of days and times, with Spark's meaning."""

from __future__ import annotations

import re

from deltasql.data.expressions import types
from deltasql.data.expressions.arguments import Arguments, Render, must_have, unsupported


def _part(name: str) -> Render:
    def render(given: Arguments) -> str:
        must_have(given, name, 1)
        return f"CAST({name}({_moment(given)}) AS INTEGER)"

    return render


def _moment(given: Arguments, position: int = 0) -> str:
    """An argument as a day or a time; a text becomes a time."""
    sql, kind = given.sql[position], given.kinds[position]
    return types.cast(sql, kind, types.INSTANT) if kind == "VARCHAR" else sql


def _day_of_week(given: Arguments) -> str:
    must_have(given, "dayofweek", 1)
    # Sunday is 1 in Spark, and 0 in DuckDB.
    return f"CAST(dayofweek({_moment(given)}) + 1 AS INTEGER)"


def _week_day(given: Arguments) -> str:
    must_have(given, "weekday", 1)
    # Monday is 0 in Spark, and 1 in DuckDB.
    return f"CAST(isodow({_moment(given)}) - 1 AS INTEGER)"


def _extracted(given: Arguments) -> str:
    """`extract(year FROM day)`, and `date_part('year', day)`."""
    must_have(given, "extract", 2)
    unit = given.sql[0].strip("'").lower()
    name = _PARTS.get(unit)
    if name is None or not given.sql[0].startswith("'"):
        # Spark's seconds have a fraction.
        raise unsupported(f"extract of {given.sql[0]}", f"give one of {', '.join(sorted(_PARTS))}")
    return DAY_FUNCTIONS[name](Arguments(given.sql[1:], given.kinds[1:]))


def _last_day(given: Arguments) -> str:
    must_have(given, "last_day", 1)
    return f"last_day({given.day(0)})"


def _months_later(given: Arguments) -> str:
    must_have(given, "add_months", 2)
    return f"CAST({given.day(0)} + to_months({given.whole(1)}) AS DATE)"


def _made_date(given: Arguments) -> str:
    must_have(given, "make_date", 3)
    return f"make_date({', '.join(given.whole(n) for n in range(3))})"


def _as_moment(given: Arguments) -> str:
    must_have(given, "to_timestamp", 1)
    return types.cast(given.sql[0], given.kinds[0], types.INSTANT)


def _written(given: Arguments) -> str:
    """`date_format` with the letters that mean the same in both engines."""
    must_have(given, "date_format", 2)
    pattern, moment = given.sql[1], _moment(given)
    if not _PATTERN.fullmatch(pattern):
        raise unsupported(
            f"the pattern {pattern:.60} of date_format",
            "of yyyy, MM, dd, HH, mm, ss and separators it may consist",
        )
    formed = _LETTERS.sub(lambda found: _FORMATS[found[0]], pattern)
    if given.kinds[0] == types.INSTANT:
        moment = f"CAST({moment} AS TIMESTAMP)"
    odd = f"year({moment}) NOT BETWEEN 1000 AND 9999"
    problem = "error('date_format can write the years 1000 to 9999')"
    return f"CASE WHEN {odd} THEN {problem} ELSE strftime({moment}, {formed}) END"


def _without_fraction(given: Arguments) -> str:
    """`trunc`, which DuckDB's parser puts around an INTERVAL's number; Spark allows no fraction."""
    must_have(given, "trunc", 1)
    number = given.sql[0]
    problem = "error('an interval has a fraction')"
    return f"CASE WHEN {number} <> trunc({number}) THEN {problem} ELSE trunc({number}) END"


def _moved(sign: str) -> Render:
    def render(given: Arguments) -> str:
        must_have(given, "date_add", 2)
        return f"({given.day(0)} {sign} {given.whole(1)})"

    return render


def _days_between(given: Arguments) -> str:
    must_have(given, "datediff", 2)
    return f"CAST({given.day(0)} - {given.day(1)} AS INTEGER)"


def _as_day(given: Arguments) -> str:
    must_have(given, "to_date", 1)
    return given.day(0)


# Spark's names for the units, and DuckDB's; weeks begin on Monday in both.
_DAYS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month",
    "mon": "month", "mm": "month", "week": "week",
}  # fmt: skip
_TIMES = _DAYS | {
    "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def _unit(name: str, said: str, known: dict[str, str]) -> str:
    # Spark returns null for an unknown unit, which nobody wants.
    if (unit := known.get(said.strip("'").lower())) is None or not said.startswith("'"):
        raise unsupported(f"{name} by {said}", f"give one of {', '.join(sorted(known))}")
    return unit


def _date_trunc(given: Arguments) -> str:
    must_have(given, "date_trunc", 2)
    unit = _unit("date_trunc", given.sql[0], _TIMES)
    moment, kind = given.sql[1], given.kinds[1]
    if kind not in (types.INSTANT, "TIMESTAMP"):
        moment = types.cast(moment, kind, types.INSTANT)
    return f"date_trunc('{unit}', {moment})"


def _trunc(given: Arguments) -> str:
    # With one value, DuckDB's parser has made it from an interval.
    must_have(given, "trunc", 1, 2)
    if len(given.sql) == 1:
        return _without_fraction(given)
    return f"CAST(date_trunc('{_unit('trunc', given.sql[1], _DAYS)}', {given.day(0)}) AS DATE)"


_PARTS = {
    "year": "year", "years": "year", "quarter": "quarter", "month": "month", "months": "month",
    "week": "weekofyear", "weeks": "weekofyear", "day": "day", "days": "day", "doy": "dayofyear",
    "dow": "dayofweek", "dayofweek": "dayofweek", "hour": "hour", "hours": "hour",
    "minute": "minute", "minutes": "minute",
}  # fmt: skip
_FORMATS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_LETTERS = re.compile("|".join(_FORMATS))
_PATTERN = re.compile(rf"'(?:{_LETTERS.pattern}|[-_/:., ])+'")

DAY_FUNCTIONS: dict[str, Render] = {
    "add_months": _months_later,
    "date_add": _moved("+"),
    "date_format": _written,
    "date_part": _extracted,
    "date_sub": _moved("-"),
    "date_trunc": _date_trunc,
    "datediff": _days_between,
    "day": _part("day"),
    "dayofmonth": _part("day"),
    "dayofweek": _day_of_week,
    "dayofyear": _part("dayofyear"),
    "hour": _part("hour"),
    "last_day": _last_day,
    "make_date": _made_date,
    "minute": _part("minute"),
    "month": _part("month"),
    "quarter": _part("quarter"),
    "second": _part("second"),
    "to_date": _as_day,
    "to_timestamp": _as_moment,
    "trunc": _trunc,
    "weekday": _week_day,
    "weekofyear": _part("weekofyear"),
    "year": _part("year"),
}
