"""The runbook, executed: docs/disaster-recovery.md, section by section, in every case."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from deltasql.config import variable_of
from tests.adoption.logs import commit_file
from tests.parts.postgres import PostgresServer
from tests.parts.seaweedfs import SeaweedFs

RUNBOOK = (Path(__file__).parents[2] / "docs" / "disaster-recovery.md").read_text()
SECTIONS = {
    title.strip(): re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL)
    for title, _, text in (part.partition("\n") for part in RUNBOOK.split("\n## ")[1:])
}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class Operator:
    """Somebody who types what the runbook says."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], server: PostgresServer | None = None
    ) -> None:
        self.folder = folder
        self.root = folder / "lake"
        self.names: dict[str, Any] = {}
        self.settings = {"location": self.root.as_uri(), **settings}
        programs = [Path(sys.executable).parent, *([] if server is None else [server._binaries()])]
        path = ":".join([*map(str, programs), os.environ["PATH"]])
        self.environment = {variable_of(key): value for key, value in self.settings.items()}
        self._environment = {**os.environ, **self.environment, "PATH": path}

    def follow(self, title: str, *only: int) -> None:
        """Do what a section says, or some of its blocks."""
        blocks = SECTIONS[title]
        for number in only or range(len(blocks)):
            kind, text = blocks[number]
            if kind == "sh":
                subprocess.run(
                    ["bash", "-euc", text], cwd=self.folder, env=self._environment, check=True
                )
            else:
                exec(compile(text, title, "exec"), self.names)

    def lake(self, **settings: str) -> deltasql.Lake:
        mirror = {f"mirror.{key}": value for key, value in settings.items()}
        return deltasql.connect(settings={**self.settings, **mirror})

    def ids(self, name: str = "sales.orders") -> list[int]:
        table = self.names["lake"].table(name)
        return sorted(table.scan().to_arrow().column("id").to_pylist())


@pytest.fixture
def settings(postgres_url: str) -> dict[str, str]:
    return {"url": postgres_url}


@pytest.fixture
def operator(
    postgres_server: PostgresServer, settings: dict[str, str], tmp_path: Path, monkeypatch: Any
) -> Iterator[Operator]:
    found = Operator(tmp_path, settings, postgres_server)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    with found.lake() as lake:
        table = lake.create_table("sales.orders", rows().schema)
        for number in range(3):
            table.append(rows(number))
        lake.create_table("other", rows().schema).append(rows(1))
        lake.mirror.run(once=True)
    found.follow("Before: dump")
    yield found
    if "lake" in found.names:
        found.names["lake"].close()


def append(operator: Operator, *ids: int, **settings: str) -> None:
    with operator.lake(**settings) as lake:
        for number in ids:
            lake.table("sales.orders").append(rows(number))


def test_the_same(operator: Operator) -> None:
    operator.follow("Restore")
    assert all(report.ok for report in operator.names["reports"].values())
    operator.follow("After")
    assert operator.ids() == [0, 1, 2]


def test_ahead(operator: Operator) -> None:
    append(operator, 10, 11)
    operator.follow("Restore")
    assert operator.names["reports"]["sales.orders"].foreign_versions == [4, 5]
    with pytest.raises(deltasql.MirrorError, match="ahead"):
        operator.names["lake"].table("sales.orders").append(rows(12))
    operator.follow("Ahead")
    operator.follow("After")
    assert operator.ids() == [0, 1, 2, 10, 11]
    assert operator.names["lake"].table("sales.orders").append(rows(12)) == 6


def test_behind(operator: Operator) -> None:
    copy = operator.folder / "copy"
    shutil.copytree(operator.root, copy)
    append(operator, 10, 11)
    operator.follow("Before: dump")
    shutil.rmtree(operator.root / "sales" / "orders" / "_delta_log")
    shutil.copytree(
        copy / "sales" / "orders" / "_delta_log", operator.root / "sales" / "orders" / "_delta_log"
    )
    operator.follow("Restore")
    operator.follow("Behind")
    operator.follow("After")
    assert operator.ids() == [0, 1, 2, 10, 11]
    assert commit_file(operator.root / "sales" / "orders", 5).exists()


@pytest.fixture
def diverged(operator: Operator) -> Operator:
    append(operator, 10, 11)
    operator.follow("Restore", 0)
    append(operator, 77, mode="off")
    operator.follow("Restore", 1)
    assert operator.names["reports"]["sales.orders"].digest_mismatches == [4]
    return operator


def test_diverged_and_sql_is_right(diverged: Operator) -> None:
    diverged.follow("Diverged", 0)
    diverged.follow("After")
    assert diverged.ids() == [0, 1, 2, 77]


def test_diverged_and_the_mirror_is_right(diverged: Operator) -> None:
    diverged.follow("Diverged", 1)
    diverged.follow("After")
    assert diverged.ids() == [0, 1, 2, 10, 11]


class TestNoDumpAtAll:
    @pytest.fixture(params=["local", "s3"])
    def settings(self, settings: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
        if request.param == "local":
            return settings
        bucket: SeaweedFs = request.getfixturevalue("seaweedfs")
        return {**settings, **bucket.options(), "location": bucket.location(str(uuid.uuid4()))}

    def test_every_table_comes_back(
        self, operator: Operator, postgres_server: PostgresServer, postgres_dbname: str
    ) -> None:
        append(operator, 10)
        postgres_server.drop_database(postgres_dbname)
        postgres_server.create_database(postgres_dbname)
        operator.follow("No dump at all")
        operator.follow("After")
        assert [table.name for table in operator.names["lake"].tables()] == [
            "other",
            "sales.orders",
        ]
        assert operator.ids() == [0, 1, 2, 10]
        assert operator.ids("other") == [1]
        assert operator.names["lake"].table("sales.orders").append(rows(20)) == 5


def test_every_section_is_executed() -> None:
    followed: set[str] = set()
    source = Path(__file__).read_text()
    for title in SECTIONS:
        if f'"{title}"' in source:
            followed.add(title)
    assert followed == set(SECTIONS)
