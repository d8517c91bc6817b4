"""Parses the text of a predicate: recursive descent over tokens with their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, TypeAlias

from deltasql.errors import LogFormatError, ValidationError
from deltasql.log.predicates.ast import (
    FLIPPED,
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
    WithExponent,
    like_parts,
    satisfies,
)
from deltasql.log.predicates.text_literals import LITERAL, RAW, value_of
from deltasql.spec.partition_values import parse_value
from deltasql.spec.schema import Primitive

# Enough for any sane text, and far from Python's recursion limit in all recursion over trees.
MAX_DEPTH = 64
# A number with more digits, or a larger exponent, is beyond every Delta type.
_MAX_DIGITS, _MAX_EXPONENT = 400, 400

_TOKEN = re.compile(
    rf"""(?P<space>\s+)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<bytes>[xX]'(?:[^']|'')*')
      | (?P<string>{LITERAL}|{RAW})
      | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol><=>|<=|>=|<>|!=|==|[=<>(),.+-])""",
    re.VERBOSE,
)
_KEYWORDS = {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "FALSE"}
_COMPARISONS = {"==": "=", "!=": "<>"} | {name: name for name in FLIPPED}
_CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}
_TYPED = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}

_Operand: TypeAlias = Column | Literal
_Node: TypeAlias = Predicate | Column | Literal


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse(text: str) -> Predicate:
    """The predicate in a WHERE clause's text; `ValidationError` shows where it fails."""
    parser = _Parser(text)
    predicate = parser.predicate(parser.any_of())
    if parser.token.kind != "end":
        parser.fail("AND, OR or the end")
    return predicate


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _error(text, position, "a column, a value or an operator")
        kind = str(match.lastgroup)
        if kind == "word" and match[0].upper() in _KEYWORDS:
            kind = "keyword"
        if kind != "space":
            yield _Token(kind, match[0], position)
        position = match.end()
    yield _Token("end", "", len(text))


