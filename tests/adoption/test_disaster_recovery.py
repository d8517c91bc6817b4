"""The runbook, executed: docs/disaster-recovery.md, section by section, in every case."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltasql
from tests.adoption.logs import commit_file
from tests.adoption.runbook import Operator, sections
from tests.parts.postgres import PostgresServer
from tests.parts.seaweedfs import SeaweedFs

PAGE = "disaster-recovery.md"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def settings(postgres_url: str) -> dict[str, str]:
    return {"url": postgres_url}


@pytest.fixture
def operator(
    postgres_server: PostgresServer, settings: dict[str, str], tmp_path: Path, monkeypatch: Any
) -> Iterator[Operator]:
    found = Operator(PAGE, tmp_path, settings, postgres_server)
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
    source = Path(__file__).read_text()
    assert [title for title in sections(PAGE) if f'"{title}"' not in source] == []
