"""Tables of every form are taken in as they are, and read as others read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from deltasql.log.replay import Replay
from deltasql.spec import codec
from tests.adoption.forms import FORMS, NOT_BY_DELTA_RS, REFUSED
from tests.adoption.test_conformance import contents
from tests.sizes import each_value

DATABASES = ("sqlite", "duckdb", "postgres")


def _rows(found: pa.Table | list[dict[str, Any]]) -> list[str]:
    rows = found.to_pylist() if isinstance(found, pa.Table) else found
    return sorted(repr(sorted((key, _value(item)) for key, item in row.items())) for row in rows)


def _value(value: Any) -> Any:
    """Whichever class a zone has."""
    return value.isoformat() if hasattr(value, "isoformat") else value


@pytest.fixture
def made(tmp_path: Path, name: str) -> tuple[Path, Any]:
    root = tmp_path / "others" / "table"
    root.parent.mkdir()
    return root, FORMS[name](root)


@pytest.mark.parametrize(
    ("name", "store_url"),
    [
        pytest.param(*case, marks=[pytest.mark.postgres] * (case[1] == "postgres"))
        for case in each_value(tuple(FORMS), DATABASES)
    ],
    indirect=["store_url"],
)
def test_adopts_as_expected(name: str, made: tuple[Path, Any], any_lake: Any) -> None:
    root, versions = made
    before = contents(root)
    table = any_lake.adopt(str(root), name="t", allow=[str(root.parent / "else where")])
    for version, expected in versions.items():
        found = table.snapshot(version=version).scan().to_arrow()
        assert _rows(found) == _rows(expected), version
        counted = table.snapshot(version=version).scan(columns=[]).to_arrow()
        assert counted.num_rows == len(expected)
    after = contents(root)
    assert {path: after.get(path) for path in before} == before, "nothing that was there changes"
    assert table.read_only is None
    assert table.version == max(versions) + 1
    assert any_lake.check("t").ok
    assert table.mirror.validate().ok
    # A bound that is wrong, or was lost, would hide rows.
    newest = table.snapshot(version=max(versions))
    for column in newest.schema.names:
        whole = newest.scan().to_arrow()
        kept = newest.scan(where=f"`{column}` IS NOT NULL").to_arrow()
        assert kept.num_rows == whole.num_rows - whole.column(column).null_count


@pytest.mark.parametrize("name", sorted(FORMS.keys() - NOT_BY_DELTA_RS))
def test_delta_rs_reads_the_same(made: tuple[Path, Any], name: str) -> None:
    """What a form says of itself is true."""
    root, versions = made
    for version, expected in versions.items():
        table = DeltaTable(root, version=version)
        found = pa.table(QueryBuilder().register("t", table).execute("select * from t"))
        assert _rows(found) == _rows(expected), version


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_expected(name: str, tmp_path: Path, lake: Any) -> None:
    make, why = REFUSED[name]
    root = tmp_path / "table"
    make(root)
    before = contents(root)
    with pytest.raises(why):
        lake.adopt(str(root), name="t")
    assert contents(root) == before
    assert lake.tables() == []
    assert lake.store.staged_tables() == []


@pytest.mark.parametrize("name", FORMS)
def test_commits_decode_and_encode_to_the_same_data(made: tuple[Path, Any]) -> None:
    root, _ = made
    replay, paths = Replay(), sorted((root / "_delta_log").glob("*[0-9].json"))
    for path in paths:
        if len(path.name) != 25:
            continue
        actions = codec.decode_commit(path.read_bytes(), source=path.name)
        replay.apply(int(path.stem), actions)
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
        for line in lines:
            again = json.loads(codec.encode(codec.decode(line)))
            assert _present(again) == _present(json.loads(line)), path.name


def _present(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _present(item) for key, item in value.items() if item is not None}
    return value
