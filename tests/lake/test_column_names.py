"""Columns that files know by their names alone: they keep them as long as the files stay."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


@pytest.fixture
def lake(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        yield lake


def renamed(table, names):
    """The table's metadata with other names for its columns; None for a column that goes."""
    metadata = table.snapshot().metadata
    schema = json.loads(metadata.schema_string)
    for field in schema["fields"]:
        field["name"] = names.get(field["name"], field["name"])
    schema["fields"] = [field for field in schema["fields"] if field["name"] is not None]
    by = tuple(names.get(name, name) for name in metadata.partition_columns)
    return replace(metadata, schema_string=json.dumps(schema), partition_columns=by)


@pytest.mark.parametrize(
    ("by", "names"),
    [([], {"id": "ID"}), ([], {"v": None}), (["v"], {"v": "V"})],
    ids=["case", "drop", "partition case"],
)
def test_they_change_only_without_files(lake, by, names):
    table = lake.create_table("t", ROWS.schema, partition_by=by)
    table.append(ROWS)
    wanted = renamed(table, names)
    with pytest.raises(deltasql.ValidationError, match="does not fit the files"):
        table.commit([wanted])
    with (
        pytest.raises(deltasql.ValidationError, match="does not fit the files"),
        lake.transaction() as tx,
    ):
        tx.table("t").commit([wanted])
    assert table.version == 1
    removes = [deltasql.RemoveFile.of(add, deletion_timestamp=1) for add in table.snapshot().adds()]
    assert table.commit([wanted, *removes]) == 2


def test_mapped_ones_may_change(lake):
    table = lake.create_table("t", ROWS.schema, properties={"delta.columnMapping.mode": "name"})
    table.append(ROWS)
    table.commit([renamed(table, {"id": "ID"})])
    assert sorted(table.scan().to_arrow()["ID"].to_pylist()) == [1, 2]
    table.commit([renamed(table, {"v": None})])
    assert table.scan().to_arrow().column_names == ["ID"]
