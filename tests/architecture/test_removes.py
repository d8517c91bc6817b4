"""A remove says why no row is lost by it: only `log/removal.py` makes one of an add."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "deltasql"


def test_removes_are_made_in_one_place():
    made = [
        module.relative_to(PACKAGE).as_posix()
        for module in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "of"
        and isinstance(node.value, ast.Name)
        and node.value.id == "RemoveFile"
    ]
    assert made == ["log/removal.py"]


def test_nobody_else_calls_a_file_whole_or_rewritten():
    named = [
        module.relative_to(PACKAGE).as_posix()
        for module in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("WholeFile", "RewrittenFile")
    ]
    assert set(named) == {"log/removal.py"}
