"""The functions of expressions, each written so that DuckDB answers as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from deltasql.data.expressions import types
from deltasql.data.expressions.engine import quoted
from deltasql.errors import UnsupportedFeatureError, ValidationError


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function is given: rendered, with the types, and the names of a struct's fields."""

    sql: Sequence[str]
    kinds: Sequence[str]
    names: Sequence[str] = field(default_factory=list)

    def text(self, position: int) -> str:
        """An argument as a text."""
        return types.cast(self.sql[position], self.kinds[position], "VARCHAR")

    def day(self, position: int) -> str:
        """An argument as a date."""
        return types.cast(self.sql[position], self.kinds[position], "DATE")


Render: TypeAlias = Callable[[Arguments], str]


def unsupported(what: str, remedy: str = "") -> UnsupportedFeatureError:
    """The error for what is in no expression here."""
    return UnsupportedFeatureError(
        f"expressions can't have {what} here",
        cause="only what gives the same answer as Spark is evaluated without it",
        remedy=remedy or "write it otherwise (docs/python.md lists the functions), or use Spark",
    )


def divided(name: str, given: Arguments) -> str:
    """A quotient or a remainder: a division by zero fails."""
    _must_have(given, name, 2)
    one, other = given.sql
    if name == "/":
        if any(kind.startswith("DECIMAL") for kind in given.kinds) and not (
            types.FLOATS & set(given.kinds)
        ):
            raise unsupported("a division of decimals", "cast one of them to double")
        one, other = f"CAST({one} AS DOUBLE)", f"CAST({other} AS DOUBLE)"
    sign = "/" if name == "/" else "%"
    by_zero = f"{other} = 0 AND {one} IS NOT NULL"
    return f"CASE WHEN {by_zero} THEN error('division by zero') ELSE {one} {sign} {other} END"


def joined(given: Arguments) -> str:
    """Texts one after the other: null if one of them is."""
    return "(" + " || ".join(given.text(n) for n in range(len(given.sql))) + ")"


def _must_have(given: Arguments, name: str, least: int, most: int | None = None) -> None:
    if not least <= len(given.sql) <= (most or least):
        raise ValidationError(
            f"{name} is called with {len(given.sql)} values",
            cause=f"it takes {least if most is None else f'{least} to {most}'}",
            remedy="correct the call",
        )


def _texts(name: str, count: int = 1, *more: str) -> Render:
    """A function of texts alone."""

    def render(given: Arguments) -> str:
        _must_have(given, name, count)
        return f"{name}({', '.join([*map(given.text, range(count)), *more])})"

    return render


def _cased(name: str) -> Render:
    """`upper` and `lower`: DuckDB puts one character in place of one, Java sometimes several."""

    def render(given: Arguments) -> str:
        _must_have(given, name, 1)
        said = given.text(0)
        odd = f"regexp_matches({said}, '[{_characters_of_several(name)}]')"
        problem = f"error('{name} would make several characters of one')"
        return f"CASE WHEN {odd} THEN {problem} ELSE {name}({said}) END"

    return render


@cache
def _characters_of_several(name: str) -> str:
    turn = str.upper if name == "upper" else str.lower
    # All of them are below the surrogates; a sigma at a word's end is another one.
    found = [chr(code) for code in range(0x80, 0xD800) if len(turn(chr(code))) > 1]
    found += [chr(code) for code in range(0xE000, 0x10000) if len(turn(chr(code))) > 1]
    return "".join(found) + ("\u03a3" if name == "lower" else "")


def _plain(name: str, least: int, most: int | None = None) -> Render:
    """A function that is the same in both engines."""

    def render(given: Arguments) -> str:
        _must_have(given, name, least, most)
        return f"{name}({', '.join(given.sql)})"

    return render


def _part(name: str) -> Render:
    def render(given: Arguments) -> str:
        _must_have(given, name, 1)
        moment = given.sql[0]
        if given.kinds[0] == "VARCHAR":
            moment = types.cast(moment, "VARCHAR", types.INSTANT)
        return f"CAST({name}({moment}) AS INTEGER)"

    return render


def _whole(name: str) -> Render:
    def render(given: Arguments) -> str:
        _must_have(given, name, 1)
        if given.kinds[0] in types.FLOATS:
            # Spark makes a bigint of it: 0 of NaN, and the highest of all that is beyond it.
            raise unsupported(f"{name} of a {given.kinds[0].lower()}", "cast it to a bigint")
        return f"{name}({given.sql[0]})"

    return render


def _substring(given: Arguments) -> str:
    _must_have(given, "substring", 2, 3)
    # The engines differ on places before the first character.
    start = (
        f"CASE WHEN {given.sql[1]} < 1 THEN error('substring begins at 1') ELSE {given.sql[1]} END"
    )
    if len(given.sql) == 2:
        return f"substring({given.text(0)}, {start})"
    return f"substring({given.text(0)}, {start}, greatest({given.sql[2]}, 0))"


