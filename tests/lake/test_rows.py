"""Rows in, rows out: append, overwrite, scan."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

import deltasql
from deltasql.spec import deletion_vectors
from tests.lake.conftest import ORDERS


def test_append_and_scan(orders, rows, ids):
    assert orders.append(rows(1, 2)) == 1
    assert orders.append(rows(3, day="2026-11-02")) == 2
    assert ids(orders) == [1, 2, 3]
    assert ids(orders, where="day = '2026-11-02'") == [3]
    assert ids(orders, where="id BETWEEN 2 AND 3 AND NOT id IN (3, 9)") == [2]
    assert orders.scan(columns=["amount"]).to_arrow().column_names == ["amount"]
    assert orders.scan().to_polars().height == 3


def test_every_type_comes_back(lake):
    values = {
        "b": [True, None],
        "i8": pa.array([1, None], pa.int8()),
        "i16": pa.array([1, None], pa.int16()),
        "i32": pa.array([1, None], pa.int32()),
        "i64": pa.array([2**62, None], pa.int64()),
        "f32": pa.array([1.5, None], pa.float32()),
        "f64": pa.array([float("inf"), None], pa.float64()),
        "text": ["ü\t\\'\"", None],
        "blob": pa.array([b"\x00\xff", None], pa.binary()),
        "price": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        "d": pa.array([dt.date(2026, 11, 1), None], pa.date32()),
        "ts": pa.array(
            [dt.datetime(2026, 11, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")
        ),
        "ntz": pa.array([dt.datetime(2026, 11, 1, 1), None], pa.timestamp("us")),  # noqa: DTZ001
        "list": pa.array([[1, None], None], pa.list_(pa.int64())),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "s": pa.array([{"x": 1, "y": {"z": "q"}}, None]),
    }
    data = pa.table(values)
    table = lake.create_table("types", data.schema)
    table.append(data)
    assert table.scan().to_arrow().to_pylist() == data.to_pylist()
    assert table.scan(where="s.y.z = 'q'").to_arrow().num_rows == 1
    assert (
        table.scan(where="ts >= '2026-11-01T00:00:00Z' AND d IS NOT NULL").to_arrow().num_rows == 1
    )


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a b", "a/b", "a=b", "a%20b", "ü", "", None, "it's", "'; --"]),
        (pa.int32(), [-1, 0, None, 2**31 - 1]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 11, 1), None]),
        (pa.bool_(), [True, False, None]),
        (pa.float64(), [0.5, float("inf"), None]),
        (pa.decimal128(10, 2), [Decimal("1.10"), None]),
        (pa.timestamp("us", "UTC"), [dt.datetime(2026, 11, 1, 2, 3, 4, 5, tzinfo=dt.UTC), None]),
    ],
)
def test_partitions_of_every_type(lake, kind, values):
    data = pa.table({"id": range(len(values)), "p": pa.array(values, kind)})
    table = lake.create_table("parts", data.schema, partition_by=["p"])
    table.append(data)
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    # An empty string is null in a partition column: the spec says so.
    assert [row["p"] for row in found] == [None if value == "" else value for value in values]
    nulls = table.scan(where="p IS NULL").to_arrow()
    assert nulls.num_rows == sum(value in (None, "") for value in values)


def test_overwrite_all_and_by_condition(orders, rows, ids, data_files):
    orders.append(rows(1, 2))
    orders.append(rows(3, day="2026-11-02"))
    orders.overwrite(rows(4, day="2026-11-02"), where="day = '2026-11-02'")
    assert ids(orders) == [1, 2, 4]
    with pytest.raises(deltasql.SchemaMismatchError, match="own condition"):
        orders.overwrite(rows(20), where="id = 2")
    before = data_files()
    orders.overwrite(rows(2, amount=9.0), where="id = 2")
    assert len(data_files()) == len(before) + 2, "the rows that stay, and the new ones"
    assert ids(orders) == [1, 2, 4]
    assert ids(orders, where="amount = 9") == [2]
    orders.overwrite(rows(7))
    assert ids(orders) == [7]
    assert ids(orders.snapshot(version=2)) == [1, 2, 3]


@pytest.mark.parametrize(
    "bad",
    [
        {"id": ["x"], "day": ["d"], "amount": [1.0]},
        {"id": [1], "day": ["d"], "amount": [1.0], "more": [1]},
        {"id": [2**80], "day": ["d"], "amount": [1.0]},
        {"id": [1.5], "day": ["d"], "amount": [1.0]},
    ],
)
def test_rows_that_do_not_fit_leave_nothing_behind(orders, data_files, bad):
    data = bad if bad["id"] != [2**80] else {**bad, "id": pa.array([2**63], pa.uint64())}
    with pytest.raises(deltasql.SchemaMismatchError):
        orders.append(pa.table(data))
    assert orders.version == 0
    assert data_files() == []


def test_required_columns_are_required(lake, data_files):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = lake.create_table("strict", schema)
    for bad in ({"id": pa.array([None], pa.int64())}, {"v": ["x"]}):
        with pytest.raises(deltasql.SchemaMismatchError):
            table.append(pa.table(bad))
    table.append(pa.table({"id": [1]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "v": None}]


def test_check_constraints_are_enforced(lake, ids):
    table = lake.create_table(
        "checked",
        pa.schema([("id", pa.int64())]),
        properties={"delta.constraints.positive": "id > 0"},
    )
    table.append(pa.table({"id": [1]}))
    for bad in ([0], [1, None]):
        with pytest.raises(deltasql.SchemaMismatchError, match="positive"):
            table.append(pa.table({"id": bad}, schema=pa.schema([("id", pa.int64())])))
    assert ids(table) == [1]


def test_rows_with_exactly_the_tables_schema_are_looked_at_too(lake, data_files):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("code", pa.string())])
    table = lake.create_table("required", schema)
    with pytest.raises(deltasql.SchemaMismatchError, match="'id' must have a value"):
        table.append(pa.table({"id": [1, None], "code": ["a", "b"]}, schema=schema))
    short = lake.create_table("short", pa.schema([schema.field("code")]))
    metadata = short.snapshot().metadata
    noted = json.loads(metadata.schema_string)
    noted["fields"][0]["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] = "varchar(2)"
    short.commit([replace(metadata, schema_string=json.dumps(noted))])
    with pytest.raises(deltasql.SchemaMismatchError, match="code"):
        short.append(pa.table({"code": ["abc"]}))
    with pytest.raises(deltasql.ValidationError, match="appId is empty"):
        short.append(pa.table({"code": ["ab"]}), app_id="", app_version=1)
    assert data_files() == []


@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["plain", "partitioned"])
def test_table_that_a_newer_client_upgraded_is_left_alone(lake, rows, data_files, partition_by):
    table = lake.create_table("t", rows(1).schema, partition_by=partition_by)
    with lake.store.locked([table.table_id]) as log:
        log.execute(
            "UPDATE dl_protocol_updates SET action ="
            """ replace(action, '"appendOnly"', '"appendOnly","timeMachine"')"""
        )
    lake.states.refresh(table.table_id)
    with pytest.raises(deltasql.UnsupportedFeatureError, match="timeMachine"):
        table.append(rows(1))
    assert (table.version, data_files()) == (0, [])


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("delta.generationExpression", "0", "generation expression of made"),
        ("delta.invariants", '{"expression": {"expression": "made > 2"}}', "invariant of made"),
    ],
)
@pytest.mark.parametrize("mode", ["none", "name"])
def test_rules_of_columns_are_enforced(lake, data_files, key, text, told, mode):
    table = lake.create_table(
        "t",
        pa.schema([("id", pa.int64()), ("made", pa.int64())]),
        properties={"delta.columnMapping.mode": mode},
    )
    metadata = table.snapshot().metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"][1]["metadata"][key] = text
    table.commit([replace(metadata, schema_string=json.dumps(schema))])
    with pytest.raises(deltasql.SchemaMismatchError, match=told):
        table.append(pa.table({"id": [1], "made": [2]}))
    assert data_files() == []


def test_merging_the_schema_adds_columns(orders, rows, ids):
    orders.append(rows(1))
    wide = rows(2).append_column("note", pa.array(["hello"]))
    with pytest.raises(deltasql.SchemaMismatchError, match="merge"):
        orders.append(wide)
    orders.append(wide, schema_mode="merge")
    found = orders.scan().to_arrow().sort_by("id").to_pylist()
    assert [row["note"] for row in found] == [None, "hello"]
    assert "note" not in orders.snapshot(version=1).schema.names


def test_an_append_survives_a_schema_that_changed_meanwhile(
    lake, orders, rows, store_url, tmp_path, ids
):
    orders.append(rows(1))
    stale = lake.table("sales.orders")
    orders.append(rows(2).append_column("note", pa.array(["x"])), schema_mode="merge")
    assert stale.append(rows(3)) == 3
    assert ids(stale) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(lake, mode):
    odd = pa.schema(
        [("a b", pa.int64()), ("p,q", pa.string()), ("s", pa.struct([("x y", pa.int64())]))]
    )
    table = lake.create_table(
        "mapped", odd, partition_by=["p,q"], properties={"delta.columnMapping.mode": mode}
    )
    data = pa.table({"a b": [1, 2], "p,q": ["x", None], "s": [{"x y": 7}, None]}, schema=odd)
    table.append(data)
    assert table.scan().to_arrow().sort_by("a b").to_pylist() == data.to_pylist()
    assert table.scan(where='"a b" = 2').to_arrow().num_rows == 1
    assert table.snapshot().files(where='"a b" = 3').num_rows == 0
    table.append(data.append_column("new", pa.array([1, 2])), schema_mode="merge")
    assert table.scan(where="new = 2").to_arrow().num_rows == 1
    assert table.snapshot().protocol.min_reader_version == 2


def test_deletion_vectors_hide_rows(lake):
    table = lake.create_table(
        "vectors",
        pa.schema([("id", pa.int64())]),
        properties={"delta.enableDeletionVectors": "true"},
    )
    table.append(pa.table({"id": range(10)}))
    (add,) = table.snapshot().adds()
    remove = deltasql.RemoveFile.of(add, deletion_timestamp=1)
    table.commit(
        [remove, replace(add, deletion_vector=deletion_vectors.inline([0, 3, 9]))], read_version=1
    )
    assert table.scan().to_arrow().column("id").to_pylist() == [1, 2, 4, 5, 6, 7, 8]
    assert table.snapshot(version=1).scan().to_arrow().num_rows == 10
    with pytest.raises(deltasql.ValidationError, match="another deletion vector"):
        table.commit([replace(add, deletion_vector=deletion_vectors.inline([1]))])


def test_row_tracking_numbers_files(lake, rows):
    table = lake.create_table("tracked", ORDERS, properties={"delta.enableRowTracking": "true"})
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    found = sorted(
        (add.base_row_id, add.default_row_commit_version) for add in table.snapshot().adds()
    )
    assert found == [(0, 1), (3, 2)]
    assert '"rowIdHighWaterMark":3' in table.snapshot().domains["delta.rowTracking"]


def test_arrow_streams_and_frames_are_taken(orders, rows, ids):
    orders.append(rows(1).to_reader())
    orders.append(pl.from_arrow(rows(2)))
    orders.append(rows(3).to_batches()[0])
    orders.append(rows())
    assert ids(orders) == [1, 2, 3]


def test_append_is_exactly_once_by_application(orders, rows, ids, data_files):
    assert orders.append(rows(1), app_id="stream", app_version=7) == 1
    assert orders.append(rows(1), app_id="stream", app_version=7) == 1
    assert orders.append(rows(1), app_id="stream", app_version=6) == 1
    assert orders.append(rows(2), app_id="stream", app_version=8) == 2
    assert ids(orders) == [1, 2]
    assert len(data_files()) == 2, "the files of skipped appends are gone"
    assert orders.snapshot().txns == {"stream": 8}
    with pytest.raises(deltasql.ValidationError):
        orders.append(rows(1), app_id="stream")


def test_results_are_versions_wherever_one_is_asked_for(lake, orders, rows, ids):
    written = orders.append(rows(1))
    orders.delete("id = 1")
    assert ids(orders.snapshot(version=written)) == [1]
    assert orders.changes(written, written)[0].version == written
    assert orders.commit([], read_version=written, expected_version=written + 2) == 3
