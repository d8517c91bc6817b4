"""adopt, recover, release and export, on tables that delta-rs made."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})


@pytest.fixture
def foreign(tmp_path):
    place = tmp_path / "foreign, it's"
    for _ in range(3):
        write_deltalake(str(place), ROWS, mode="append", partition_by=["day"])
    return place


def test_adopt_and_release(program, lake, foreign):
    report = program("adopt", str(foreign), "old.orders", "--dry-run", "-o", "json").json
    assert (report["version"], report["files"], report["read_only"]) == (2, 6, None)
    assert program("tables").rows == []
    assert DeltaTable(str(foreign)).version() == 2

    adopted = program("adopt", f"./{foreign.name}", "old.orders", "-o", "json")
    assert adopted.code == 0, adopted.err
    version = adopted.json["version"]
    table = lake.table("old.orders")
    assert table.version == version
    assert table.scan().to_arrow().num_rows == 6
    table.append(ROWS)
    assert program("mirror", "validate", "old.orders").code == 0

    again = program("adopt", str(foreign), "old.orders")
    assert again.code == 1
    assert "error: " in again.err

    released = program("release", "old.orders", "--yes", "-o", "json").json
    assert released["version"] > version
    write_deltalake(str(foreign), ROWS, mode="append")
    assert DeltaTable(str(foreign)).to_pyarrow_table().num_rows == 10


def test_release_asks_and_nobody_answers_in_a_pipe(program, orders):
    refused = program("release", "sales.orders")
    assert refused.code == 1
    assert "pass --yes" in refused.err
    assert "interrupted" not in refused.err
    assert orders.read_only is None


def test_export(program, orders):
    report = program("mirror", "export", "sales.orders", "./copy", "--copy-data", "-o", "json").json
    assert report["versions"] == 3
    assert DeltaTable(str(program.folder / "copy")).to_pyarrow_table().num_rows == 3


def test_adopt_what_is_no_table(program, lake):
    failed = program("adopt", "./nothing", "x")
    assert failed.code == 1
    assert "Traceback" not in failed.err
    assert len(failed.err.splitlines()) <= 3


def test_recover(program, lake, tmp_path):
    for name in ("sales/orders", "sales/lines"):
        write_deltalake(str(tmp_path / "lake" / name), ROWS)
    (tmp_path / "lake" / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "broken" / "_delta_log" / f"{0:020}.json").write_text("{")

    planned = program("recover", "--dry-run", "-o", "json")
    assert planned.code == 1
    assert {item["table"]: item["status"] for item in planned.json} == {
        "broken": "failed",
        "sales.lines": "found",
        "sales.orders": "found",
    }
    assert lake.tables() == []

    done = program("recover", "./lake", "--parallelism", "2")
    assert done.code == 1, done.err
    assert [row[:3] for row in done.rows] == [
        ["broken", "failed", ""],
        ["sales.lines", "adopted", "1"],
        ["sales.orders", "adopted", "1"],
    ]
    assert "00000000000000000000.json" in done.rows[0][3]
    (tmp_path / "lake" / "broken" / "_delta_log" / f"{0:020}.json").unlink()
    (tmp_path / "lake" / "broken" / "_delta_log").rmdir()
    again = program("recover", "./lake")
    assert (again.code, [row[1] for row in again.rows]) == (0, ["present", "present"])
    assert lake.table("sales.orders").scan().to_arrow().num_rows == 2


def test_recover_elsewhere_shows_the_tables_and_asks(program, lake, tmp_path):
    """Tables of others would be locked. A script is not asked."""
    for name in ("orders", "lines"):
        write_deltalake(str(tmp_path / "old" / name), ROWS)
    asked = program.on_terminal("recover", "./old", typed="n\n")
    assert asked.code == 1
    assert "Adopt these 2 tables" in asked.out
    assert lake.tables() == []
    assert DeltaTable(str(tmp_path / "old" / "orders")).version() == 0
    few = program("recover", "./old", "--limit", "1")
    assert few.code == 1
    assert "--limit 2" in few.err
    agreed = program.on_terminal("recover", "./old", "--no-fence", typed="y\n")
    assert agreed.code == 0, agreed.out
    assert [table.name for table in lake.tables()] == ["lines", "orders"]
    write_deltalake(str(tmp_path / "older" / "items"), ROWS)
    assert program("recover", "./older").code == 0
    assert [table.name for table in lake.tables()] == ["items", "lines", "orders"]


def test_recover_refuses_a_whole_disk(program, lake):
    refused = program("recover", "/", "--yes")
    assert refused.code == 1
    assert "--anywhere" in refused.err


def test_recover_where_nothing_is(program, lake):
    failed = program("recover", "./nothing")
    assert failed.code == 1
    assert "there is no Delta table below" in failed.err


def test_adopt_what_lacks_commits(program, lake, tmp_path):
    """A dropped table whose last commits are in SQL alone."""
    place = tmp_path / "late"
    table = lake.create_table("t", ROWS.schema, location=place)
    table.mirror.pause()
    table.append(ROWS)
    lake.drop_table("t")
    refused = program("adopt", str(place), "t")
    assert refused.code == 1
    assert "would be lost" in refused.err
    assert program("adopt", str(place), "t", "--unmirrored", "keep").code == 1
    adopted = program("adopt", str(place), "t", "--unmirrored", "write", "-o", "json")
    assert adopted.code == 0, adopted.err
    assert lake.table("t").scan().to_arrow().num_rows == 2


def test_abandon_an_adoption(program, lake, foreign):
    lake.store.stage_table("old.orders", foreign.as_uri())
    given_up = program("adopt", str(foreign), "--abandon", "-o", "json")
    assert given_up.code == 0, given_up.err
    assert (given_up.json["table"], given_up.json["is_fenced"]) == ("old.orders", False)
    assert lake.store.staged_tables() == []
    again = program("adopt", str(foreign), "--abandon")
    assert again.code == 1
    assert "no adoption was begun" in again.err
    assert program("adopt", str(foreign)).code == 2, "a name is needed"
