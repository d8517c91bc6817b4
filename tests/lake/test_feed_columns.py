"""The names that the change data feed has for its own columns."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql

FEED = {"delta.enableChangeDataFeed": "true"}
PLAIN = pa.schema([("id", pa.int64())])


@pytest.fixture
def lake(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        yield lake


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_no_column_takes_them(lake, name):
    taken = pa.schema([("id", pa.int64()), (name, pa.string())])
    refused = pytest.raises(deltasql.ValidationError, match="change data feed")
    with refused:
        lake.create_table("made", taken, properties=FEED)
    late = lake.create_table("late", taken)
    metadata = late.snapshot().metadata
    with refused:
        late.commit([replace(metadata, configuration={**metadata.configuration, **FEED})])
    grown = lake.create_table("grown", PLAIN, properties=FEED)
    metadata = grown.snapshot().metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"].append({"name": name, "type": "string", "nullable": True, "metadata": {}})
    with refused:
        grown.commit([replace(metadata, schema_string=json.dumps(schema))])
    assert (late.version, grown.version) == (0, 0)
    with refused:
        grown.append(pa.table({"id": [1], name: ["x"]}), schema_mode="merge")


def test_inside_a_column_they_are_names_as_any(lake):
    inner = pa.schema([("at", pa.struct([("_commit_version", pa.int64())]))])
    assert lake.create_table("t", inner, properties=FEED).version == 0


LETTERS = {"id": [1, 2], "v": ["a", "b"]}


def test_versions_around_another_schema_are_read_apart(lake):
    t = lake.create_table("t", data=pa.table(LETTERS), properties=FEED)
    t.delete("id = 1")
    t.overwrite(pa.table({"id": ["x"]}), schema_mode="overwrite")
    t.append(pa.table({"id": ["y"]}))
    with pytest.raises(deltasql.ValidationError, match="no schema in common") as caught:
        t.change_rows(0)
    assert caught.value.cause == (
        "version 2 replaced the schema: of the column id, int64 can't be cast to string"
    )
    assert "those from 0 to 1 and those from 3 to 3" in caught.value.remedy
    assert "snapshot(version=1)" in caught.value.remedy
    assert t.change_rows(0, 1).read_all().column("id").to_pylist() == [1, 2, 1]
    assert t.change_rows(3, 3).read_all().column("id").to_pylist() == ["y"]
    with pytest.raises(deltasql.ValidationError, match="no schema in common"):
        t.change_rows(2, 2)


@pytest.mark.parametrize(("before", "after"), [((), "v"), ("v", ()), ("v", "id")])
def test_versions_around_other_partitions_are_read_apart(lake, before, after):
    """Of a partition column, only the log knows the values."""
    t = lake.create_table("t", data=pa.table(LETTERS), partition_by=before, properties=FEED)
    t.overwrite(pa.table(LETTERS), schema_mode="overwrite", partition_by=after)
    with pytest.raises(deltasql.ValidationError, match="no schema in common"):
        t.change_rows(0)
    assert sorted(t.change_rows(0, 0).read_all().column("v").to_pylist()) == ["a", "b"]


def test_columns_that_come_and_go_split_no_feed(lake):
    t = lake.create_table("t", data=pa.table(LETTERS), properties=FEED)
    t.add_column("n", "int")
    t.overwrite(pa.table({"id": [3], "w": [0.5]}), schema_mode="overwrite")
    found = t.change_rows(0).read_all()
    assert found.column_names[:2] == ["id", "w"]
    assert sorted(found.column("id").to_pylist()) == [1, 1, 2, 2, 3]
