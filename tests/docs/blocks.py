"""Code blocks of a Markdown page, the hidden ones in comments too.

A comment `<!-- python … -->` is run like a block and not shown: what a page takes for granted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# Diagrams and lists are no code.
PROSE = ("", "text")
_BLOCK = re.compile(
    r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$"
    r"|^<!-- (?P<hidden>python|sh)\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block, and the line it begins at."""

    language: str
    code: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        language = match["hidden"] or match["language"]
        code = match["setup"] if match["hidden"] else match["code"]
        # After the line of the fence.
        line = text.count("\n", 0, match.start()) + 2
        if language not in PROSE:
            found.append(Block(language, code, line))
    return found


def needs_spark(page: Path) -> bool:
    return page.stem.startswith("spark") or any(
        block.language == "python" and re.search(r"\b(pyspark|deltasql\.spark)\b", block.code)
        for block in blocks_of(page)
    )
