"""Our words: each term of the glossary is in use, and none of those that it replaced is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "concepts.md").read_text().partition("## Glossary\n")[2]
TERMS = [line.split("|")[1].strip() for line in GLOSSARY.splitlines() if line.startswith("| ")][1:]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SOURCES = [
    path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".sql") and path.is_file()
]
RETIRED = ("pilot", "flight", "scene", "ledger", "telling", "handover", "witness", "voice", "judge")


def _words(text: str) -> str:
    return " ".join(re.findall(r"[a-z]+", text.lower()))


def test_the_glossary_is_sorted():
    assert sorted(TERMS) == TERMS
    assert len(TERMS) > 20


def test_every_term_is_used():
    texts = [path.read_text().replace(GLOSSARY, "") for path in (*PAGES, *SOURCES)]
    text = _words(" ".join(texts))
    unused = [term for term in TERMS if not re.search(rf"\b{_words(term)}", text)]
    assert not unused


@pytest.mark.parametrize("word", RETIRED)
def test_retired_words_are_gone(word):
    """Also in names: `scene_of`, `LEDGERS`."""
    retired = re.compile(rf"(?<![a-z]){word}(s|es)?(?![a-z])", re.IGNORECASE)
    found = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in (*PAGES, *SOURCES, ROOT / "README.md", ROOT / "ARCHITECTURE.md")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if retired.search(line)
    }
    assert not found
