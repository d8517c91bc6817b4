"""The functions of expressions, each rendered so that DuckDB answers as Spark does."""

from __future__ import annotations

import re
from functools import cache

from deltasql.data.expressions import coercion, types
from deltasql.data.expressions.arguments import Arguments, Render, must_have, unsupported
from deltasql.data.expressions.days import DAY_FUNCTIONS
from deltasql.data.expressions.engine import quoted
from deltasql.data.expressions.nested import NESTED_FUNCTIONS
from deltasql.errors import ValidationError

# Of a text that a function makes longer; some two thousand are in memory at a time.
MOST_CHARACTERS = 100_000
_WHOLE_LITERAL = re.compile(r"CAST\((\d{1,3}) AS INTEGER\)")


def divided(name: str, given: Arguments) -> str:
    """A quotient or a remainder; division by zero fails."""
    must_have(given, name, 2)
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


def _texts(name: str, count: int = 1, *more: str) -> Render:
    """A function of texts only."""

    def render(given: Arguments) -> str:
        must_have(given, name, count)
        return f"{name}({', '.join([*map(given.text, range(count)), *more])})"

    return render


def _cased(name: str) -> Render:
    """`upper` and `lower`: DuckDB replaces one character by one, Java sometimes by several."""

    def render(given: Arguments) -> str:
        must_have(given, name, 1)
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
        must_have(given, name, least, most)
        return f"{name}({', '.join(given.sql)})"

    return render


def _of_one_type(name: str, called: str, least: int, most: int, *, texts: bool = True) -> Render:
    """A function whose values are first cast to one type; texts may not mix with other types."""

    def render(given: Arguments) -> str:
        must_have(given, called, least, most)
        if not texts and "VARCHAR" in given.kinds and {*given.kinds} - {"VARCHAR", types.UNTYPED}:
            raise unsupported(f"{called} of strings and other values", "cast the strings")
        return f"{name}({', '.join(coercion.alike(given.sql, given.kinds, called))})"

    return render


def _of_numbers(name: str) -> Render:
    def render(given: Arguments) -> str:
        must_have(given, name, 1)
        given.must_have_no_text(name)
        return f"{name}({given.sql[0]})"

    return render


def _whole(name: str) -> Render:
    def render(given: Arguments) -> str:
        must_have(given, name, 1)
        given.must_have_no_text(name)
        if given.kinds[0] in types.FLOATS:
            # Spark makes a bigint of it: 0 for NaN, and the highest one for anything beyond.
            raise unsupported(f"{name} of a {given.kinds[0].lower()}", "cast it to a bigint")
        if given.kinds[0] in types.INTEGERS:
            # DuckDB would take it through a double, which has fewer digits than a bigint.
            return given.sql[0]
        return f"{name}({given.sql[0]})"

    return render


def _count(given: Arguments, position: int) -> str:
    """An argument as a number of characters: none if it is negative, and null if it is null."""
    number = given.whole(position)
    return f"CASE WHEN {number} < 0 THEN 0 ELSE {number} END"


def _substring(given: Arguments) -> str:
    must_have(given, "substring", 2, 3)
    if given.kinds[0] == "BLOB":
        raise unsupported("substring of a binary value", "cast it to string")
    # The engines differ on positions before the first character.
    place = given.whole(1)
    start = f"CASE WHEN {place} < 1 THEN error('substring begins at 1') ELSE {place} END"
    if len(given.sql) == 2:
        return f"substring({given.text(0)}, {start})"
    return f"substring({given.text(0)}, {start}, {_count(given, 2)})"


def _length(given: Arguments) -> str:
    must_have(given, "length", 1)
    if given.kinds[0] == "BLOB":
        return f"CAST(octet_length({given.sql[0]}) AS INTEGER)"
    return f"length({given.text(0)})"


def _rounded(given: Arguments) -> str:
    must_have(given, "round", 1, 2)
    given.must_have_no_text("round")
    if given.kinds[0] in types.FLOATS:
        # Spark rounds the digits that it would print, DuckDB the number itself.
        raise unsupported(f"round of a {given.kinds[0].lower()}", "cast it to a decimal")
    places = _WHOLE_LITERAL.fullmatch(given.sql[1]) if len(given.sql) == 2 else None
    if len(given.sql) == 2 and places is None:
        raise unsupported("round to other than a whole number of places", "write 0, 1, 2, …")
    if given.kinds[0] in types.INTEGERS:
        return given.sql[0]
    return f"round({given.sql[0]}, {places[1] if places else 0})"


def _root(given: Arguments) -> str:
    must_have(given, "sqrt", 1)
    given.must_have_no_text("sqrt")
    number = f"CAST({given.sql[0]} AS DOUBLE)"
    return f"CASE WHEN {number} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({number}) END"


def _end(name: str) -> Render:
    """`left` and `right`: DuckDB counts negative lengths from the other end."""

    def render(given: Arguments) -> str:
        must_have(given, name, 2)
        return f"{name}({given.text(0)}, {_count(given, 1)})"

    return render


def _padded(name: str) -> Render:
    def render(given: Arguments) -> str:
        must_have(given, name, 2, 3)
        padding = given.text(2) if len(given.sql) == 3 else "' '"
        number = given.whole(1)
        length = f"WHEN {number} < 0 THEN 0 {_too_long(name, number)} ELSE {number}"
        return f"{name}({given.text(0)}, CASE {length} END, {padding})"

    return render


