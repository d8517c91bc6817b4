"""Writing as users of other libraries know it."""

from __future__ import annotations

import io
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
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


def test_a_replaced_table_gets_the_schema_that_a_new_one_gets(lake):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    for version in range(2):
        table = lake.create_or_replace_table(
            "fitted", schema, data=pa.table({"a": pa.array([1], pa.int32())})
        )
        assert (table.version, table.snapshot().schema) == (version, schema)
        assert table.scan().to_arrow().to_pylist() == [{"a": 1, "b": None}]


def test_what_is_said_of_a_replaced_table(lake):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    for by, said in (("a", "first"), ("b", "second")):
        table = lake.create_or_replace_table(
            "said",
            schema,
            by,
            data=pa.table({"a": [1], "b": ["x"]}),
            description=said,
            commit_metadata={"who": said},
            writer=deltasql.WriterProperties(compression="gzip"),
        )
        assert table.detail()["description"] == said
        assert table.detail()["partitionColumns"] == [by]
        (file,) = table.snapshot().files().column("path").to_pylist()
        found = pq.read_metadata(io.BytesIO(table.objects.read(file)))
        assert found.row_group(0).column(0).compression == "GZIP"
        infos = [item for change in table.changes(0) for item in change.actions]
        assert any(getattr(item, "extra", {}).get("who") == said for item in infos)


def test_one_partition_column_by_its_name(lake):
    rows = pa.table({"p": ["a", "b"], "x": [1, 2]})
    lake.write(rows, "by_name", partition_by="p", description="words", max_commit_retries=2)
    table = lake.table("by_name")
    assert table.detail()["partitionColumns"] == ["p"]
    assert table.detail()["description"] == "words"
    lake.write(rows, "by_name", partition_by="p", max_commit_retries=2)
    again = lake.write(rows, "by_name", "overwrite", partition_by="p", max_commit_retries=2)
    assert (again, table.count()) == (2, 2)
    table.overwrite(rows, schema_mode="overwrite", partition_by="x")
    assert table.detail()["partitionColumns"] == ["x"]
    assert lake.create_table("named", rows.schema, "p").detail()["partitionColumns"] == ["p"]


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
    table.append(ROWS, commit_metadata={"run": "a"})
    table.overwrite(ROWS, commit_metadata={"run": "b"})
    found = [change.actions[0].extra.get("run") for change in table.changes(1)]
    assert found == ["a", "b"]


def test_metadata_that_spark_could_not_parse_is_refused(lake):
    with pytest.raises(ValidationError, match="'job' can't be 'nightly'"):
        lake.create_table("new", data=ROWS, commit_metadata={"job": "nightly"})
    table = lake.create_table("old", data=ROWS)
    for write in (table.append, table.overwrite):
        with pytest.raises(ValidationError, match="'job' can't be 'nightly'"):
            write(ROWS, commit_metadata={"job": "nightly"})
    assert table.version == 0
    assert "new" not in [item.name for item in lake.tables()]
