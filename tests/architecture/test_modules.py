"""What the linters cannot say about a module: its size, its name, its clock, its SQL."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "deltasql"
MODULES = sorted(PACKAGE.rglob("*.py"))
PURE = [module for module in MODULES if module.relative_to(PACKAGE).parts[0] in {"spec", "log"}]

MOST_LINES = 400
MEDIAN_LINES = 150
MOST_MODULES = 15
LONGER_WITH_REASON: dict[str, str] = {
    # "layer/module.py": "why splitting it would make it harder to read",
}

NAMES_THAT_SAY_NOTHING = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

CLOCKS = {
    ("datetime", "now"),
    ("datetime", "today"),
    ("datetime", "utcnow"),
    ("date", "today"),
    ("time", "monotonic"),
    ("time", "time"),
    ("time", "time_ns"),
}

STATEMENT_CALLS = {"execute", "executemany", "executescript", "query", "sql"}


def _name(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def _nodes(module: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(module.read_text(), filename=str(module)))


def test_modules_fit_a_reader():
    lines = {_name(module): len(module.read_text().splitlines()) for module in MODULES}
    long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert long.keys() <= LONGER_WITH_REASON.keys(), (
        f"split these, or list them with a reason: {long}"
    )


def test_modules_are_small_and_folders_are_rooms():
    lines = [len(module.read_text().splitlines()) for module in MODULES]
    assert median(lines) <= MEDIAN_LINES
    crowded = {
        folder.relative_to(PACKAGE).as_posix(): count
        for folder, count in Counter(module.parent for module in MODULES).items()
        if count > MOST_MODULES
    }
    assert not crowded, "make a folder by what the modules do"


def test_reasons_are_still_needed():
    for name in LONGER_WITH_REASON:
        assert len((PACKAGE / name).read_text().splitlines()) > MOST_LINES, name


def test_names_say_what_is_inside():
    named = {module: {module.stem.strip("_"), module.parent.name} for module in MODULES}
    empty = [_name(module) for module, names in named.items() if names & NAMES_THAT_SAY_NOTHING]
    assert not empty


def test_pure_layers_have_no_clock():
    assert PURE
    readers = [
        f"{_name(module)}:{node.lineno}"
        for module in PURE
        for node in _nodes(module)
        if isinstance(node, ast.Attribute)
        and (getattr(node.value, "attr", getattr(node.value, "id", None)), node.attr) in CLOCKS
    ]
    assert not readers, f"these read a clock; take the time as an argument: {readers}"


def test_sql_is_not_built_from_strings():
    builders = [
        f"{_name(module)}:{node.lineno}"
        for module in MODULES
        for node in _nodes(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STATEMENT_CALLS
        and node.args
        and _is_assembled(node.args[0])
    ]
    assert not builders, f"these build SQL; name a query in a .sql file instead: {builders}"


def _is_assembled(statement: ast.expr) -> bool:
    """Whether text is put together: an f-string, `+` or `%` on a literal, or `"…".format()`."""
    match statement:
        case ast.JoinedStr():
            return True
        case ast.BinOp(left=left, right=right):
            return any(_is_text(side) or _is_assembled(side) for side in (left, right))
        case ast.Call(func=ast.Attribute(value=owner, attr="format" | "join")):
            return _is_text(owner)
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize(
    ("code", "assembled"),
    [
        ('f"SELECT {x}"', True),
        ('"SELECT " + x', True),
        ('"SELECT %s" % x', True),
        ('"SELECT {}".format(x)', True),
        ('"SELECT " + x + " FROM t"', True),
        ('"SELECT 1"', False),
        ("queries.select_head", False),
        ('sql.SQL("SELECT {}").format(x)', False),
    ],
)
def test_assembled_sql_is_recognised(code, assembled):
    assert _is_assembled(ast.parse(code, mode="eval").body) is assembled
