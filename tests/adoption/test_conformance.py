"""Every table of the conformance set adopts as it should, or is refused as it should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import deltasql
from deltasql.errors import LogFormatError, UnsupportedFeatureError
from deltasql.spec import codec
from tests.conformance.tables import BAD, GOOD, ROOT, TABLES, needed

# Every kind of log: deletion vectors, column mapping, checkpoints of each kind, truncated logs.
SAMPLE = [
    name
    for name in GOOD
    if any(
        word in name
        for word in (
            "no_replay",
            "domain-metadata",
            "dv-with-columnmapping",
            "multi-part",
            "compacted",
            "row_type",
            "cdc_ict",
        )
    )
]

pytestmark = needed


def compare(table: deltasql.Table, name: str, *, rows: bool = True) -> None:
    """Every listed version, with files, schema, protocol, txns, domains and rows."""
    about = TABLES[name]
    for version, wanted in about["versions"].items():
        snapshot = table.snapshot(version=int(version))
        where = f"{name}@{version}"
        found = {_key(add): add for add in map(codec.wire_fields, snapshot.adds())}
        expected = {_key(add): add for add in (about["adds"][i] for i in wanted["active"])}
        assert {key: _plain(add, like=expected.get(key, {})) for key, add in found.items()} == {
            key: _plain(add, like={}) for key, add in expected.items()
        }, where
        assert codec.loads(codec.dumps(codec.wire_fields(snapshot.protocol))) == wanted["protocol"]
        assert snapshot.metadata.schema_string == about["schemas"][wanted["schema"]], where
        meta = codec.loads(codec.dumps(codec.wire_fields(snapshot.metadata)))
        assert {key: meta[key] for key in wanted["meta"]} == wanted["meta"], where
        assert snapshot.txns == wanted["txns"], where
        assert snapshot.domains == wanted["domains"], where
        if rows and not about["log_only"] and wanted.get("rows") is not None:
            _count_rows(snapshot, wanted["rows"], where)


def _count_rows(snapshot: Any, rows: int, where: str) -> None:
    if "variant" in snapshot.metadata.schema_string:
        with pytest.raises(UnsupportedFeatureError, match="variant"):
            snapshot.scan().to_arrow()
        return
    assert snapshot.scan().to_arrow().num_rows == rows, where


def _key(add: dict[str, Any]) -> tuple[Any, ...]:
    vector = add.get("deletionVector") or {}
    return add["path"], vector.get("pathOrInlineDv"), vector.get("offset")


def _plain(add: dict[str, Any], *, like: dict[str, Any]) -> dict[str, Any]:
    """Without what checkpoints leave out; stats that are typed only were put into words."""
    left_out = {"dataChange", "stats_parsed_only"}
    if like.get("stats_parsed_only"):
        assert json.loads(add["stats"])["numRecords"] >= 0
        left_out.add("stats")
    return {key: item for key, item in add.items() if key not in left_out and item is not None}


@pytest.mark.parametrize("name", GOOD)
def test_adopts_as_expected(name: str, copied: Any, lake: Any) -> None:
    root = copied(ROOT / "tables" / name)
    before = contents(root)
    table = lake.adopt(str(root), name="t")
    compare(table, name)
    after = contents(root)
    assert {path: after.get(path) for path in before} == before, "nothing that was there changes"
    newest = max(map(int, TABLES[name]["versions"]))
    commits = [path for path in after if path not in before and path.endswith(".json")]
    if table.read_only is None:
        assert commits == [f"_delta_log/{newest + 1:020d}.json"]
        assert table.version == newest + 1
    else:
        assert commits == []
    assert table.mirror.validate().ok
    assert lake.check("t").ok


@pytest.mark.parametrize("name", SAMPLE)
def test_adopts_into_every_database(name: str, copied: Any, any_lake: Any) -> None:
    table = any_lake.adopt(str(copied(ROOT / "tables" / name)), name="t")
    compare(table, name, rows=False)


@pytest.mark.parametrize("name", BAD)
def test_refused_as_expected(name: str, copied: Any, lake: Any) -> None:
    root = copied(ROOT / "tables" / name)
    before = contents(root)
    unsupported = TABLES[name]["mark"] == "unsupported"
    with pytest.raises(UnsupportedFeatureError if unsupported else LogFormatError) as caught:
        lake.adopt(str(root), name="t")
    if unsupported:
        assert caught.value.features
    assert contents(root) == before
    assert lake.tables() == []
    assert lake.store.staged_tables() == []


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a table but locks."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }
