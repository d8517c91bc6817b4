"""Columns as in CREATE TABLE: `id BIGINT NOT NULL, tags ARRAY<STRING> COMMENT 'words'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from deltasql.errors import LogFormatError, ValidationError
from deltasql.spec import codec
from deltasql.spec.schema import StructType, parse_schema

# SQL's names for Delta's types.
SQL_TYPES: Final = {
    "bigint": "long",
    "dec": "decimal",
    "int": "integer",
    "numeric": "decimal",
    "real": "float",
    "smallint": "short",
    "tinyint": "byte",
    "timestamp_ltz": "timestamp",
}
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.|'')*')|(?P<word>\w+)|(?P<mark>[<>(),:]))"
)
# What only an engine can evaluate, or what must be given as the field's metadata.
_ELSEWHERE: Final = frozenset({"default", "generated", "as", "primary", "unique", "check"})


def parse_columns(text: str) -> StructType:
    """The schema that a list of columns declares."""
    parser = _Parser(text)
    fields = [parser.column()]
    while parser.accept(","):
        fields.append(parser.column())
    parser.must_be_over()
    rendered = codec.dumps({"type": "struct", "fields": fields}).decode()
    try:
        return parse_schema(rendered, source="the columns")
    except LogFormatError as error:
        raise parser.wrong(error.problem) from None


class _Parser:
    """Columns and types, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._at = 0

    def _split(self, text: str) -> Sequence[str]:
        found, position, end = [], 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.wrong(f"{text[position:].strip()!r:.40} is not understood")
            found.append(match.group().strip())
            position = match.end()
        return found

    def column(self) -> dict[str, Any]:
        """A column: its name, its type, NOT NULL, COMMENT."""
        return self._field(separator="")

    def _field(self, separator: str) -> dict[str, Any]:
        name = self._name()
        if separator:
            self.accept(separator)
        field: dict[str, Any] = {"name": name, "type": self._type(), "nullable": True}
        field["metadata"] = {}
        while True:
            if self.accept("not"):
                self._must("null")
                field["nullable"] = False
            elif self.accept("comment"):
                field["metadata"]["comment"] = self._string()
            elif self._peek().lower() in _ELSEWHERE:
                raise self.wrong(
                    f"{self._peek().upper()} is not supported in columns given as text",
                    "create such a table from Spark, or give the field Delta's metadata "
                    "(docs/python.md, computed columns)",
                )
            else:
                return field

    def _type(self) -> Any:
        word = self._take().lower()
        word = SQL_TYPES.get(word, word)
        if word == "array":
            self._must("<")
            element = self._type()
            self._must(">")
            return {"type": "array", "elementType": element, "containsNull": True}
        if word == "map":
            self._must("<")
            key = self._type()
            self._must(",")
            value = self._type()
            self._must(">")
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        if word == "struct":
            return self._struct()
        if word == "decimal":
            return f"decimal({','.join(self._numbers() or ('10', '0'))})"
        return word

    def _struct(self) -> dict[str, Any]:
        self._must("<")
        fields = [self._field(separator=":")]
        while self.accept(","):
            fields.append(self._field(separator=":"))
        self._must(">")
        return {"type": "struct", "fields": fields}

    def _numbers(self) -> tuple[str, ...]:
        if not self.accept("("):
            return ()
        precision = self._take()
        scale = self._take() if self.accept(",") else "0"
        self._must(")")
        return precision, scale

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise self.wrong(f"a column's name was expected before {token!r}")
        return token

    def _string(self) -> str:
        token = self._take()
        if not token.startswith("'"):
            raise self.wrong(f"a string in quotes was expected, not {token!r:.40}")
        return re.sub(r"\\(.)|''", lambda match: match[1] or "'", token[1:-1])

    def accept(self, word: str) -> bool:
        """Skip a word or mark if it comes next."""
        is_next = self._peek().lower() == word
        self._at += is_next
        return is_next

    def must_be_over(self) -> None:
        """Raise if something is left."""
        if self._at < len(self._tokens):
            raise self.wrong(f"{self._peek()!r:.40} was not expected")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise self.wrong("it ends too early")
        self._at += 1
        return token

    def _must(self, word: str) -> None:
        if not self.accept(word):
            found = self._peek() or "the end"
            raise self.wrong(f"{word.upper()!r} was expected before {found!r:.40}")

    def wrong(self, cause: str, remedy: str = "") -> ValidationError:
        """The error for a text that is not a list of columns."""
        return ValidationError(
            f"{self._text!r:.80} is not a list of columns",
            cause=cause,
            remedy=remedy or "write it as in CREATE TABLE: id BIGINT NOT NULL, day STRING",
        )