def _repeated(given: Arguments) -> str:
    must_have(given, "repeat", 2)
    said, times = given.text(0), f"CAST({given.whole(1)} AS BIGINT)"
    size = f"CAST(length({said}) AS HUGEINT) * {times}"
    return f"repeat({said}, CASE {_too_long('repeat', size)} ELSE {times} END)"


def _replaced(given: Arguments) -> str:
    must_have(given, "replace", 3)
    said, old, new = map(given.text, range(3))
    size = f"CAST(length({said}) AS HUGEINT) // length({old}) * length({new})"
    grown = f"CASE WHEN length({new}) > length({old}) AND length({old}) > 0 THEN {size} ELSE 0 END"
    return f"replace({said}, {old}, CASE {_too_long('replace', grown)} ELSE {new} END)"


def _too_long(name: str, size: str) -> str:
    """A branch of the CASE that an argument is: the engine's limit of memory is not one of texts,
    and expressions come with tables that anybody may have made.
    """
    problem = f"error('{name} would make a text of more than {MOST_CHARACTERS} characters')"
    return f"WHEN {size} > {MOST_CHARACTERS} THEN {problem}"


def _place(name: str, within: int, said: int) -> Render:
    """Where a text begins in another, counted from 1; 0 if it is not there."""

    def render(given: Arguments) -> str:
        must_have(given, name, 2)
        return f"CAST(instr({given.text(within)}, {given.text(said)}) AS INTEGER)"

    return render


def _joined_by(given: Arguments) -> str:
    must_have(given, "concat_ws", 1, 99)
    texts = ", ".join(given.text(n) for n in range(len(given.sql)))
    return f"concat_ws({texts})" if len(given.sql) > 1 else f"left({texts}, 0)"


def _digest(given: Arguments) -> str:
    must_have(given, "md5", 1)
    return f"md5({_bytes_of(given)})"


def _long_digest(given: Arguments) -> str:
    must_have(given, "sha2", 2)
    bits = _WHOLE_LITERAL.fullmatch(given.sql[1])
    if bits is None or bits[1] not in ("0", "256"):
        raise unsupported("sha2 of other than 256 bits", "write sha2(text, 256)")
    return f"sha256({_bytes_of(given)})"


def _bytes_of(given: Arguments) -> str:
    return given.sql[0] if given.kinds[0] == "BLOB" else given.text(0)


def _is_not_null(given: Arguments) -> str:
    must_have(given, "isnotnull", 1)
    return f"({given.sql[0]} IS NOT NULL)"


def _by_null(given: Arguments) -> str:
    must_have(given, "nvl2", 3)
    some, none = coercion.alike(given.sql[1:], given.kinds[1:], "nvl2")
    return f"CASE WHEN {given.sql[0]} IS NOT NULL THEN {some} ELSE {none} END"


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
    must_have(given, "isnull", 1)
    return f"({given.sql[0]} IS NULL)"


def _is_nan(given: Arguments) -> str:
    must_have(given, "isnan", 1)
    given.must_have_no_text("isnan")
    return f"coalesce(isnan({given.sql[0]}), false)"


FUNCTIONS: dict[str, Render] = {
    **DAY_FUNCTIONS,
    **NESTED_FUNCTIONS,
    "abs": _of_numbers("abs"),
    "array": _of_one_type("list_value", "array", 0, 99),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "char_length": _length,
    "concat_ws": _joined_by,
    "contains": _texts("contains", 2),
    "endswith": _texts("suffix", 2),
    "floor": _whole("floor"),
    "greatest": _of_one_type("greatest", "greatest", 2, 99, texts=False),
    "ifnull": _of_one_type("coalesce", "ifnull", 2, 2),
    "instr": _place("instr", 0, 1),
    "isnan": _is_nan,
    "isnotnull": _is_not_null,
    "isnull": _is_null,
    "least": _of_one_type("least", "least", 2, 99, texts=False),
    "left": _end("left"),
    "length": _length,
    "list_value": _of_one_type("list_value", "array", 0, 99),
    "locate": _place("locate", 1, 0),
    "lower": _cased("lower"),
    "lpad": _padded("lpad"),
    "ltrim": _texts("ltrim", 1, "' '"),
    "md5": _digest,
    "named_struct": _named_struct,
    "nvl": _of_one_type("coalesce", "nvl", 2, 2),
    "nvl2": _by_null,
    "position": _place("position", 0, 1),
    "repeat": _repeated,
    "replace": _replaced,
    "right": _end("right"),
    "round": _rounded,
    "rpad": _padded("rpad"),
    "rtrim": _texts("rtrim", 1, "' '"),
    "sha2": _long_digest,
    "sqrt": _root,
    "startswith": _texts("starts_with", 2),
    "struct_pack": _struct,
    "substr": _substring,
    "substring": _substring,
    "to_days": _plain("to_days", 1),
    "to_hours": _plain("to_hours", 1),
    "to_minutes": _plain("to_minutes", 1),
    "to_months": _plain("to_months", 1),
    "to_seconds": _plain("to_seconds", 1),
    "to_years": _plain("to_years", 1),
    "trim": _texts("trim", 1, "' '"),
    "unhex": _plain("unhex", 1),
    "upper": _cased("upper"),
}
