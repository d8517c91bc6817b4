"""The same words in Python and in Spark: parameters, and columns as CREATE TABLE has them."""

from __future__ import annotations

import inspect

import pyarrow as pa
import pytest

import deltasql
from deltasql.lake.catalog import Lake
from deltasql.lake.dml.merge_builder import MergeBuilder
from deltasql.lake.looking.public import TABLE
from deltasql.lake.table import Table
from deltasql.lake.transaction.table import TransactionTable
from deltasql.maintenance.altering.ddl import parse_columns
from deltasql.spark.database import Database
from deltasql.spark.dml.merge_builder import MergeBuilder as SparkMergeBuilder
from deltasql.spark.dml.tables import SparkTable, TransactionSparkTable
from deltasql.spark.native.options import write_options
from deltasql.spec.schema import render_schema


@pytest.fixture
def lake(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=str(tmp_path / "lake")) as found:
        yield found


def test_a_table_from_columns_in_words(lake):
    table = lake.create_table(
        "sales.orders",
        "id BIGINT NOT NULL, `a day` date, price DECIMAL(10, 2) COMMENT 'in ''EUR''', "
        "tags array<string>, seen map<string,int>, place struct<lat: double, lon: double NOT NULL>",
        properties={"delta.columnMapping.mode": "name"},
    )
    schema = table.snapshot().schema
    assert schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert schema.field("a day").type == pa.date32()
    assert schema.field("price").type == pa.decimal128(10, 2)
    assert schema.field("tags").type == pa.list_(pa.field("element", pa.string()))
    assert [field.name for field in schema.field("place").type] == ["lat", "lon"]
    assert "in 'EUR'" in table.snapshot().metadata.schema_string
    table.add_columns("note STRING, n INT")
    assert table.snapshot().schema.names[-2:] == ["note", "n"]
    table.add_column("many", "array<bigint>")
    again = lake.create_or_replace_table("sales.orders", "id BIGINT, x STRING")
    assert again.snapshot().schema.names == ["id", "x"]


@pytest.mark.parametrize(
    "text",
    ["", "id", "id BIGINT,", "id BIGINT NOT", "id nonsense", "id array<int", "id INT COMMENT x",
     "id INT DEFAULT 1", "id BIGINT GENERATED ALWAYS AS IDENTITY", "id INT; DROP TABLE x",
     "a INT, A"],
)  # fmt: skip
def test_what_is_no_column_is_told(text):
    with pytest.raises(deltasql.ValidationError, match="is not a list of columns"):
        parse_columns(text)


def test_words_of_writes(lake):
    table = lake.create_table("t", "id BIGINT")
    table.append(pa.table({"id": [1], "a": [1]}), merge_schema=True)
    table.append(pa.table({"id": [2], "b": [1]}), schema_mode="merge")
    table.overwrite(pa.table({"id": [2]}), replace_where="id = 2")
    table.overwrite(pa.table({"id": [1], "c": [1]}), where="id = 1", merge_schema=True)
    assert table.snapshot().schema.names == ["id", "a", "b", "c"]
    table.delete(condition="id = 1")
    table.update(condition="id = 2", set={"a": "5"})
    merge = table.merge([{"id": 2, "a": 7}], condition="target.id = source.id")
    merge.whenMatchedUpdate(set={"a": "source.a"}).execute()
    assert table.scan(columns=["id", "a"]).to_arrow().to_pylist() == [{"id": 2, "a": 7}]
    table.overwrite(pa.table({"z": [1]}), overwrite_schema=True)
    assert table.snapshot().schema.names == ["z"]
    with lake.transaction() as tx:
        tx.table("t").append(pa.table({"z": [2], "y": [1]}), merge_schema=True)
        tx.table("t").overwrite(pa.table({"z": [1, 1]}), replace_where="z = 1")
        tx.table("t").delete(condition="z = 2")
    assert table.scan(columns=["z"]).to_arrow().to_pylist() == [{"z": 1}] * 2
    with pytest.raises(deltasql.ValidationError, match="two names"):
        table.append(pa.table({"z": [1]}), schema_mode="merge", merge_schema=True)
    with pytest.raises(deltasql.ValidationError, match="two names"):
        table.overwrite(pa.table({"z": [1]}), where="z = 1", replace_where="z = 1")