def _moved(sign: str) -> Render:
    def render(given: Arguments) -> str:
        _must_have(given, "date_add", 2)
        return f"({given.day(0)} {sign} {given.sql[1]})"

    return render


def _days_between(given: Arguments) -> str:
    _must_have(given, "datediff", 2)
    return f"CAST({given.day(0)} - {given.day(1)} AS INTEGER)"


def _struct(given: Arguments) -> str:
    parts = [f"{quoted(n)} := {sql}" for n, sql in zip(given.names, given.sql, strict=True)]
    return f"struct_pack({', '.join(parts)})"


def _named_struct(given: Arguments) -> str:
    names, values = given.sql[::2], given.sql[1::2]
    if len(names) != len(values) or not all(name.startswith("'") for name in names):
        raise ValidationError("named_struct takes names and values in turn")
    plain = [quoted(name[1:-1].replace("''", "'")) for name in names]
    return f"struct_pack({', '.join(f'{n} := {v}' for n, v in zip(plain, values, strict=True))})"


def _is_null(given: Arguments) -> str:
    _must_have(given, "isnull", 1)
    return f"({given.sql[0]} IS NULL)"


def _is_nan(given: Arguments) -> str:
    _must_have(given, "isnan", 1)
    return f"coalesce(isnan({given.sql[0]}), false)"


def _as_day(given: Arguments) -> str:
    _must_have(given, "to_date", 1)
    return given.day(0)


# Spark's words for them, and DuckDB's; weeks begin on Monday in both.
_DAYS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month",
    "mon": "month", "mm": "month", "week": "week",
}  # fmt: skip
_TIMES = _DAYS | {
    "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def _unit(name: str, said: str, known: dict[str, str]) -> str:
    # Spark gives null for a unit that it does not know: nobody means that.
    if (unit := known.get(said.strip("'").lower())) is None or not said.startswith("'"):
        raise unsupported(f"{name} by {said}", f"give one of {', '.join(sorted(known))}")
    return unit


def _date_trunc(given: Arguments) -> str:
    _must_have(given, "date_trunc", 2)
    unit = _unit("date_trunc", given.sql[0], _TIMES)
    moment, kind = given.sql[1], given.kinds[1]
    if kind not in (types.INSTANT, "TIMESTAMP"):
        moment = types.cast(moment, kind, types.INSTANT)
    return f"date_trunc('{unit}', {moment})"


def _trunc(given: Arguments) -> str:
    # With one value it is DuckDB's own, from the parts of an interval.
    _must_have(given, "trunc", 1, 2)
    if len(given.sql) == 1:
        return f"trunc({given.sql[0]})"
    return f"CAST(date_trunc('{_unit('trunc', given.sql[1], _DAYS)}', {given.day(0)}) AS DATE)"


FUNCTIONS: dict[str, Render] = {
    "abs": _plain("abs", 1),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "char_length": _texts("length"),
    "contains": _texts("contains", 2),
    "date_add": _moved("+"),
    "date_sub": _moved("-"),
    "date_trunc": _date_trunc,
    "datediff": _days_between,
    "day": _part("day"),
    "dayofmonth": _part("day"),
    "endswith": _texts("suffix", 2),
    "floor": _whole("floor"),
    "greatest": _plain("greatest", 2, 99),
    "hour": _part("hour"),
    "ifnull": _plain("coalesce", 2),
    "isnan": _is_nan,
    "isnull": _is_null,
    "least": _plain("least", 2, 99),
    "length": _texts("length"),
    "lower": _cased("lower"),
    "ltrim": _texts("ltrim", 1, "' '"),
    "minute": _part("minute"),
    "month": _part("month"),
    "named_struct": _named_struct,
    "nullif": _plain("nullif", 2),
    "nvl": _plain("coalesce", 2),
    "array": _plain("list_value", 0, 99),
    "list_value": _plain("list_value", 0, 99),
    "replace": _texts("replace", 3),
    "rtrim": _texts("rtrim", 1, "' '"),
    "startswith": _texts("starts_with", 2),
    "struct_pack": _struct,
    "substr": _substring,
    "substring": _substring,
    "to_date": _as_day,
    "to_days": _plain("to_days", 1),
    "to_hours": _plain("to_hours", 1),
    "to_minutes": _plain("to_minutes", 1),
    "to_months": _plain("to_months", 1),
    "to_seconds": _plain("to_seconds", 1),
    "to_years": _plain("to_years", 1),
    "trim": _texts("trim", 1, "' '"),
    "trunc": _trunc,
    "unhex": _plain("unhex", 1),
    "upper": _cased("upper"),
    "year": _part("year"),
}
