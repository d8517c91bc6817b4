"""Names and rows that would fool a terminal, a parser or rich: shown, never obeyed."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import unicodedata

import pyarrow as pa
import pytest

NAMES = [
    "it's",
    'say "hi"',
    "[red]x[bold]",
    ":smile:",
    "naïve.日本語.🦆",
    "a b",
    "--output",
    "-o",
    "$(touch pwned)",
    "x'; DROP TABLE dl_tables; --",
    "%s%n{0}",
    "\u009b31mred",  # C1: an escape sequence for some terminals
    "left\u202eright",  # shows in reverse
    "zero\u200bwidth",
    "line\u2028end",
    "[not closed",
]
VALUES = ["\x1b[31mred\x1b[0m", "a\tb\nc\r", "\x07", "[bold]b[/bold]", "\x1b]0;title\x07", "\u202e"]


@pytest.fixture
def named(lake):
    for name in NAMES:
        lake.create_table(name, pa.schema([("[blink]c", pa.string())]))


def test_names_are_shown_and_not_obeyed(program, named):
    found = program("tables", "-o", "json")
    assert {item["table"] for item in found.json} == set(NAMES)
    plain = program("tables")
    assert len(plain.rows) == len(NAMES)
    drawn = program.on_terminal("tables")
    assert drawn.code == 0
    assert "[red]x[bold]" in drawn.out
    for text in (found.out, plain.out, _without_colours(drawn.out)):
        assert not _unsafe(text)


@pytest.mark.parametrize("name", ["[red]x[bold]", "--output", "x'; DROP TABLE dl_tables; --"])
def test_one_of_that_name(program, named, name):
    assert program("show", "-o", "json", "--", name).json["table"] == name
    drawn = program.on_terminal("show", "--", name)
    assert drawn.code == 0
    assert "[blink]c" in drawn.out
    assert not (program.folder / "pwned").exists()


def test_names_that_do_not_exist(program, lake):
    for name in ["\x1b[31mred", "[red]x[/red]", "a\nb", "\u202e", "x" * 5000]:
        failed = program("show", name)
        assert failed.code == 1
        assert not _unsafe(failed.err)
        assert len(failed.err.splitlines()) == 3
    assert not _unsafe(program("\x1b[31mred").err)
    assert not _unsafe(program("tables", "--\x1b[31mred").err)
    assert not _unsafe(program("tables", "--set", "\x1b[31mred=1").err)


@pytest.mark.parametrize("folder", ["x" * 300, "deltasql.toml/x"])
def test_paths_that_the_machine_refuses(program, lake, folder):
    failed = program("demo", "--folder", folder)
    assert failed.code == 1
    assert "unexpected" not in failed.err
    assert len(failed.err.splitlines()) == 3


def test_rows_are_shown_and_not_obeyed(program, lake):
    table = lake.create_table("t", pa.schema([("v", pa.string()), ("b", pa.binary())]))
    table.append(pa.table({"v": VALUES, "b": [b"\x1b[31m"] * len(VALUES)}))
    plain = program("scan", "t")
    assert len(plain.rows) == len(VALUES)
    assert not _unsafe(plain.out)
    found = program("scan", "t", "-o", "json")
    assert [row["v"] for row in found.json] == VALUES
    assert not _unsafe(found.out)
    drawn = program.on_terminal("scan", "t")
    assert "[bold]b[/bold]" in drawn.out
    assert not _unsafe(_without_colours(drawn.out))


def test_values_that_json_can_not_say(program, lake):
    schema = pa.schema(
        [
            ("f", pa.float64()),
            ("d", pa.decimal128(38, 2)),
            ("t", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("l", pa.list_(pa.float64())),
        ]
    )
    table = lake.create_table("t", schema)
    exact = decimal.Decimal("123456789012345678901234567890.12")
    moment = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    row = {"f": float("nan"), "d": exact, "t": moment, "day": moment.date(), "l": [float("inf")]}
    table.append(pa.Table.from_pylist([row, dict.fromkeys(row)], schema=schema))
    first, second = program("scan", "t", "-o", "json").json
    assert first == {
        "f": "nan",
        "d": str(exact),
        "t": "2026-11-01T00:00:00.000Z",
        "day": "2026-11-01",
        "l": ["inf"],
    }
    assert set(second.values()) == {None}


def test_another_encoding_does_not_break_it(program, lake):
    lake.create_table("日本語", pa.schema([("c", pa.string())]))
    done = program.anew("tables", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert "\\u65e5" in done.out


def _unsafe(text: str) -> list[str]:
    """Characters that a terminal would obey or hide, line ends and tabs aside."""
    return [
        character
        for character in text
        if unicodedata.category(character) in {"Cc", "Cs", "Cf", "Zl", "Zp"}
        and character not in "\n\t"
    ]


def _without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)
