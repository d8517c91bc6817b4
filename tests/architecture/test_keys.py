"""Keys of properties, of column metadata and of domains stand in one module."""

import ast
import re
from pathlib import Path

from deltasql.spec import properties

PACKAGE = Path(__file__).parents[2] / "src" / "deltasql"
OWNER = PACKAGE / "spec" / "properties.py"
KEY = re.compile(r"(delta\.[\w.-]*|CURRENT_DEFAULT|EXISTS_DEFAULT)")


def literals(module: Path) -> list[tuple[int, str]]:
    return [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_only_one_module_spells_keys():
    spelt = [
        f"{module.relative_to(PACKAGE)}:{line}: {text}"
        for module in sorted(PACKAGE.rglob("*.py"))
        if module != OWNER
        for line, text in literals(module)
        if KEY.fullmatch(text)
    ]
    assert not spelt, f"name it in {OWNER.name} and import it: {spelt}"


def test_every_key_is_spelt_once():
    names = [
        (name, value)
        for name, value in vars(properties).items()
        if name.isupper() and isinstance(value, str)
    ]
    assert len({value for _, value in names}) == len(names) >= 40
    spelt = [text for _, text in literals(OWNER) if KEY.fullmatch(text)]
    assert len(spelt) == len(set(spelt))
