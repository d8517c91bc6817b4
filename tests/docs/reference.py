"""Pages that are made from the code: `python -m tests.docs.reference` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer.main

from deltasql.cli.main import app
from deltasql.settings import keys

DOCS = Path(__file__).parents[2] / "docs"
_MARK = "<!-- made by `make reference` from here on -->\n"


def command_line() -> str:
    """Every command's help."""
    root = typer.main.get_command(app)
    context = root.make_context("deltasql", [], resilient_parsing=True, max_content_width=88)
    context.terminal_width = 88
    return "".join(_commands(root, context, "deltasql"))


def _commands(command: Any, context: Any, path: str) -> list[str]:
    shown = [f"\n## {path}\n\n```text\n{_help(command, context)}\n```\n"]
    for name, child in getattr(command, "commands", {}).items():
        below = type(context)(child, info_name=name, parent=context, terminal_width=88)
        shown += _commands(child, below, f"{path} {name}")
    return shown


def _help(command: Any, context: Any) -> str:
    # The completion options depend on the shell, and are the same everywhere.
    return str(command.get_help(context)).rstrip()


def settings() -> str:
    """Every setting."""
    lines = ["\n| key | default | value | variable | meaning |\n|---|---|---|---|---|\n"]
    lines += [
        f"| `{key.name}` | `{key.default}` | {key.kind.words} "
        f"| `{key.variable}` | {key.meaning} |\n"
        for key in keys.all_keys()
    ]
    return "".join(lines)


PAGES = {"cli.md": command_line, "configuration.md": settings}


def made(page: str) -> str:
    """A page as it should be: what was written by hand, and what is made."""
    text = (DOCS / page).read_text("utf-8")
    by_hand, mark, _ = text.partition(_MARK)
    assert mark, f"{page} has no line {_MARK}"
    return by_hand + _MARK + PAGES[page]()


def main() -> None:
    for page in PAGES:
        (DOCS / page).write_text(made(page), "utf-8")


if __name__ == "__main__":
    main()