def _error(text: str, position: int, expected: str) -> ValidationError:
    start = max(0, position - 30)
    shown = re.sub(r"\s", " ", text[start : position + 30])
    found = repr(text[position : position + 20]) if position < len(text) else "the end"
    return ValidationError(
        f"the predicate is malformed at position {position}",
        cause=f"expected {expected}, found {found}\n    {shown}\n    {' ' * (position - start)}^",
        remedy="write it as in SQL: day = '2026-11-01' AND (amount > 10 OR note IS NULL)",
        position=position,
    )


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise ValidationError(
            f"a predicate must be text, not {type(text).__name__}",
            remedy="write it as in SQL: amount > 10",
        )
    if "\0" in text:
        raise _error(text, text.index("\0"), "no NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _error(text, error.start, "no lone surrogate") from None


class _Parser:
    def __init__(self, text: str) -> None:
        _check_text(text)
        self.text = text
        self.stream = _tokens(text)
        self.token = next(self.stream)
        self.depth = 0

    # --- reading tokens ---------------------------------------------------------------

    def fail(self, expected: str, position: int | None = None) -> NoReturn:
        raise _error(self.text, self.token.position if position is None else position, expected)

    def advance(self) -> _Token:
        token = self.token
        self.token = next(self.stream, token)
        return token

    def take(self, *names: str) -> str | None:
        """The next keyword or symbol, if it is one of these."""
        name = self.token.text.upper()
        if self.token.kind in ("keyword", "symbol") and name in names:
            self.advance()
            return name
        return None

    def expect(self, name: str) -> None:
        if self.take(name) is None:
            self.fail(name)

    # --- logic ------------------------------------------------------------------------

    def predicate(self, node: _Node) -> Predicate:
        """A node used as a condition: a bare boolean column means that it is true."""
        match node:
            case Column():
                return Comparison("=", node, Literal(value=True))
            case Literal(value) if value is None or isinstance(value, bool):
                return Constant(value)
            case Literal():
                self.fail("a comparison")
        return node

    def any_of(self) -> _Node:
        node = self.all_of()
        if not (self.token.kind == "keyword" and self.token.text.upper() == "OR"):
            return node
        parts = [self.predicate(node)]
        while self.take("OR"):
            parts.append(self.predicate(self.all_of()))
        return Or(tuple(parts))

    def all_of(self) -> _Node:
        node = self.negation()
        if not (self.token.kind == "keyword" and self.token.text.upper() == "AND"):
            return node
        parts = [self.predicate(node)]
        while self.take("AND"):
            parts.append(self.predicate(self.negation()))
        return And(tuple(parts))

    def negation(self) -> _Node:
        negations = 0
        while self.take("NOT"):
            negations += 1
        node = self.condition()
        if not negations:
            return node
        predicate = self.predicate(node)
        return Not(predicate) if negations % 2 else predicate

    def condition(self) -> _Node:
        start = self.token.position
        left = self.operand()
        if operator := self.take(*_COMPARISONS):
            return self.compare(_COMPARISONS[operator], self.value(left, start), self.right())
        if self.take("IS"):
            negated = self.take("NOT")
            self.expect("NULL")
            return self.negate(IsNull(self.column(left, start)), negated)
        negated = self.take("NOT")
        if self.take("IN"):
            return self.negate(self.in_list(self.column(left, start)), negated)
        if self.take("BETWEEN"):
            return self.negate(self.between(self.value(left, start)), negated)
        if self.take("LIKE"):
            return self.negate(self.like(self.column(left, start)), negated)
        if negated:
            self.fail("IN, BETWEEN or LIKE")
        return left

    @staticmethod
    def negate(predicate: Predicate, negated: str | None) -> Predicate:
        return Not(predicate) if negated else predicate

    def between(self, left: _Operand) -> Predicate:
        low = self.right()
        self.expect("AND")
        high = self.right()
        return And((self.compare(">=", left, low), self.compare("<=", left, high)))

    def in_list(self, column: Column) -> Predicate:
        self.expect("(")
        values = [self.literal()]
        while self.take(","):
            values.append(self.literal())
        self.expect(")")
        return In(column, tuple(values))

    def like(self, column: Column) -> Predicate:
        position, pattern = self.token.position, self.literal()
        if pattern is None:
            return Comparison("=", column, Literal(None))
        if not isinstance(pattern, str):
            self.fail("a pattern in quotes", position)
        like_parts(pattern)
        return Like(column, pattern)

    def compare(self, operator: str, left: _Operand, right: _Operand) -> Predicate:
        if isinstance(left, Column):
            return Comparison(operator, left, right)
        if isinstance(right, Column):
            return Comparison(FLIPPED[operator], right, left)
        return self.fold(operator, left.value, right.value)

    def fold(self, operator: str, left: Any, right: Any) -> Predicate:
        """A comparison of two literals: generated texts contain `1 = 1`."""
        if left is None or right is None:
            return Constant(left is right if operator == "<=>" else None)
        numbers = (int, Decimal)
        both_numbers = type(left) in numbers and type(right) in numbers
        if not both_numbers and type(left) is not type(right):
            self.fail("values of one type on both sides")
        try:
            return Constant(satisfies(operator, left, right))
        except TypeError:  # a time with a zone and one without
            self.fail("values of one type on both sides")

    # --- columns and values -----------------------------------------------------------

    def value(self, node: _Node, position: int) -> _Operand:
        if not isinstance(node, Column | Literal):
            self.fail("a column or a value", position)
        return node

    def column(self, node: _Node, position: int) -> Column:
        if not isinstance(node, Column):
            self.fail("a column", position)
        return node

    def right(self) -> _Operand:
        position = self.token.position
        return self.value(self.operand(), position)

    def literal(self) -> Any:
        position, node = self.token.position, self.operand()
        if not isinstance(node, Literal):
            self.fail("a value", position)
        return node.value

    def operand(self) -> _Node:
        if self.take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail(f"at most {MAX_DEPTH} nested parentheses")
            node = self.any_of()
            self.expect(")")
            self.depth -= 1
            return node
        if sign := self.take("+", "-"):
            return Literal(self.number(negative=sign == "-"))
        if name := self.take(*_CONSTANTS):
            return Literal(_CONSTANTS[name])
        return self.name_or_literal()

    def name_or_literal(self) -> _Operand:
        kind = self.token.kind
        if kind in ("word", "quoted"):
            return self.name()
        if kind == "number":
            return Literal(self.number(negative=False))
        if kind == "string":
            return Literal(self.string())
        if kind != "bytes":
            self.fail("a column or a value")
        return Literal(self.binary())

    def number(self, *, negative: bool) -> int | Decimal:
        if self.token.kind != "number":
            self.fail("a number")
        text, position = self.token.text, self.token.position
        value = Decimal(text) if len(text) <= _MAX_DIGITS else Decimal("Infinity")
        if not value.is_finite() or abs(value.adjusted()) > _MAX_EXPONENT:
            self.fail("a number that some column can hold", position)
        self.advance()
        signed = value.copy_negate() if negative else value
        if "e" in text.lower():
            return WithExponent(signed)
        return int(signed) if text.isdigit() else signed

    def string(self) -> str:
        position, text = self.token.position, self.token.text
        try:
            found = value_of(text)
        except ValidationError as error:
            self.fail(f"a valid string ({error.cause})", position)
        self.advance()
        return found

    def binary(self) -> bytes:
        digits = self.token.text[2:-1]
        if len(digits) % 2 or re.fullmatch("[0-9a-fA-F]*", digits) is None:
            self.fail("an even number of hexadecimal digits")
        self.advance()
        return bytes.fromhex(digits)

    def name(self) -> _Operand:
        token = self.advance()
        typed = token.text.upper()
        if self.token.kind == "string" and token.kind == "word" and typed in _TYPED:
            return Literal(self.typed(typed.lower()))
        path = [_unquoted(token)]
        while self.take("."):
            if self.token.kind not in ("word", "keyword", "quoted"):
                self.fail("the name of a nested column")
            path.append(_unquoted(self.advance()))
        return Column(tuple(path))

    def typed(self, kind: str) -> date | datetime:
        position, text = self.token.position, self.string().strip()
        # A time without a zone stays that way: the column's type decides what it means.
        zoned = re.search(r":.*(?:[zZ]|[+-][0-9:]+)$", text) is not None
        try:
            name = "timestamp_ntz" if kind == "timestamp" and not zoned else kind
            value = parse_value(text, Primitive(name))
        except LogFormatError:
            value = None
        if not isinstance(value, date):
            self.fail(f"a {kind} such as {_EXAMPLES[kind]}", position)
        return value


_EXAMPLES = {
    "date": "'2026-11-01'",
    "timestamp": "'2026-11-01 12:30:00Z'",
    "timestamp_ntz": "'2026-11-01 12:30:00'",
}


def _unquoted(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)
