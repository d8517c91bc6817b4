"""The results: a table for people and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the results.

    With a peer the bar is on the ratio ours/peer, without one on our own figure; a row without
    a bar is for information.
    """

    name: str
    work: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    better: Literal["more", "less"]
    bar: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.peer else self.ours / self.peer

    @property
    def passed(self) -> bool | None:
        if self.bar is None:
            return None
        figure = self.ours if self.peer is None else self.ratio
        if figure is None:
            return None
        return figure >= self.bar if self.better == "more" else figure <= self.bar

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed}


def show(rows: Sequence[Row], about: Mapping[str, Any], console: Console, *, title: str) -> None:
    """Print the table, what each line measured, and where."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for heading in ("work", "ours", "peer", "", "ratio", "bar", ""):
        right = heading in ("ours", "peer", "ratio", "bar")
        table.add_column(heading, justify="right" if right else "left")
    for row in rows:
        table.add_row(
            row.work,
            _figure(row.ours),
            "–" if row.peer is None else f"{_figure(row.peer)} [dim]{row.peer_name}[/]",
            row.unit,
            "–" if row.ratio is None else f"{_figure(row.ratio)}×",
            _bar(row),
            {True: "[green]✓[/]", False: "[bold red]✗[/]", None: ""}[row.passed],
        )
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"[bold]{row.name}[/] {row.note}", highlight=False)
    console.print()
    for name, value in about.items():
        console.print(f"[dim]{name}: {_flat(value)}[/]", highlight=False, soft_wrap=True)


def write_json(path: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Write everything that is known about the run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {**about, "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    sign = "≥" if row.better == "more" else "≤"
    return f"{sign} {_figure(row.bar)}{'' if row.peer is None else '×'}"


def _figure(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1g}"


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(item)}" for key, item in value.items())
    return str(value)
