"""The pictures of the documentation: `make pictures`, or `python -m tests.docs.pictures`.

`benchmarks.svg` is drawn from `docs/benchmarks.json`, the table of docs/benchmarks.md is made of
the same figures, and the command line is photographed as it is: its own output in a terminal of 100
columns or more, drawn by rich. None of them names a font or a file from elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.docs.photographs import photographs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
FIGURES = DOCS / "benchmarks.json"
PAGE = DOCS / "benchmarks.md"

# The screenshots by name: what is typed, and how wide the terminal is.
SHOTS = {
    "tables": ("deltasql tables", 100),
    "show": ("deltasql show sales.orders", 100),
    "history": ("deltasql history sales.orders", 100),
    "status": ("deltasql mirror status", 100),
    "audit": ("deltasql audit --since 1d", 140),
}

_ROW = 62
_LEFT, _RIGHT = 20, 150
_WIDTH = 920


def figures() -> list[dict[str, Any]]:
    return json.loads(FIGURES.read_text())["figures"]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def benchmarks_svg() -> str:
    """Pairs of bars: ours, and the alternative's."""
    rows = figures()
    height = len(rows) * _ROW + 8
    span = _WIDTH - _LEFT - _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-size="13" ',
        'role="img" aria-labelledby="bench-title">',
        '<title id="bench-title">deltasql beside others; the table has the figures</title>',
    ]
    for number, row in enumerate(rows):
        top = number * _ROW + 8
        longest = max(_number(row["ours"]), _number(row["peer"]))
        what = escape(row["workload"].replace("`", ""))
        hint = "more is better" if row["better"] == "more" else "less is better"
        parts.append(
            f'<text x="{_LEFT}" y="{top + 12}" font-weight="600">{what}'
            f'<tspan class="faint" font-weight="400" font-size="11" dx="8">{hint}</tspan></text>'
        )
        for place, (side, name) in enumerate((("ours", "deltasql"), ("peer", row["against"]))):
            y = top + 19 + place * 17
            length = max(3.0, span * _number(row[side]) / longest)
            parts.append(
                f'<rect class="{side}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="13"/>'
                f'<text x="{_LEFT + length + 8:.1f}" y="{y + 11}" font-size="11.5">'
                f"{row[side]} {row['unit']}"
                f'<tspan class="faint" dx="6">{escape(name)}</tspan></text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def benchmarks_page() -> str:
    """The page with the rows of its table made anew."""
    lines = [
        f"| {row['workload']} | {row['ours']} {row['unit']} | {row['against']} "
        f"{row['peer']} {row['unit']} | {row['ratio']} | `make {row['target']}` |"
        for row in figures()
    ]
    text = PAGE.read_text()
    head, rule, rest = text.partition("|---|---|---|---|---|\n")
    assert rule
    after = rest[rest.index("\n- **Run them") :]
    return f"{head}{rule}" + "\n".join(lines) + "\n" + after


# --- the command line ---------------------------------------------------------------------

_THEME = TerminalTheme(
    (16, 27, 51),
    (219, 227, 241),
    [(23, 33, 56), (247, 163, 171), (134, 219, 165), (250, 214, 137),
     (143, 178, 255), (217, 167, 240), (94, 234, 212), (219, 227, 241)],
    [(152, 166, 192), (255, 180, 187), (160, 235, 185), (255, 228, 165),
     (170, 198, 255), (232, 190, 250), (153, 246, 228), (255, 255, 255)],
)  # fmt: skip
# Rich's own frame names a font on a server far away.
_FRAME = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "<!-- Generated with Rich https://www.textualize.io -->", ""
)
_FRAME = _FRAME.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")

_LAKE = """
import datetime, deltasql, pyarrow as pa
with deltasql.connect() as lake:
    day = datetime.date(2026, 11, 1)
    rows = lambda n, k: pa.table({"id": range(k, k + n), "day": [day] * n, "amount": [9.5] * n})
    orders = lake.create_table("sales.orders", data=rows(20_000, 0), partition_by=["day"])
    lake.create_table("sales.lines", pa.schema([("order_id", pa.int64()), ("item", pa.string())]))
    lake.create_table("hr.people", pa.schema([("id", pa.int64())]))
    orders.append(rows(5_000, 20_000))
    with lake.transaction() as tx:
        tx.table("sales.orders").append(rows(1, 30_000))
        tx.table("sales.lines").append(pa.table({"order_id": [30_000], "item": ["lamp"]}))
    orders.delete("id = 7")
"""


def shots() -> dict[str, str]:
    """Screenshots of the command line, by the names of their files."""
    folder = Path(tempfile.mkdtemp(prefix="lake-", dir="/tmp"))
    environment = {key: v for key, v in os.environ.items() if not key.startswith("DELTASQL_")}
    environment |= {
        "FORCE_COLOR": "1", "TERM": "xterm-256color", "TTY_COMPATIBLE": "1",
        "USER": "ada", "LOGNAME": "ada",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    try:
        run("deltasql", "init", "sqlite:///lake.db", "--location", "lake")
        run(sys.executable, "-c", _LAKE)
        return {
            name: _drawn(line, run(*_typed(line, width)), folder, width)
            for name, (line, width) in SHOTS.items()
        }
    finally:
        shutil.rmtree(folder)


def _typed(line: str, width: int) -> list[str]:
    # In a terminal: what is piped has other clothes.
    return ["script", "--quiet", "--return", "--command", f"stty cols {width}; {line}", "/dev/null"]


def _drawn(line: str, told: str, folder: Path, width: int) -> str:
    # As long as the folder's name, or columns would no longer be straight.
    place = "/srv/ada/warehouse".ljust(len(str(folder)))
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True)
        console.print(Text.from_markup(f"[bold green]$[/] {line}"))
        clean = told.replace("\r", "").replace(str(folder), place)
        console.print(Text.from_ansi(clean.rstrip("\n")))
    return console.export_svg(
        title="", theme=_THEME, code_format=_FRAME, unique_id="shot-" + line.split()[1]
    )


def main() -> None:
    (IMAGES / "benchmarks.svg").write_text(benchmarks_svg())
    PAGE.write_text(benchmarks_page())
    for name, picture in shots().items():
        (IMAGES / "cli" / f"{name}.svg").write_text(picture)
    for name, content in photographs().items():
        (IMAGES / f"{name}.png").write_bytes(content)


if __name__ == "__main__":
    main()
