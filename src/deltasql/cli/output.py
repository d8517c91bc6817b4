"""The one way out: tables and messages, for a terminal, for a pipe, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import Any, TextIO

from deltasql.cli.text import cell, counted, dumps, printable

Advance = Callable[[int, int], None]


class Format(StrEnum):
    """How answers are written."""

    TEXT = "text"
    JSON = "json"


class Output:
    """Writes answers to stdout, and what only people want to know to stderr."""

    def __init__(self, form: Format = Format.TEXT) -> None:
        self.form = form

    @property
    def is_json(self) -> bool:
        """Whether a program reads the answer."""
        return self.form is Format.JSON

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        style: Callable[[Sequence[Any]], str | None] = lambda _: None,
        title: str = "",
        brief: Sequence[str] = (),
        fold: bool = True,
        empty: str = "",
    ) -> None:
        """Rows under headings: drawn, tab-separated in a pipe, or a JSON array of objects.

        `brief` names the columns for people; JSON has all of them. On a terminal empty columns are
        left out, unless `fold` says that each of them counts, and where there is no row the
        sentence `empty` takes the place of the headings.
        """
        if self.is_json:
            _write_array(dict(zip(columns, row, strict=True)) for row in rows)
            return
        places = [columns.index(name) for name in brief or columns]
        if sys.stdout.isatty():
            from deltasql.cli.drawing import draw

            styled = [([row[place] for place in places], style(row)) for row in rows]
            keep = 1 if fold else len(places)
            draw([columns[place] for place in places], styled, title, keep, empty)
            return
        _line("\t".join(cell(columns[place]) for place in places))
        for row in rows:
            _line("\t".join(cell(row[place]) for place in places))

    def findings(
        self, found: Sequence[tuple[str, str, str, str]], colours: Mapping[str, str]
    ) -> None:
        """Checks with their state, finding and remedy: a line or two each, or a table of these."""
        if not self.is_json and sys.stdout.isatty():
            from deltasql.cli.drawing import draw_findings

            draw_findings([(*row, colours.get(row[1])) for row in found])
            return
        self.table(("check", "state", "finding", "remedy"), found)

    def record(self, values: Mapping[str, Any]) -> None:
        """One thing: its properties line by line, or a JSON object."""
        if self.is_json:
            _line(dumps(values, indent=2))
            return
        if sys.stdout.isatty():
            from deltasql.cli.drawing import draw_record

            draw_record(values)
            return
        for key, value in values.items():
            _line(f"{cell(key)}\t{cell(value)}")

    def done(self, text: str, values: Mapping[str, Any]) -> None:
        """What was done: a sentence, or a JSON object."""
        _line(dumps(values, indent=2) if self.is_json else printable(text, keep="\n"))

    def reports(
        self, found: Iterable[Any], told: Callable[[Any], str], nothing: str, *, single: bool
    ) -> None:
        """What was done to tables: a line for each that has something to say, as it comes, and one
        for the rest.

        `told` is empty for a table of which there is `nothing` to say.
        """
        if self.is_json:
            if single:
                (only,) = found
                _line(dumps(asdict(only), indent=2))
            else:
                _write_array(map(asdict, found))
            return
        quiet = []
        for report in found:
            if text := told(report):
                _line(printable(text))
            else:
                quiet.append(report.table)
        if quiet:
            _line(f"{printable(quiet[0]) if single else counted(len(quiet), 'table')}: {nothing}")

    def raw(self, text: str) -> None:
        """Text that is the answer itself, such as SQL."""
        _line(printable(text, keep="\n\t"))

    def note(self, text: str) -> None:
        """Something beside the answer, for people."""
        if not self.is_json:
            print(printable(text, keep="\n"), file=sys.stderr)

    @contextmanager
    def progress(self, doing: str) -> Iterator[Advance]:
        """A bar on stderr while something long goes on, if somebody watches."""
        if self.is_json or not sys.stderr.isatty():
            yield lambda _done, _total: None
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        with Progress(
            TextColumn(escape(printable(doing))),
            BarColumn(),
            MofNCompleteColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        ) as bar:
            task = bar.add_task(doing, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def _line(text: str, file: TextIO | None = None) -> None:
    print(text, file=file or sys.stdout)


def _write_array(items: Iterable[Mapping[str, Any]]) -> None:
    """A JSON array, element by element: an answer may be larger than memory."""
    count = 0
    for count, item in enumerate(items, start=1):
        sys.stdout.write("[\n" if count == 1 else ",\n")
        sys.stdout.write("  " + dumps(item))
    sys.stdout.write("\n]\n" if count else "[]\n")
