"""What errors say: how it is worded, and that the command line says it in its own words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from deltasql.cli.failures import spoken

SOURCE = Path(__file__).parents[2] / "src" / "deltasql"
# Layers whose errors reach the command line; there is no command for these calls.
LAYERS = ("adoption", "commit", "delta_log", "integrity", "lake", "maintenance", "mirror", "store")
PYTHON_ONLY = ("table.pin(", "table.allow(", "table.appender(")
# Turns of phrase that a reader stumbles over, with what to write instead.
AWKWARD = {
    r"(?<!there )\bis no (?!longer\b|such\b)[a-z]": "is not a …",
    r"\bto be had\b": "is available, was free",
    r"\bnobody (can|could) (say|tell)\b": "it is unknown",
    r"\banew\b": "again, re…",
    r"\bgoes? on\b": "continues",
    r"\btells\b": "shows, lists, says",
    r"\btold\b": "reported",
    r"\bone \w+ a (line|row|table|file|commit|version)\b": "one … per …",
    r"\bmeanwhile\b": "in the meantime, until then",
    r"\bshall\b": "will, should",
}


@cache
def messages() -> list[tuple[str, str, str]]:
    """Where, which part (problem, cause, remedy), and its text; what is filled in as {}."""
    return list(_messages())


def _messages() -> Iterator[tuple[str, str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        if where.startswith("testing/"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            named = {item.arg: item.value for item in node.keywords if item.arg}
            if not {"cause", "remedy"} & set(named):
                continue
            parts = {"problem": node.args[0]} if node.args else {}
            parts |= {key: named[key] for key in ("cause", "remedy") if key in named}
            for part, value in parts.items():
                for text in texts(value):
                    yield f"{where}:{node.lineno}", part, text


def texts(node: ast.expr) -> Iterator[str]:
    """The texts of an expression: a literal, or the two sides of a choice or a sum."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(
                str(item.value) if isinstance(item, ast.Constant) else "{}" for item in node.values
            )
        case ast.IfExp():
            yield from texts(node.body)
            yield from texts(node.orelse)
        case ast.BinOp() | ast.BoolOp():
            for item in ast.iter_child_nodes(node):
                if isinstance(item, ast.expr):
                    yield from texts(item)


def test_errors_are_there_to_be_read():
    assert len(messages()) > 800


@pytest.mark.parametrize("phrase", AWKWARD)
def test_no_awkward_phrase(phrase):
    found = [f"{where} {text}" for where, _, text in messages() if re.search(phrase, text)]
    assert not found, f"write: {AWKWARD[phrase]}"


def test_messages_are_clauses():
    """They are put together with colons and semicolons: no capital, no full stop."""
    for where, part, text in messages():
        assert not text.endswith("."), (where, part, text)
        assert not re.match(r"(The|A|An|It|This|There|You|Please)\b", text), (where, part, text)


def test_remedies_are_spoken_in_the_words_of_the_command_line():
    left = [
        f"{where} {spoken(text)}"
        for where, part, text in messages()
        if part == "remedy"
        and where.startswith(LAYERS)
        and re.search(r"\b(lake|table|mirror)\.\w+\(", spoken(text))
        and not any(name in text for name in PYTHON_ONLY)
    ]
    assert not left