def test_options_of_spark_in_words_of_python():
    assert write_options("append", {"schema_mode": "merge"}).merge_schema
    assert write_options("overwrite", {"schema_mode": "overwrite"}).overwrite_schema
    assert write_options("overwrite", {"where": "id = 1"}).replace_where == "id = 1"
    assert write_options("append", {"merge_schema": True}).merge_schema
    for wrong in (
        {"where": "id = 1", "replace_where": "id = 2"},
        {"schema_mode": "merge", "overwrite_schema": True},
        {"schema_mode": "replace"},
    ):
        with pytest.raises(deltasql.ValidationError):
            write_options("overwrite", wrong)


def test_a_table_of_spark_has_all_that_a_table_has(lake):
    """Whatever is public on the one is there on the other, and is the same unless Spark's."""
    table = lake.create_table("t", "id BIGINT")
    spark_table = SparkTable(None, table)
    own = {"delete", "update", "merge", "optimize", "name"}
    assert set(dir(spark_table)) == TABLE | {"alias", "toDF"}
    for name in TABLE:
        assert hasattr(spark_table, name), name
        if name not in own:
            assert name not in vars(SparkTable), f"{name} is defined anew"
    assert spark_table.history()[0].operation == "CREATE TABLE"
    assert spark_table.detail()["name"] == "t"
    assert spark_table.append([{"id": 1}]) == 1
    assert spark_table.head().num_rows == 1
    assert not hasattr(spark_table, "commit_request")


# How files are written is Spark's own affair, and values that are no expressions are lit(…) there.
_ARROWS_OWN = {"writer", "target_file_size", "new_values"}


def _words(method) -> set[str]:
    return set(inspect.signature(inspect.unwrap(method)).parameters)


@pytest.mark.parametrize("verb", ["delete", "update", "merge"])
def test_verbs_take_the_same_words_in_spark(verb):
    ours, sparks = _words(getattr(Table, verb)), _words(getattr(SparkTable, verb))
    assert ours - sparks <= _ARROWS_OWN
    inside = _words(getattr(TransactionTable, verb)), _words(getattr(TransactionSparkTable, verb))
    assert inside[0] - inside[1] <= _ARROWS_OWN


def test_calls_of_a_lake_take_the_same_words_in_spark():
    assert _words(Table.change_rows) <= _words(Database.changes)
    assert _words(Table.snapshot) <= _words(Database.read)
    assert _words(Lake.transaction) == _words(Database.transaction)


def test_clauses_of_a_merge_have_the_same_names_in_spark():
    public = {name for name in dir(MergeBuilder) if not name.startswith("_")}
    assert public == {name for name in dir(SparkMergeBuilder) if not name.startswith("_")}


def test_optimize_with_the_words_of_python_runs_at_once(lake):
    table = lake.create_table("t", data=[{"id": 2, "day": "a"}], partition_by="day")
    table.append([{"id": 1, "day": "a"}])
    report = SparkTable(None, table).optimize(where="day = 'a'", zorder_by="id")
    assert report.metrics["numRemovedFiles"] == 2
    with pytest.raises(deltasql.ValidationError, match="does not take where"):
        SparkTable(None, table).optimize(engine="spark", where="day = 'a'")


def test_columns_in_words_and_from_arrow_are_one():
    from deltasql.data.arrow_schema import from_arrow

    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("b", pa.binary())])
    words = parse_columns("id long, at TIMESTAMP, b BINARY")
    assert render_schema(words) == render_schema(from_arrow(schema))
