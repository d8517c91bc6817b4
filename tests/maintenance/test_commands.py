"""The commands of upkeep: words for the facade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import deltasql
from deltasql.cli.main import run
from tests.maintenance.tables import churned, files, ids, live, rows


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    url, location = f"sqlite:///{tmp_path / 'lake.db'}", str(tmp_path / "lake")
    with deltasql.connect(url, location=location) as lake:
        churned(lake)
    return ["--url", url, "--location", location, "--output", "json"]


def ask(capsys: pytest.CaptureFixture[str], place: list[str], *words: str, code: int = 0) -> Any:
    assert run([*place, *words]) == code
    told = capsys.readouterr()
    return json.loads(told.out) if told.out else told.err


def opened(place: list[str]) -> deltasql.Lake:
    return deltasql.connect(place[1], location=place[3])


def test_vacuum(place: list[str], capsys: pytest.CaptureFixture[str]):
    assert ask(capsys, place, "vacuum", "a.t")["dead"] == 0
    short = ["--retention", "0 hours"]
    assert "--no-enforce-retention" in ask(capsys, place, "vacuum", "a.t", *short, code=1)
    short.append("--no-enforce-retention")
    (told,) = ask(capsys, place, "vacuum", *short)
    assert (told["dead"], told["dry_run"]) == (2, True)
    told = ask(capsys, place, "vacuum", "a.t", *short, "--delete")
    assert (told["dead"], told["dry_run"]) == (2, False)
    with opened(place) as lake:
        assert files(lake.table("a.t")) == live(lake.table("a.t"))


def test_optimize(place: list[str], capsys: pytest.CaptureFixture[str]):
    with opened(place) as lake:
        lake.table("a.t").append(rows(8))
    told = ask(capsys, place, "optimize", "a.t")
    assert (told["metrics"]["numRemovedFiles"], told["metrics"]["numAddedFiles"]) == (2, 1)
    assert ask(capsys, place, "optimize", "a.t", "--purge")["versions"] == []
    assert ask(capsys, place, "optimize", "a.t", "--zorder-by", "id")["skipped"] == 0
    assert "target_size" in ask(capsys, place, "optimize", "a.t", "--target-size", "x", code=1)


def test_expire(place: list[str], capsys: pytest.CaptureFixture[str]):
    with opened(place) as lake:
        table = lake.table("a.t")
        table.set_properties({"delta.checkpointInterval": "2"})
        for number in range(5, 8):
            table.append(rows(number))
        lake.mirror.run(once=True)
    assert ask(capsys, place, "expire", "a.t")["reason"] == "no version is that old"
    short = ["--retention", "0 hours", "--no-enforce-retention"]
    (told,) = ask(capsys, place, "expire", *short)
    assert (told["versions"], told["dry_run"]) == (6, True)
    told = ask(capsys, place, "expire", "a.t", *short, "--delete")
    assert (told["versions"], told["kept_from"], told["dry_run"]) == (6, 6, False)
    with opened(place) as lake:
        assert [entry.version for entry in lake.table("a.t").history()] == [7, 6]


def test_restore(place: list[str], capsys: pytest.CaptureFixture[str]):
    told = ask(capsys, place, "restore", "a.t", "--version", "1")
    assert (told["version"], told["restored_version"]) == (4, 1)
    with opened(place) as lake:
        assert ids(lake.table("a.t").scan().to_arrow()) == [0]
        when = lake.table("a.t").snapshot(version=3).timestamp.isoformat()
    assert ask(capsys, place, "restore", "a.t", "--timestamp", when)["restored_version"] == 3
    assert "needs a version or a timestamp" in ask(capsys, place, "restore", "a.t", code=1)


def test_alter(place: list[str], capsys: pytest.CaptureFixture[str]):
    for number, words in enumerate(
        [
            [
                "add-column",
                "a.t",
                "price",
                "decimal(10,2)",
                "--comment",
                "euro",
                "--after",
                "id",
            ],
            ["comment", "a.t", "sales"],
            ["comment", "a.t", "the day", "--column", "day"],
            ["set", "a.t", "owner=me", "delta.columnMapping.mode=name"],
            ["unset", "a.t", "owner"],
            ["rename-column", "a.t", "day", "date"],
            ["reorder", "a.t", "date"],
            ["add-constraint", "a.t", "positive", "id >= 0"],
            ["drop-constraint", "a.t", "positive"],
            ["drop-column", "a.t", "price"],
            ["enable-feature", "a.t", "deletionVectors"],
            ["set-nullable", "a.t", "id"],
        ],
        start=4,
    ):
        version = ask(capsys, place, "alter", *words)["version"]
        assert version == min(number, 14), words
    assert "KEY=VALUE" in ask(capsys, place, "alter", "set", "a.t", "owner", code=1)
    assert "does not widen" in ask(
        capsys, place, "alter", "widen-type", "a.t", "id", "int", "--enable-type-widening", code=1
    )
    with opened(place) as lake:
        assert lake.table("a.t").snapshot().schema.names == ["date", "id"]


def test_sessions(place: list[str], capsys: pytest.CaptureFixture[str]):
    assert ask(capsys, place, "db", "sessions") == []
    with opened(place) as lake:
        table = lake.table("a.t")
        table.overwrite(table.scan().to_arrow())
        with table.pin(version=1):
            (told,) = ask(capsys, place, "db", "sessions")
    assert told["committer"] == lake.committer
    assert told["holds"] == "a.t at 1"
    assert told["alive"] is True
