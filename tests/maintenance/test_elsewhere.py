"""Files that another table names, however it spells them: vacuum and purge let them be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import write_deltalake

import deltasql
from deltasql.errors import ValidationError
from tests.maintenance.tables import AT_ONCE, SCHEMA, files, folder, ids, live, rows

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "no scheme": str,
    "one slash": lambda path: f"file:{path}",
    "three slashes": lambda path: f"file://{path}",
    "a host": lambda path: f"file://localhost{path}",
    "capitals": lambda path: f"FILE://{path}",
    "encoded": lambda path: f"file://{path.parent}/%70{path.name[1:]}",
    "encoded, no scheme": lambda path: f"{path.parent}/%70{path.name[1:]}",
    "a linked folder": lambda path: f"file://{_link(path.parent)}/{path.name}",
    "a linked folder, no scheme": lambda path: f"{_link(path.parent)}/{path.name}",
}


def _link(target: Path) -> Path:
    link = target.parents[2] / "link"
    link.symlink_to(target)
    return link


def _adopted(lake: deltasql.Lake, place: Path, path: str, size: int) -> deltasql.Table:
    """A table that another writer made, which names a file elsewhere."""
    write_deltalake(place, rows(100))
    add = {
        "path": path, "partitionValues": {}, "size": size, "modificationTime": 1,
        "dataChange": True, "stats": '{"numRecords":1}',
    }  # fmt: skip
    commit = place / "_delta_log" / f"{1:020}.json"
    commit.write_text(
        json.dumps({"commitInfo": {"timestamp": 1}}) + "\n" + json.dumps({"add": add})
    )
    return lake.adopt(str(place), "a.adopted", allow=[str(place.parent)])


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_vacuum_and_purge_spare_what_an_adopted_table_names(
    sqlite_url: str, tmp_path: Path, spelling: str
):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as lake:
        table = lake.create_table("a.t", SCHEMA)
        table.append(rows(1))
        (path,) = (folder(table) / name for name in live(table))
        named = SPELLINGS[spelling](path)
        adopted = _adopted(lake, tmp_path / "adopted", named, path.stat().st_size)
        assert ids(adopted.scan().to_arrow()) == [1, 100]
        table.overwrite(rows(2))
        table.vacuum(**AT_ONCE, dry_run=False)
        assert ids(adopted.scan().to_arrow()) == [1, 100]
        with pytest.raises(ValidationError, match="other tables name 1"):
            lake.drop_table("a.t", purge=True)
        clone = adopted.clone("a.clone")
        assert ids(clone.scan().to_arrow()) == [1, 100], "its clone names the file, too"
        assert ids(table.scan().to_arrow()) == [2]


def test_a_file_outside_is_not_the_tables_own(lake: deltasql.Lake, tmp_path: Path):
    """Neither vacuum nor purge of whoever names a file by / deletes it."""
    outside = tmp_path / "outside.parquet"
    other = lake.create_table("a.t", SCHEMA)
    other.append(rows(1))
    (path,) = files(other)
    outside.write_bytes((folder(other) / path).read_bytes())
    adopted = _adopted(lake, tmp_path / "adopted", str(outside), outside.stat().st_size)
    adopted.append(rows(5))
    adopted.vacuum(**AT_ONCE, dry_run=False)
    assert ids(adopted.scan().to_arrow()) == [1, 5, 100]
    report = lake.drop_table("a.adopted", purge=True)
    assert report.elsewhere == 1
    assert outside.exists()
