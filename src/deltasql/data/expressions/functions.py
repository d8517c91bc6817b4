"""The functions of expressions, each rendered so that DuckDB answers as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from deltasql.data.expressions import coercion, types
from deltasql.data.expressions.engine import quoted
from deltasql.errors import UnsupportedFeatureError, ValidationError


@dataclass(frozen=True, slots=True)
class Arguments:
    """A function's arguments: rendered, with their types, and the names of a struct's fields."""

    sql: Sequence[str]
    kinds: Sequence[str]
    names: Sequence[str] = field(default_factory=list)

    def text(self, position: int) -> str:
        """An argument as a text."""
        return types.cast(self.sql[position], self.kinds[position], "VARCHAR")

    def day(self, position: int) -> str:
        """An argument as a date."""
        return types.cast(self.sql[position], self.kinds[position], "DATE")

    def whole(self, position: int) -> str:
        """An argument as a whole number, such as a position or a number of days."""
        kind = self.kinds[position]
        if kind == "VARCHAR":
            return types.cast(self.sql[position], kind, "INTEGER")
        if kind not in types.DAYS:
            raise unsupported(f"a {kind.lower()} as a number of days or a place", "cast it to int")
        return self.sql[position]

    def must_have_no_text(self, name: str) -> None:
        """Raise if DuckDB would turn texts into numbers in its own way."""
        if "VARCHAR" in self.kinds:
            raise unsupported(f"{name} of strings", "cast them to numbers")


Render: TypeAlias = Callable[[Arguments], str]


def unsupported(what: str, remedy: str = "") -> UnsupportedFeatureError:
    """The error for something that expressions don't support."""
    return UnsupportedFeatureError(
        f"expressions can't use {what} here",
        cause="without Spark, only expressions with the same result as in Spark are evaluated",
        remedy=remedy or "rewrite it (docs/python.md lists the functions), or use Spark",
    )


def divided(name: str, given: Arguments) -> str:
    """A quotient or a remainder; division by zero fails."""
    _must_have(given, name, 2)
    given.must_have_no_text(name)
    one, other = types.widened(given.sql[0], given.sql[1], (given.kinds[0], given.kinds[1]))
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
    """Texts, concatenated; null if one of them is."""
    if set(given.kinds) <= {"BLOB"}:
        raise unsupported("concat of binary values", "cast one of them to string")
    return "(" + " || ".join(given.text(n) for n in range(len(given.sql))) + ")"


def like(operator: str, given: Arguments) -> str:
    """LIKE, where a backslash escapes: in Spark nothing but %, _ and the backslash itself."""
    said, pattern = given.text(0), given.text(1)
    is_odd = f"NOT regexp_full_match({pattern}, '(?s)(?:[^\\\\]|\\\\[%_\\\\])*')"
    problem = "error('in a LIKE pattern, a backslash must come before %, _ or a backslash')"
    return f"CASE WHEN {is_odd} THEN {problem} ELSE {said} {operator} {pattern} ESCAPE '\\' END"


def _must_have(given: Arguments, name: str, least: int, most: int | None = None) -> None:
    if not least <= len(given.sql) <= (most or least):
        raise ValidationError(
            f"{name} is called with {len(given.sql)} values",
            cause=f"it takes {least if most is None else f'{least} to {most}'}",
            remedy="correct the call",
        )


def _texts(name: str, count: int = 1, *more: str) -> Render:
    """A function of texts only."""

    def render(given: Arguments) -> str:
        _must_have(given, name, count)
        return f"{name}({', '.join([*map(given.text, range(count)), *more])})"

    return render


def _cased(name: str) -> Render:
    """`upper` and `lower`: DuckDB replaces one character by one, Java sometimes by several."""

    def render(given: Arguments) -> str:
        _must_have(given, name, 1)
        said = given.text(0)
        odd = f"regexp_matches({said}, '[{_characters_of_several(name)}]')"
        problem = f"error('{name} would turn one character into several')"
        return f"CASE WHEN {odd} THEN {problem} ELSE {name}({said}) END"

    return render


@cache
def _characters_of_several(name: str) -> str:
    turn = str.upper if name == "upper" else str.lower
    # All of them are within 16 bits. A sigma at the end of a word has its own lower case.
    found = [chr(code) for code in range(0x80, 0xD800) if len(turn(chr(code))) > 1]
    found += [chr(code) for code in range(0xE000, 0x10000) if len(turn(chr(code))) > 1]
    return "".join(found) + ("\u03a3" if name == "lower" else "")


def _plain(name: str, least: int, most: int | None = None) -> Render:
    """A function that is the same in both engines."""

    def render(given: Arguments) -> str:
        _must_have(given, name, least, most)
        return f"{name}({', '.join(given.sql)})"

    return render


