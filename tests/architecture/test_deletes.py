"""Who deletes objects: a data file that a version has is gone for good."""

import ast

import pytest

from tests.architecture.test_modules import MODULES, PACKAGE

# By module: why it may.
MAY_DELETE = {
    "commit/discarding.py": "new files that belong to no commit, which it asks SQL about",
    "mirror/repairing/": "the mirror's own log files",
    "mirror/cleanup.py": "the mirror's own log files",
    "mirror/purging.py": "the files of a table that its owner purges",
    "maintenance/vacuuming/journal.py": "what no version needs, written down in SQL first",
    "lake/looking/probing.py": "the one object that it has just written, under a new id",
    "objectstore/": "the stores themselves",
    "testing/": "no part of a running program",
}
# Whose `delete` is another verb: rows of a table.
NOT_OBJECTS = {"row_changes"}


def _deletes(text: str) -> list[int]:
    """The lines that call, or hand on, a method `delete`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr == "delete"
        and getattr(node.value, "id", None) not in NOT_OBJECTS
    ]


def test_nobody_else_deletes_objects():
    others = {
        f"{name}:{line}"
        for module in MODULES
        if not (name := module.relative_to(PACKAGE).as_posix()).startswith(tuple(MAY_DELETE))
        for line in _deletes(module.read_text())
    }
    assert not others, f"these delete objects; leave that to commit/discarding.py: {others}"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("objects.delete([path])", [1]),
        ("self._objects(place).delete(paths)", [1]),
        ("take_away = table.objects.delete", [1]),
        ("row_changes.delete(context, condition)", []),
        ("discarder.discard(place, paths)", []),
    ],
)
def test_deletes_are_recognised(code, lines):
    assert _deletes(code) == lines
