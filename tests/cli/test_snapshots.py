"""What a terminal of 80 and of 130 columns shows, as files to look at.

DELTASQL_SNAPSHOTS=write makes them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deltasql.cli.commands import mirror
from deltasql.cli.drawing import draw, draw_findings, draw_record

FOLDER = Path(__file__).with_name("snapshots")
NOON = datetime(2026, 11, 16, 12, 0, 7, 123000, tzinfo=UTC)
LONG = "sales_of_the_northern_subsidiaries.orders_with_all_of_their_lines_and_discounts"
AUDIT = ("table", "version", "timestamp", "operation", "committer", "rows_added", "rows_removed",
         "files_added", "files_removed")  # fmt: skip


def status(table, lag=0, seconds=0.0, error=None):
    return ((table, 7, 7 - lag, lag, seconds, 0, False, bool(error), False, 0, error), None)


TABLES = {
    "status": (mirror._STATUS, [status("sales.orders"), status("sales.lines")]),
    "status-late": (
        mirror._STATUS,
        [
            status("sales.orders", 3, 94.2, "can't write the object '00000000000000000005.json' in "
                   "s3://bucket/lake/sales/orders: the credentials have expired"),
            status(LONG),
        ],
    ),
    "audit": (
        AUDIT,
        [
            (("sales.orders", 6, NOON, "WRITE", "etl", 1_200_000, 0, 12, 0), None),
            (("sales.orders", 7, NOON, "DELETE", "ada@notebook", 0, 1, 1, 1), None),
        ],
    ),
    "tables": (
        ("table", "version", "location", "read_only", "kind"),
        [
            (("sales.orders", 7, "s3://bucket/lake/sales/orders", None, "live"), None),
            (("sales.lines", 0, "s3://bucket/lake/sales/lines", None, "live"), None),
        ],
    ),
}  # fmt: skip
DOCTOR = [
    ("database", "ok", "postgresql://me@db/lake: postgresql 16.4", "", None),
    ("worker", "note", "none is running: checkpoints and upkeep wait for writers",
     "run deltasql mirror run as a service", "yellow"),
    ("drift", "problem", "sales.orders: version 5 missing",
     "deltasql mirror validate sales.orders, then deltasql mirror repair sales.orders", "red"),
]  # fmt: skip
RECORD = {
    "table": "sales.orders",
    "kind": "live",
    "location": "s3://bucket/lake/sales/orders",
    "read_only": None,
    "version": 7,
    "timestamp": NOON,
    "partitioned_by": ["day"],
    "rows": "1,200,000",
    "files": "12",
    "bytes": "38.2 MB",
    "old_files": "3",
    "old_bytes": "9.1 MB",
    "property delta.enableInCommitTimestamps": "true",
}


def shown(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    if name == "show":
        draw_record(RECORD)
    elif name == "doctor":
        draw_findings(DOCTOR)
    else:
        draw(*TABLES[name], title="")
    lines = capsys.readouterr().out.splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


@pytest.mark.parametrize("width", [80, 130])
@pytest.mark.parametrize("name", [*TABLES, "show", "doctor"])
def test_a_terminal_shows(name, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    text = shown(name, capsys)
    file = FOLDER / f"{name}-{width}.txt"
    if os.environ.get("DELTASQL_SNAPSHOTS") == "write":
        file.write_text(text)
    assert text == file.read_text()
    if LONG not in text:
        assert max(map(len, text.splitlines())) <= width


def test_names_are_never_split(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert LONG in shown("status-late", capsys)


def test_what_tells_nothing_folds_away(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    heading = shown("status", capsys).split("─")[0]
    assert "mirrored version" in " ".join(heading.split())
    assert "paused" not in heading
    assert "lag" not in heading
