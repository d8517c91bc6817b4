"""Tables and records on a terminal of any width.

Columns that are empty, or all zero, fold away. Cells wrap between words; where even that takes
more room than there is, each row becomes a short paragraph, so that no name is split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from deltasql.cli.text import cell, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Styled = tuple[Sequence[Any], str | None]
_PADDING = 2
# A blank on either side of a cell, and one between columns.
_BETWEEN = 3
_LONG_KEY = 20
# One row in so many may be longer than the line.
_FEW = 5


def draw(
    columns: Sequence[str], rows: Sequence[Styled], title: str, keep: int = 1, empty: str = ""
) -> None:
    """Rows under headings; the first `keep` columns stay, whatever is in them.

    Without a row, the sentence `empty` instead, if there is one.
    """
    if not rows and empty:
        print(empty)
        return
    shown = _filled(rows, len(columns), keep)
    headings = [printable(columns[place]).replace("_", " ") for place in shown]
    cells = [([cell(row[place]) for place in shown], style) for row, style in rows]
    right = [bool(rows) and all(_is_number(row[place]) for row, _ in rows) for place in shown]
    console = _console()
    width = _narrowest(headings, cells)
    grid = _grid(headings, cells, right, title, room=max(console.width, width))
    if width <= console.width or not rows:
        console.print(grid)
    elif not _draw_wide(console, grid, width, most=len(rows) // _FEW):
        _draw_blocks(console, headings, cells, title)


def draw_record(values: Mapping[str, Any]) -> None:
    """One thing: its properties line by line, empty ones left out."""
    shown = {
        _worded(printable(str(key))): _plainly(value)
        for key, value in values.items()
        if value is not None and value not in ("", [], {}, ())
    }
    # A few long keys must not push all values aside.
    widest = max((len(key) for key in shown if len(key) <= _LONG_KEY), default=0)
    for key, text in shown.items():
        _hang(_console(), key, text, indent=max(widest, len(key)) + _PADDING)


def _worded(key: str) -> str:
    """A key as words; one that is already in words holds a name, such as a property's."""
    return key if " " in key else key.replace("_", " ")


def draw_findings(findings: Sequence[tuple[str, str, str, str, str | None]]) -> None:
    """What was checked: state, check, finding and remedy, with the style of the state."""
    console = _console()
    states = max((len(state) for _, state, *_ in findings), default=0)
    checks = max((len(check) for check, *_ in findings), default=0)
    indent = states + checks + 2 * _PADDING
    for check, state, finding, remedy, style in findings:
        label = f"{state:<{states}}{' ' * _PADDING}{check:<{checks}}"
        _hang(console, label, printable(finding), indent=indent, style=style)
        if remedy:
            _hang(console, "", f"→ {printable(remedy)}", indent=indent, style=style)


