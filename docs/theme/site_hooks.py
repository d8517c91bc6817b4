"""What the theme leaves to us: transcripts in columns, and names for screen readers."""

import re

_TRANSCRIPT = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_TABBED = re.compile(r"(?:^(?!\$ )[^\n]*\t[^\n]*\n)+", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put what a command printed with tabs between the columns under its headings."""
    return _TRANSCRIPT.sub(lambda block: _TABBED.sub(_in_columns, block[0]), markdown)


def _in_columns(found: re.Match[str]) -> str:
    rows = [line.split("\t") for line in found[0].splitlines()]
    count = max(map(len, rows))
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(count)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def on_post_page(output: str, **_: object) -> str:
    """Name the dialog of the search."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
