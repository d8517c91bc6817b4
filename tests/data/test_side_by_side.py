"""Large tables are encoded into several files at once; nothing is lost, doubled or out of place."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltasql
from deltasql.data.writing import lanes
from deltasql.errors import SchemaMismatchError

COUNT = 300_000


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(lanes, "_WORTH_A_THREAD", 1 << 20)
    monkeypatch.setattr(lanes.os, "sched_getaffinity", lambda _: set(range(3)), raising=False)
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("few", pa.string()),
            ("inner", pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_("string", "int64"))])),
        ]
    )
    url = f"sqlite:///{tmp_path / 'lake.db'}"
    with deltasql.connect(url, location=tmp_path.as_uri()) as lake:
        yield lake.create_table("t", schema)


def rows(table, count: int = COUNT) -> pa.Table:
    ids = pa.arange(0, count)
    few = pa.array([f"v{n % 7}" for n in range(count)])
    schema = table.snapshot().schema
    some = [{"l": [n], "m": [("k", 1)]} for n in range(100)]
    inner = pa.array(some * (count // 100), schema.field("inner").type)
    return pa.table([ids, few, inner], schema=schema)


def test_files_have_rows_that_belong_together(table):
    given = rows(table)
    done = table.append(given)
    assert (done.metrics["numFiles"], done.metrics["numOutputRows"]) == (3, COUNT)
    assert table.scan().to_arrow().sort_by("id") == given
    # Each file has a third of the keys.
    assert all(table.snapshot().files(where=f"id = {key}").num_rows == 1 for key in (0, COUNT - 1))
    adds = [a for a in table.changes(1)[0].actions if isinstance(a, deltasql.AddFile)]
    footer = pq.read_metadata(f"{table.location}/{adds[0].path}")
    found = [footer.row_group(0).column(n) for n in range(footer.num_columns)]
    assert [item.has_dictionary_page for item in found] == [False, True, True, True, True]


def test_full_files_end_in_every_lane(table):
    groups = deltasql.WriterProperties(row_group_size=10_000)
    done = table.append(rows(table), writer=groups, target_file_size=200_000)
    assert done.metrics["numFiles"] > 5
    assert table.count() == COUNT
    ids = table.scan(columns=["id"]).to_arrow().column("id")
    assert len(ids.unique()) == COUNT


def test_an_error_in_a_lane_is_told_and_nothing_stays(table, tmp_path):
    given = rows(table)
    bad = pa.array([b"\xff"] * 10 + [b"x"] * (COUNT - 10)).view(pa.string())
    with pytest.raises(SchemaMismatchError, match="UTF-8"):
        table.append(given.set_column(1, "few", bad))
    assert table.version == 0
    assert not list((tmp_path / "t").glob("*.parquet"))
