"""Files outside of a table's folder are read only where somebody allowed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.errors import LogFormatError, ValidationError
from tests.adoption.forms.writing import Log, added, ids, metadata, protocol

IDS = ids(1).schema


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, Path]:
    """A log that names a file of another folder, and that folder."""
    log = Log(tmp_path / "table", protocol(), metadata(IDS))
    source = tmp_path / "the source"
    for day in ("1", "2"):
        file = source / f"day={day}" / "a.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(ids(1), file)
        log.commit(added(file.as_uri(), file, 1))
    return log.root, source


def test_outside_is_refused_and_what_to_allow_is_said(clone, any_lake: Any) -> None:
    root, source = clone
    for dry_run in (True, False):
        with pytest.raises(ValidationError, match="outside its own folder") as caught:
            any_lake.adopt(str(root), "t", dry_run=dry_run)
        assert f"allow=[{source.as_uri()!r}]" in caught.value.remedy
    assert any_lake.tables() == []
    assert any_lake.store.staged_tables() == []
    assert len(list((root / "_delta_log").glob("*.json"))) == 3, "no fence either"


def test_what_is_allowed_is_kept_and_shown(clone, any_lake: Any) -> None:
    root, source = clone
    assert any_lake.adopt(str(root), "t", dry_run=True, allow=[str(source)]).files == 2
    table = any_lake.adopt(str(root), "t", allow=[source.as_uri()])
    assert table.scan().to_arrow().num_rows == 2
    assert table.sources == (f"file:{source}/",)
    assert table.detail()["sources"] == list(table.sources)
    # As if it had never been allowed: the paths are in the log, and lead nowhere.
    any_lake.store.allow_sources(table.table_id, [], instead=True)
    with (
        deltasql.connect(any_lake.opening["url"], location=any_lake.location) as again,
        pytest.raises(ValidationError, match="outside"),
    ):
        again.table("t").scan().to_arrow()
    table.allow([str(source)])
    assert table.scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("allow", [[""], ["/"], ["s3://bucket/x"], "text", [7]])
def test_what_can_not_be_allowed(clone, lake: Any, allow: Any) -> None:
    with pytest.raises(ValidationError):
        lake.adopt(str(clone[0]), "t", allow=allow)


@pytest.mark.parametrize("path", ["s3://bucket/x.parquet", "az://c/x", "memory:///x"])
def test_another_kind_of_store_is_refused_whatever_is_allowed(
    tmp_path: Path, lake: Any, path: str
) -> None:
    log = Log(tmp_path / "table", protocol(), metadata(IDS))
    (tmp_path / "a").write_bytes(b"x")
    log.commit(added(path, tmp_path / "a", 1))
    with pytest.raises(LogFormatError, match="another kind of store"):
        lake.adopt(str(log.root), "t", allow=[str(tmp_path / "x")])


@pytest.mark.parametrize("path", ["../x.parquet", "a/../../x", "%2e%2e/x", "file:///a/../etc/x"])
def test_paths_that_climb_are_refused_at_adoption(tmp_path: Path, lake: Any, path: str) -> None:
    log = Log(tmp_path / "table", protocol(), metadata(IDS))
    (tmp_path / "a").write_bytes(b"x")
    log.commit(added(path, tmp_path / "a", 1))
    with pytest.raises(LogFormatError, match="dots"):
        lake.adopt(str(log.root), "t", allow=[str(tmp_path)])


def test_clones_know_their_source(any_lake: Any, tmp_path: Path) -> None:
    table = any_lake.create_table("a", IDS)
    table.append(ids(1, 2))
    copy = table.clone("b").clone("c")
    assert copy.scan().to_arrow().num_rows == 2
    assert any(source.endswith("/lake/a/") for source in copy.sources)
    with pytest.raises(ValidationError, match="another kind"):
        table.clone("d", location="memory:///d")


def test_a_commit_adds_nothing_from_elsewhere(any_lake: Any, tmp_path: Path) -> None:
    table = any_lake.create_table("a", IDS)
    file = tmp_path / "x.parquet"
    pq.write_table(ids(1), file)
    with pytest.raises(ValidationError, match="allow"):
        table.commit([added(file.as_uri(), file, 1)])
    table.allow([str(tmp_path)])
    table.commit([added(file.as_uri(), file, 1)])
    assert table.scan().to_arrow().num_rows == 1
