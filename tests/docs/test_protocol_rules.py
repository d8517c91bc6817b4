"""docs/protocol-rules.md has every rule that is cited, and says which tests hold us to it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "protocol-rules.md"
_ROW = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)
_WORDS = re.compile(r"\brules? (\d+)((?:(?:, | and )\d+)*)")
_NAMES = re.compile(r"def test_\w*?rules?((?:_\d+)+)(?:_|\()")


def _rules() -> dict[int, set[str]]:
    """The tests that the page names, by the number of the rule."""
    rows = _ROW.findall(PAGE.read_text("utf-8"))
    assert len({number for number, _ in rows}) == len(rows)
    return {int(number): set(re.findall(r"`([\w/.]+)`", tests)) for number, tests in rows}


def _cited() -> dict[int, set[str]]:
    """Where a rule is cited, by its number."""
    found: dict[int, set[str]] = defaultdict(set)
    for folder in ("src", "tests", "docs"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sql", ".md"):
                for match in _WORDS.finditer(path.read_text("utf-8")):
                    for number in re.findall(r"\d+", match[0]):
                        found[int(number)].add(path.relative_to(ROOT).as_posix())
    return found


def _tested() -> dict[int, set[str]]:
    """The files below tests/ that have a rule's number in the name of a test."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for match in _NAMES.finditer(path.read_text("utf-8")):
            for number in match[1].strip("_").split("_"):
                found[int(number)].add(path.relative_to(ROOT / "tests").as_posix())
    return found


def test_every_rule_that_is_cited_is_there():
    missing = {number: places for number, places in _cited().items() if number not in _rules()}
    assert not missing
    assert sorted(_rules()) == list(range(1, len(_rules()) + 1))


def test_every_rule_names_its_tests():
    assert _rules() == dict(_tested())
