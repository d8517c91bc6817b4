"""Checks that the application's own SQL leaves the transaction and the session alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from deltasql.errors import ValidationError

# Statements that begin with one of these end, begin or control a transaction, or switch the
# connection to another database. One list for all databases, as none has another use for these
# words.
_STEERING: Final = re.compile(
    r"(ABORT|ATTACH|BEGIN|COMMIT|DETACH|END|FORCE|RELEASE|ROLLBACK|SAVEPOINT|START|USE)\b"
    r"|PREPARE TRANSACTION\b"
    r"|SET LOCAL (TRANSACTION|DEFAULT_TRANSACTION)"
)
# Statements that begin with one of these outlast the transaction, as session state.
_LASTING: Final = re.compile(
    r"SET\b(?! (LOCAL|CONSTRAINTS)\b)"
    r"|(DISCARD|INSTALL|LISTEN|LOAD|PRAGMA|RESET|UNLISTEN)\b"
)
_TOKEN: Final = re.compile(
    r"--[^\n]*"
    r"|/\*"
    r"|\b[eE]'(?:[^'\\]|''|\\.)*(?:'|\Z)"
    r"|'(?:[^']|'')*(?:'|\Z)"
    r'|"(?:[^"]|"")*(?:"|\Z)'
    r"|`[^`]*(?:`|\Z)"
    r"|(?P<tag>\$(?:[^\W\d]\w*)?\$)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|;",
    re.DOTALL,
)
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
# The length of the longest form above.
_WORDS: Final = 3


def refuse_transaction_control(statement: str) -> None:
    """Raise `ValidationError` for a text with a statement that ends or controls transactions, or
    that outlasts them: the next commit may run in the same session.
    """
    # Nested comments exist in PostgreSQL only.
    for nested in (True, False):
        for words in _beginnings(statement, nested=nested):
            beginning = " ".join(words).upper()
            if _LASTING.match(beginning):
                raise ValidationError(
                    f"{' '.join(words)} can't be run inside a transaction of the lake",
                    cause="it changes the session, which outlasts the transaction",
                    remedy="leave the statement out; PostgreSQL has SET LOCAL for one transaction",
                )
            if _STEERING.match(beginning):
                raise ValidationError(
                    f"{' '.join(words)} can't be run inside a transaction of the lake",
                    cause="the transaction ends with its block, as a whole, and its files are "
                    "kept or deleted accordingly",
                    remedy="leave the statement out; raise inside the block to roll back",
                )


def _beginnings(text: str, *, nested: bool) -> Iterator[list[str]]:
    """The first words of each statement in a text."""
    words: list[str] = []
    is_over = False
    place = 0
    while (match := _TOKEN.search(text, place)) is not None:
        if words and text[place : match.start()].strip():
            # A number or a symbol: the words after it no longer begin the statement.
            is_over = True
        place = match.end()
        found = match[0]
        if found == ";":
            yield words
            words, is_over = [], False
        elif found == "/*":
            place = _comment_end(text, place, nested=nested)
        elif match["tag"]:
            closing = text.find(found, place)
            place = len(text) if closing < 0 else closing + len(found)
            is_over = True
        elif match["word"] and not is_over:
            words.append(found)
            is_over = len(words) == _WORDS
        elif not found.startswith("--"):
            is_over = True
    yield words


def _comment_end(text: str, place: int, *, nested: bool) -> int:
    depth = 1
    while depth:
        mark = _COMMENT_MARK.search(text, place)
        if mark is None:
            return len(text)
        place = mark.end()
        if mark[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
    return place
