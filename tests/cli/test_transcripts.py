"""Every command that shows something, on terminals of 80 and of 130 columns: a file for each.

DELTASQL_SNAPSHOTS=write makes them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import typer.main

import deltasql
from deltasql.cli.main import app, run

FOLDER = Path(__file__).with_name("snapshots")
LONG = "crm.people_with_a_rather_long_name_of_a_table"
COMMANDS = """
tables
tables --all
tables nothing.*
show sales.orders
history sales.orders
files sales.orders
scan sales.orders
audit --since 1d
audit --since 1d --table sales.lines
mirror status
mirror validate
mirror repair sales.orders
mirror repair --all
mirror run --once
mirror cleanup sales.orders
mirror pause sales.lines
mirror resume sales.lines
db migrate
db check
db sessions
config show
vacuum
restore sales.orders --version 1
vacuum sales.orders --delete --retention 0h --no-enforce-retention
optimize sales.orders
expire
expire sales.orders
maintenance queue
adopt old sales.old --dry-run
adopt old sales.old
release sales.old --yes
mirror export sales.lines copy --copy-data
recover --dry-run
alter add-column sales.lines note string
drop sales.lines --yes
undrop sales.lines
show sales.ordres
scan sales.orders --where x<
scan sales.orders --limit ten
scan sales.orders --limit -1
tables --output xml
audit --since yesterday
audit --since 1d --from 2026-11-01
adopt old
alter add-column sales.orders x struct<a:foo>
show nope
vacuum sales.orders --retention 0h
mirror repair
frob
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(monkeypatch) -> Iterator[Path]:
    """A folder whose name is as long on every machine: what is drawn depends on it."""
    place = Path("/tmp") / f"deltasql-{uuid.uuid4().hex[:8]}"
    place.mkdir()
    monkeypatch.chdir(place)
    for name in list(os.environ):
        if name.startswith("DELTASQL_") and name != "DELTASQL_SNAPSHOTS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("DELTASQL_COMMITTER", "ada@notebook")
    yield place
    shutil.rmtree(place)


def shown(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The command, what it shows, and how it ends; bars belong to stderr, which is none here."""
    terminal, notes = Terminal(), io.StringIO()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        patched.setattr(sys, "stderr", notes)
        code = run(arguments)
    text = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()) + notes.getvalue()
    lines = [line.rstrip() for line in text.splitlines()]
    ended = f"[exit {code}]\n" if code else ""
    return f"$ deltasql {' '.join(arguments)}\n" + "\n".join(lines).strip("\n") + f"\n{ended}\n"


def steady(text: str, folder: Path) -> str:
    """Without what differs from run to run, in as many characters."""
    text = text.replace(str(folder), "/data/lakes-of-my-team")
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{3}Z", "12:00:00.000Z", text)
    # Not those of the rows.
    text = re.sub(r"\d{4}-\d\d-\d\d(?<!2026-11-01)(?<!2026-11-02)", "2026-11-16", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                  "01234567-89ab-cdef-0123-456789abcdef", text)  # fmt: skip
    return re.sub(r"retention of [\d:.]+", "retention of …", text)


@pytest.mark.parametrize("width", [80, 130])
def test_a_terminal_shows(folder, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = shown(["init", "sqlite:///lake.db", "--location", "./lake"], monkeypatch)
    with deltasql.connect() as lake:
        orders = lake.create_table(
            "sales.orders",
            pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())]),
            partition_by=["day"],
        )
        orders.append(pa.table({"id": [1, 2], "day": ["2026-11-01"] * 2, "amount": [9.5, 120.0]}))
        orders.append(pa.table({"id": [3], "day": ["2026-11-02"], "amount": [40.0]}))
        orders.delete("id = 1")
        lines = lake.create_table("sales.lines", "order_id BIGINT, item STRING")
        lines.append([{"order_id": 1, "item": "lamp"}])
        lake.create_table(LONG, "id BIGINT, email STRING")
        lake.create_table("old.gone", "id BIGINT")
        lake.drop_table("old.gone")
    deltalake.write_deltalake("old", pa.table({"id": [1, 2]}))
    for line in COMMANDS.strip().splitlines():
        text += shown(line.split(), monkeypatch)
    text = steady(text, folder)
    file = FOLDER / f"transcript-{width}.txt"
    if os.environ.get("DELTASQL_SNAPSHOTS") == "write":
        file.write_text(text)
    assert text == file.read_text()
    # Too long only where a name is, or a sentence, which terminals wrap.
    drawn = [
        line
        for line in text.splitlines()
        if re.match(r" +(?!cause|remedy)\S", line) and LONG[4:] not in line
    ]
    assert [line for line in drawn if len(line) > width and "DELTASQL_COMMITTER" not in line] == []


def test_help_fits_and_has_examples(capsys, monkeypatch):
    """No summary is cut off at 80 columns, and every command has an example."""
    monkeypatch.setenv("COLUMNS", "80")

    def helped(*words: str) -> str:
        assert run([*words, "--help"]) == 0
        return capsys.readouterr().out

    def visit(found: Any, *words: str) -> None:
        text = helped(*words)
        assert max(map(len, text.splitlines())) <= 80, words
        below = getattr(found, "commands", {})
        if not below:
            assert "Examples:\n    deltasql " in text, words
            assert "--location URI, --profile NAME" in text, "the shared options, by name"
        for name, child in below.items():
            summary = re.search(rf"^  {name} +(.*)$", text, re.MULTILINE)
            assert summary, f"{words}: {name} is not listed"
            assert not summary[1].endswith("..."), summary[1]
            visit(child, *words, name)

    visit(typer.main.get_command(app))


def test_help_names_the_arguments_as_they_are_typed(capsys):
    for words, usage in {
        ("show",): "Usage: deltasql show [OPTIONS] TABLE",
        ("mirror", "status"): "Usage: deltasql mirror status [OPTIONS] [TABLE]...",
        ("alter", "set"): "Usage: deltasql alter set [OPTIONS] TABLE KEY=VALUE...",
    }.items():
        assert run([*words, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.splitlines()[0] == usage
        assert "<" not in text, "no type of the program's"
