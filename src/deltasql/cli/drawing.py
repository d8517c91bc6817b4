"""Tables and records on a terminal of any width.

Columns in which nothing stands, or only zeros, fold away. Cells wrap between words; where even
that takes more room than there is, each row becomes a block of lines, so that no name is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltasql.cli.text import cell, printable

if TYPE_CHECKING:
    from rich.console import Console

Styled = tuple[Sequence[Any], str | None]
_PADDING = 2
# A blank on either side of a cell, and one between columns.
_BETWEEN = 3


def draw(columns: Sequence[str], rows: Sequence[Styled], title: str, keep: int = 1) -> None:
    """Rows under headings; the first `keep` columns stay, whatever is in them."""
    shown = _filled(rows, len(columns), keep)
    headings = [printable(columns[place]).replace("_", " ") for place in shown]
    cells = [([cell(row[place]) for place in shown], style) for row, style in rows]
    right = [
        bool(rows) and all(isinstance(row[place], int | float | None) for row, _ in rows)
        for place in shown
    ]
    console = _console()
    if _narrowest(headings, cells) <= console.width or not rows:
        _draw_grid(console, headings, cells, right, title)
    else:
        _draw_blocks(console, headings, cells, title)


def draw_record(values: Mapping[str, Any]) -> None:
    """One thing: its properties line by line, empty ones left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, _PADDING))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for key, value in values.items():
        if value is not None and value not in ("", [], {}, ()):
            grid.add_row(Text(printable(str(key)), style="bold"), Text(cell(value)))
    _console().print(grid)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _filled(rows: Sequence[Styled], count: int, keep: int) -> list[int]:
    """The columns in which something stands."""
    return [
        place
        for place in range(count)
        if place < keep or not rows or any(_tells(row[place]) for row, _ in rows)
    ]


def _tells(value: Any) -> bool:
    return not (value is None or value is False or value == 0 or cell(value) == "")


def _narrowest(headings: Sequence[str], rows: Sequence[tuple[list[str], str | None]]) -> int:
    """The width of a grid whose cells wrap between words only."""
    from rich.cells import cell_len

    width = 1
    for place, heading in enumerate(headings):
        texts = [heading, *(row[place] for row, _ in rows)]
        width += max(cell_len(word) for text in texts for word in text.split(" ")) + _BETWEEN
    return width


def _draw_grid(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[tuple[list[str], str | None]],
    right: Sequence[bool],
    title: str,
) -> None:
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, title=Text(printable(title)) if title else None)
    grid.title_justify = "left"
    for place, heading in enumerate(headings):
        texts = [heading, *(row[place] for row, _ in rows)]
        grid.add_column(
            Text(heading, style="bold"),
            justify="right" if right[place] else "left",
            overflow="fold",
            min_width=max(cell_len(word) for text in texts for word in text.split(" ")),
        )
    for row, style in rows:
        # Text, not str: nothing in a value is markup.
        grid.add_row(*map(Text, row), style=style)
    console.print(grid)


def _draw_blocks(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[tuple[list[str], str | None]],
    title: str,
) -> None:
    from rich.text import Text

    if title:
        console.print(Text(printable(title)), soft_wrap=True)
    widest = max(map(len, headings))
    for row, style in rows:
        console.print(Text("─" * min(console.width, 40), style="dim"))
        for heading, text in zip(headings, row, strict=True):
            if text:
                line = Text(f"{heading:<{widest}}  ", style="bold")
                line.append(text, style=style or "not bold")
                # The terminal wraps what is longer: a name that is copied stays whole.
                console.print(line, soft_wrap=True)
