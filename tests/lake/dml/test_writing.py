"""Writing as users of other libraries know it."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import SchemaMismatchError, TableExistsError, ValidationError

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("writing")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


def test_rows_in_version_0(lake):
    table = lake.create_table("filled", data=ROWS, partition_by=["day"], description="two rows")
    assert table.version == 0
    assert table.scan().to_arrow().sort_by("id") == ROWS
    assert table.snapshot().metadata.description == "two rows"
    assert lake.create_table("filled", data=ROWS, exists_ok=True).version == 0
    with pytest.raises(TableExistsError):
        lake.create_table("filled", data=ROWS)
    with pytest.raises(ValidationError, match="schema"):
        lake.create_table("neither")


@pytest.mark.parametrize("mode", ["none", "name"])
def test_an_overwrite_may_bring_another_schema(lake, mode):
    table = lake.create_table(
        f"other.{mode}", data=ROWS, properties={"delta.columnMapping.mode": mode}
    )
    other = pa.table({"id": ["x"], "part": [7]})
    with pytest.raises(SchemaMismatchError):
        table.overwrite(other)
    with pytest.raises(ValidationError, match="schema_mode"):
        table.overwrite(other, where="id = 1", schema_mode="overwrite")
    with pytest.raises(ValidationError, match="partitioned"):
        table.overwrite(ROWS, partition_by=["day"])
    table.overwrite(other, schema_mode="overwrite", partition_by=["part"])
    assert table.scan().to_arrow() == other
    assert table.snapshot().metadata.partition_columns == ("part",)
    table.overwrite(pa.table({"id": ["y"], "part": [1], "n": [0.5]}), schema_mode="merge")
    assert table.scan().to_arrow().column_names == ["id", "part", "n"]
    assert table.snapshot(version=0).scan().to_arrow().sort_by("id") == ROWS


def test_create_or_replace(lake):
    for rows in (ROWS, pa.table({"v": [0.5]})):
        table = lake.create_or_replace_table("replaced", data=rows)
        assert table.scan().to_arrow() == rows
    empty = lake.create_or_replace_table("replaced", pa.schema([("w", pa.int64())]))
    assert empty.scan().to_arrow().num_rows == 0
    assert empty.version == 2


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.checkpointInterval": "7", "owner": "sales"},
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableChangeDataFeed": "true"},
        {"delta.enableRowTracking": "true"},
        {"delta.columnMapping.mode": "name"},
        {"delta.feature.timestampNtz": "supported"},
    ],
)
def test_replacing_with_properties_is_one_commit(lake, properties):
    name = f"replaced_{uuid.uuid4().hex[:8]}"
    lake.create_or_replace_table(name, data=ROWS)
    other = pa.table({"v": [0.5, 1.5], "part": ["a", "b"]})
    table = lake.create_or_replace_table(name, None, ["part"], properties, data=other)
    assert table.version == 1
    snapshot = table.snapshot()
    stored = {key: text for key, text in properties.items() if ".feature." not in key}
    assert stored.items() <= snapshot.properties.items()
    assert snapshot.metadata.partition_columns == ("part",)
    assert table.scan().to_arrow().select(other.column_names).sort_by("v") == other
    assert table.history()[0].operation == "WRITE"
    table.append(other)
    table.delete("v = 0.5")
    assert table.count() == 2
    assert lake.check(name).ok
    assert table.mirror.validate().ok


def test_notes_of_arrow_fields_are_kept(lake):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={"comment": "the key", "PARQUET:field_id": "7"}),
            pa.field("s", pa.struct([pa.field("a", pa.int32(), metadata={"comment": "inner"})])),
            pa.field("g", pa.int64(), metadata={"delta.generationExpression": "id + 1"}),
        ]
    )
    table = lake.create_table("noted", schema)
    fields = table.snapshot().state.schema.fields
    assert fields[0].metadata == {"comment": "the key"}
    assert fields[1].type.fields[0].metadata == {"comment": "inner"}
    assert table.snapshot().schema.field("id").metadata == {b"comment": b"the key"}
    assert table.snapshot().schema.field("s").metadata is None
    assert "generatedColumns" in table.snapshot().protocol.writer_features
    source = pa.table({"id": [1]})
    merge = table.merge(source, "target.id = source.id")
    merge.when_not_matched_insert(values={"id": "source.id"}).execute()
    assert table.scan(columns=["id", "g"]).to_arrow().to_pylist() == [{"id": 1, "g": 2}]


def test_results_of_appends_and_overwrites(lake):
    table = lake.create_table("results", ROWS.schema)
    appended = table.append(ROWS)
    assert (appended, appended.metrics["numOutputRows"], appended.metrics["numFiles"]) == (1, 2, 1)
    overwritten = table.overwrite(ROWS.slice(0, 1))
    assert (overwritten, overwritten.metrics["numRemovedFiles"]) == (2, 1)
    (change,) = table.changes(2)
    assert change.actions[0].extra["operationMetrics"]["numOutputRows"] == "1"


def test_commit_metadata_of_appends(lake):
    table = lake.create_table("told", data=ROWS)
    table.append(ROWS, commit_metadata={"job": "a"})
    table.overwrite(ROWS, commit_metadata={"job": "b"})
    found = [change.actions[0].extra.get("job") for change in table.changes(1)]
    assert found == ["a", "b"]