def _of_one_type(name: str, called: str, least: int, most: int, *, texts: bool = True) -> Render:
    """A function whose values are first cast to one type; texts may not mix with other types."""

    def render(given: Arguments) -> str:
        _must_have(given, called, least, most)
        if not texts and "VARCHAR" in given.kinds and {*given.kinds} - {"VARCHAR", types.UNTYPED}:
            raise unsupported(f"{called} of strings and other values", "cast the strings")
        return f"{name}({', '.join(coercion.alike(given.sql, given.kinds, called))})"

    return render


def _of_numbers(name: str) -> Render:
    def render(given: Arguments) -> str:
        _must_have(given, name, 1)
        given.must_have_no_text(name)
        return f"{name}({given.sql[0]})"

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
        given.must_have_no_text(name)
        if given.kinds[0] in types.FLOATS:
            # Spark makes a bigint of it: 0 for NaN, and the highest one for anything beyond.
            raise unsupported(f"{name} of a {given.kinds[0].lower()}", "cast it to a bigint")
        return f"{name}({given.sql[0]})"

    return render


def _substring(given: Arguments) -> str:
    _must_have(given, "substring", 2, 3)
    if given.kinds[0] == "BLOB":
        raise unsupported("substring of a binary value", "cast it to string")
    # The engines differ on positions before the first character.
    place = given.whole(1)
    start = f"CASE WHEN {place} < 1 THEN error('substring begins at 1') ELSE {place} END"
    if len(given.sql) == 2:
        return f"substring({given.text(0)}, {start})"
    return f"substring({given.text(0)}, {start}, greatest({given.whole(2)}, 0))"


def _length(given: Arguments) -> str:
    _must_have(given, "length", 1)
    if given.kinds[0] == "BLOB":
        return f"CAST(octet_length({given.sql[0]}) AS INTEGER)"
    return f"length({given.text(0)})"


def _without_fraction(given: Arguments) -> str:
    """`trunc`, which DuckDB's parser puts around an INTERVAL's number; Spark allows no fraction."""
    _must_have(given, "trunc", 1)
    number = given.sql[0]
    problem = "error('an interval has a fraction')"
    return f"CASE WHEN {number} <> trunc({number}) THEN {problem} ELSE trunc({number}) END"


def _moved(sign: str) -> Render:
    def render(given: Arguments) -> str:
        _must_have(given, "date_add", 2)
        return f"({given.day(0)} {sign} {given.whole(1)})"

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
    given.must_have_no_text("isnan")
    return f"coalesce(isnan({given.sql[0]}), false)"


def _as_day(given: Arguments) -> str:
    _must_have(given, "to_date", 1)
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
    _must_have(given, "date_trunc", 2)
    unit = _unit("date_trunc", given.sql[0], _TIMES)
    moment, kind = given.sql[1], given.kinds[1]
    if kind not in (types.INSTANT, "TIMESTAMP"):
        moment = types.cast(moment, kind, types.INSTANT)
    return f"date_trunc('{unit}', {moment})"


def _trunc(given: Arguments) -> str:
    # With one value, DuckDB's parser has made it from an interval.
    _must_have(given, "trunc", 1, 2)
    if len(given.sql) == 1:
        return _without_fraction(given)
    return f"CAST(date_trunc('{_unit('trunc', given.sql[1], _DAYS)}', {given.day(0)}) AS DATE)"


FUNCTIONS: dict[str, Render] = {
    "abs": _of_numbers("abs"),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "char_length": _length,
    "contains": _texts("contains", 2),
    "date_add": _moved("+"),
    "date_sub": _moved("-"),
    "date_trunc": _date_trunc,
    "datediff": _days_between,
    "day": _part("day"),
    "dayofmonth": _part("day"),
    "endswith": _texts("suffix", 2),
    "floor": _whole("floor"),
    "greatest": _of_one_type("greatest", "greatest", 2, 99, texts=False),
    "hour": _part("hour"),
    "ifnull": _of_one_type("coalesce", "ifnull", 2, 2),
    "isnan": _is_nan,
    "isnull": _is_null,
    "least": _of_one_type("least", "least", 2, 99, texts=False),
    "length": _length,
    "lower": _cased("lower"),
    "ltrim": _texts("ltrim", 1, "' '"),
    "minute": _part("minute"),
    "month": _part("month"),
    "named_struct": _named_struct,
    "nvl": _of_one_type("coalesce", "nvl", 2, 2),
    "array": _of_one_type("list_value", "array", 0, 99),
    "list_value": _of_one_type("list_value", "array", 0, 99),
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