def _plainly(value: Any) -> str:
    """Lists and mappings without brackets and quotes."""
    if isinstance(value, Mapping):
        return ", ".join(f"{cell(key)} {cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple) and not any(isinstance(item, list | dict) for item in value):
        return ", ".join(map(cell, value))
    return cell(value)


def _hang(
    console: Console, label: str, text: str, *, indent: int, style: str | None = None
) -> None:
    """A label, and beside it a text that wraps between words.

    A word that is longer than the line is left to the terminal: a name that is copied stays whole.
    """
    from rich.text import Text

    room = max(console.width - indent, 20)
    lines = wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    first = Text(f"{label:<{indent}}", style=style or "bold")
    first.append(lines[0], style="not bold")
    console.print(first, soft_wrap=True)
    for line in lines[1:]:
        console.print(Text(" " * indent + line, style=style or ""), soft_wrap=True)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _filled(rows: Sequence[Styled], count: int, keep: int) -> list[int]:
    """The columns that say something."""
    return [
        place
        for place in range(count)
        if place < keep or not rows or any(_tells(row[place]) for row, _ in rows)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _tells(value: Any) -> bool:
    return not (value is None or value is False or value == 0 or cell(value) == "")


def _narrowest(headings: Sequence[str], rows: Sequence[tuple[list[str], str | None]]) -> int:
    """The width of a grid whose cells wrap between words only."""
    return 1 + sum(least + _BETWEEN for least, _ in _widths(headings, rows))


def _widths(
    headings: Sequence[str], rows: Sequence[tuple[list[str], str | None]]
) -> list[tuple[int, int]]:
    """How wide each column must be, and how wide it would be if nothing wrapped."""
    from rich.cells import cell_len

    found = []
    for place, heading in enumerate(headings):
        texts = [heading, *(row[place] for row, _ in rows)]
        least = max(cell_len(word) for text in texts for word in text.split(" "))
        found.append((least, max(map(cell_len, texts))))
    return found


def _fitting(widths: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Widths that fill the room at most, if that can be: those wrap that have the most to wrap.

    Left to itself, the grid takes room from a long name, does not get it, and is cut off.
    """
    chosen = [most for _, most in widths]
    over = 1 + sum(width + _BETWEEN for width in chosen) - room
    while over > 0:
        slack = [width - least for width, (least, _) in zip(chosen, widths, strict=True)]
        place = slack.index(max(slack))
        if not slack[place]:
            break
        others = sorted(slack)[-2] if len(slack) > 1 else 0
        less = min(over, max(1, slack[place] - others))
        chosen[place] -= less
        over -= less
    return chosen


def _grid(
    headings: Sequence[str],
    rows: Sequence[tuple[list[str], str | None]],
    right: Sequence[bool],
    title: str,
    *,
    room: int,
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, title=Text(printable(title)) if title else None)
    grid.title_justify = "left"
    fitting = _fitting(_widths(headings, rows), room)
    for place, heading in enumerate(headings):
        grid.add_column(
            Text(heading, style="bold"),
            justify="right" if right[place] else "left",
            overflow="fold",
            width=fitting[place],
        )
    for row, style in rows:
        # Text, not str: nothing in a value is markup.
        grid.add_row(*map(Text, row), style=style)
    return grid


def _draw_wide(console: Console, grid: Table, width: int, most: int) -> bool:
    """Draw a grid wider than the terminal, which wraps its long lines, if that is few of them."""
    from rich.text import Text

    lines = []
    for segments in console.render_lines(grid, console.options.update(width=width), pad=False):
        line = Text.assemble(*((part.text, part.style or "") for part in segments))
        line.rstrip()
        if set(line.plain.strip()) == {"─"}:
            line.truncate(console.width)
        lines.append(line)
    if sum(line.cell_len > console.width for line in lines) > most:
        return False
    for line in lines:
        console.print(line, soft_wrap=True)
    return True


def _draw_blocks(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[tuple[list[str], str | None]],
    title: str,
) -> None:
    """A paragraph for each row: its first cell, then the others that say something."""
    from rich.text import Text

    if title:
        console.print(Text(printable(title)), soft_wrap=True)
    for row, style in rows:
        console.print(Text(row[0], style=f"bold {style or ''}".strip()), soft_wrap=True)
        said = [
            f"{heading} {text}"
            for heading, text in zip(headings[1:], row[1:], strict=True)
            if text and (text not in ("0", "0.0", "no") or "version" in heading)
        ]
        for line in _packed(said, console.width - _PADDING):
            console.print(Text(" " * _PADDING + line, style=style or ""), soft_wrap=True)


def _packed(items: Sequence[str], width: int) -> list[str]:
    """Items on as few lines as they fit on, none of them split."""
    from rich.cells import cell_len

    lines: list[str] = []
    for item in items:
        if lines and cell_len(lines[-1]) + 3 + cell_len(item) <= width:
            lines[-1] += f" · {item}"
        else:
            lines.append(item)
    return lines
