"""One way each on the commit path: by the libraries, and decided once."""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "deltasql"


@cache
def _nodes() -> list[tuple[str, ast.AST]]:
    """What these tests look at, of every module: parsing them all takes a second."""
    kinds = (ast.Attribute, ast.ImportFrom, ast.Assign, ast.arg, ast.keyword)
    return [
        (module.relative_to(PACKAGE).as_posix(), node)
        for module in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, kinds)
    ]


def _modules_with(wanted) -> set[str]:
    return {module for module, node in _nodes() if wanted(node)}


def test_statements_go_through_psycopg():
    """Nobody talks to libpq: what psycopg does around a statement is done, whole."""

    def talks(node: ast.AST) -> bool:
        past = ("send_query", "send_prepare", "exec_", "get_result", "consume_input")
        return (isinstance(node, ast.Attribute) and node.attr.startswith(past)) or (
            isinstance(node, ast.ImportFrom)
            and node.module == "psycopg"
            and any(item.name == "generators" for item in node.names)
        )

    assert _modules_with(talks) == set()


def test_a_blind_append_is_decided_by_the_request():
    """Everybody else asks it; commits of others say it of themselves."""

    def decides(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else []
        return any(
            isinstance(item, ast.Attribute) and item.attr == "is_blind_append" for item in targets
        )

    assert _modules_with(decides) == {"commit/request.py"}


@pytest.mark.parametrize("name", ["expected_version", "expected_head"])
def test_what_a_pinned_commit_follows_has_one_name(name):
    """The version to be is the public call's alone."""
    found = _modules_with(lambda node: isinstance(node, ast.arg | ast.keyword) and node.arg == name)
    inside = {module for module in found if module.startswith(("commit/", "store/"))}
    assert (inside == set()) == (name == "expected_version")
