"""What we assume about Delta's classes, one assumption a test.

This file runs with each Delta that is tested (`test_versions.py`): when a new one moves
something, the test that fails says what.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType as SparkStruct

from deltasql.errors import SchemaMismatchError
from deltasql.spark.native.gateway import Gateway, hadoop_location
from deltasql.spark.native.guard import WAY_OUT, Guard
from deltasql.spark.sessions.environment import TESTED_DELTA, check_native
from deltasql.spec.actions import Metadata, Protocol
from deltasql.spec.protocol import protocol_for
from deltasql.spec.schema import Primitive, StructField, StructType, render_schema

LONG = StructType((StructField("id", Primitive("long")), StructField("p", Primitive("string"))))


@pytest.fixture(scope="module")
def gateway(spark) -> Gateway:
    return Gateway(spark)


def metadata(schema: StructType = LONG, by: tuple[str, ...] = (), **more: str) -> Metadata:
    return Metadata(
        id="00000000-0000-0000-0000-000000000000",
        schema_string=render_schema(schema),
        partition_columns=by,
        configuration=more,
    )


def protocol(of: Metadata, schema: StructType = LONG) -> Protocol:
    return protocol_for(schema, of.configuration, fence=True)


def table_in(gateway: Gateway, root: Path, of: Metadata, schema: StructType = LONG, **more):
    return gateway.table(root.as_uri(), of, protocol(of, schema), **more)


def test_delta_says_its_version(spark, gateway):
    assert gateway.delta_version.startswith(TESTED_DELTA)
    check_native(spark, gateway)


def test_a_read_asks_the_jvm_few_times(spark, db, name, monkeypatch):
    """Every call is a round trip; names that are looked up again were most of a small read."""
    db.write(spark.range(3).toDF("id"), name)
    db.read(name)
    client = spark._jvm._gateway_client
    send, sent = client.send_command, []

    def counted(command, *arguments, **options):
        sent.append(command)
        return send(command, *arguments, **options)

    monkeypatch.setattr(client, "send_command", counted)
    # What the garbage collector gives back is none of the read's.
    gc.disable()
    try:
        frame = db.read(name)
    finally:
        gc.enable()
    asked = [command for command in sent if not command.startswith("m\n")]
    assert len(asked) <= 25, asked
    assert frame.count() == 3


def test_log_object_lists_nothing_and_makes_no_folder(gateway, tmp_path):
    root = tmp_path / "absent"
    table_in(gateway, root, metadata())
    assert not root.exists()


def test_writer_takes_a_protocol_without_our_fence(gateway, spark, tmp_path):
    written = gateway.write(
        table_in(gateway, tmp_path, metadata()), spark.range(3).selectExpr("id", "'x' p")
    )
    assert sum(json.loads(add.stats)["numRecords"] for add in written.actions) == 3


def test_writer_commits_nothing(gateway, spark, tmp_path):
    gateway.write(table_in(gateway, tmp_path, metadata()), spark.range(3).selectExpr("id", "'x' p"))
    assert not (tmp_path / "_delta_log").exists()


def test_writer_returns_adds_with_stats_partitions_and_encoded_paths(gateway, spark, tmp_path):
    table = table_in(gateway, tmp_path, metadata(by=("p",)))
    (add,) = gateway.write(table, spark.range(1).selectExpr("id", "'a b/%' p")).actions
    assert add.partition_values == {"p": "a b/%"}
    assert add.path.startswith("p=a%20b%252F%2525/part-")
    assert json.loads(add.stats)["minValues"] == {"id": 0}
    assert add.data_change


def test_empty_frames_make_no_files(gateway, spark, tmp_path):
    table = table_in(gateway, tmp_path, metadata())
    assert gateway.write(table, spark.range(0).selectExpr("id", "'x' p")).actions == []


def test_reader_reads_what_the_array_of_adds_names_and_no_more(gateway, spark, tmp_path):
    table = table_in(gateway, tmp_path, metadata())
    adds = [
        gateway.write(table, spark.range(n, n + 1).selectExpr("id", "'x' p")).actions[0]
        for n in range(3)
    ]
    named = tmp_path / "files.json"
    named.write_text(
        json.dumps(
            [
                {
                    "path": add.path,
                    "partitionValues": {},
                    "size": add.size,
                    "modificationTime": add.modification_time,
                    "dataChange": True,
                }
                for add in adds[:2]
            ]
        )
    )
    frame = gateway.frame(table_in(gateway, tmp_path, metadata(), read_version=0), named)
    assert sorted(row.id for row in frame.collect()) == [0, 1]
    assert {row[0] for row in frame.select("_metadata.row_index").collect()} == {0}


def test_reader_of_no_files_has_the_schema(gateway, tmp_path):
    named = tmp_path / "files.json"
    named.write_text("[]")
    frame = gateway.frame(table_in(gateway, tmp_path, metadata()), named)
    assert frame.columns == ["id", "p"]
    assert frame.count() == 0


@pytest.fixture(scope="module")
def guarded(gateway, spark, tmp_path_factory):
    """A read-only frame of three rows, with a view of it."""
    root = tmp_path_factory.mktemp("guarded")
    table = table_in(gateway, root, metadata(), read_version=0)
    (add,) = gateway.write(table, spark.range(3, numPartitions=1).selectExpr("id", "'x' p")).actions
    told = {"path": add.path, "partitionValues": {}, "size": add.size, "dataChange": True}
    named = root / "files.json"
    named.write_text(json.dumps([{**told, "modificationTime": 0}]))
    frame = Guard(spark, gateway).read_only(gateway.frame(table, named))
    frame.createOrReplaceTempView("guarded")
    return frame


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO {} VALUES (1, 'x')",
        "INSERT OVERWRITE {} VALUES (1, 'x')",
        "DELETE FROM {} WHERE id = 1",
        "UPDATE {} SET id = 2 WHERE id = 1",
        "MERGE INTO {} t USING (SELECT 1 k) s ON t.id = s.k WHEN MATCHED THEN DELETE",
    ],
    ids=lambda change: " ".join(change.split()[:2]),
)
def test_spark_and_delta_refuse_to_change_a_guarded_frame(guarded, spark, change):
    with pytest.raises(AnalysisException) as refused:
        spark.sql(change.format("guarded"))
    assert WAY_OUT in str(refused.value)
    assert guarded.count() == 3


def test_optimizing_leaves_nothing_of_the_guard(guarded):
    assert guarded._jdf.queryExecution().optimizedPlan().nodeName() == "LogicalRelation"
    assert guarded.select("_metadata.row_index").count() == 3
    assert guarded.join(guarded, "id").count() == 3


def test_writer_enforces_checks_of_the_table_and_of_the_caller(gateway, spark, tmp_path):
    constrained = metadata(**{"delta.constraints.few": "id < 2"})
    table = table_in(gateway, tmp_path, constrained)
    rows = spark.range(3).selectExpr("id", "'x' p")
    with pytest.raises(SchemaMismatchError, match="few"):
        gateway.write(table, rows)
    plain = table_in(gateway, tmp_path, metadata())
    with pytest.raises(SchemaMismatchError, match="id > 0"):
        gateway.write(plain, rows, check="id > 0")


def test_writer_reports_how_far_identity_columns_got(gateway, spark, tmp_path):
    start = {"delta.identity.start": 1, "delta.identity.step": 1}
    numbered = StructField(
        "n", Primitive("long"), True, {**start, "delta.identity.allowExplicitInsert": False}
    )
    schema = StructType((numbered, *LONG.fields))
    table = table_in(gateway, tmp_path, metadata(schema), schema)
    written = gateway.write(table, spark.range(3, numPartitions=1).selectExpr("id", "'x' p"))
    assert written.identity == {"n": 3}


def test_new_identity_values_can_be_had_before_the_rows_are_written(gateway, spark, tmp_path):
    given = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 4}
    numbered = StructField(
        "n", Primitive("long"), True, {**given, "delta.identity.allowExplicitInsert": False}
    )
    schema = StructType((numbered, *LONG.fields))
    table = table_in(gateway, tmp_path, metadata(schema), schema)
    field = SparkStruct.fromJson(json.loads(render_schema(schema))).fields[0]
    rows = spark.range(2, numPartitions=1).select(
        gateway.identity_values(field).alias("n"), "id", sql.lit("x").alias("p")
    )
    written = gateway.write(table, rows, identity=["n"])
    assert written.identity == {"n": 6}
    (add,) = written.actions
    assert json.loads(add.stats)["minValues"]["n"] == 5


def test_rows_know_their_ids_and_take_them_along(gateway, spark, tmp_path):
    tracked = metadata(
        **{
            "delta.enableRowTracking": "true",
            "delta.rowTracking.materializedRowIdColumnName": "_row-id",
            "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
        }
    )
    table = table_in(gateway, tmp_path, tracked, read_version=0)
    first = spark.range(3, numPartitions=1).selectExpr("id", "'x' p")
    (add,) = gateway.write(table, first).actions

    def rows_of(add, base: int, version: int):
        named = tmp_path / f"{base}.json"
        told = {"path": add.path, "partitionValues": {}, "size": add.size, "dataChange": True}
        told |= {"modificationTime": 0, "baseRowId": base, "defaultRowCommitVersion": version}
        named.write_text(json.dumps([told]))
        return gateway.with_row_ids(table, gateway.frame(table, named))

    rows = rows_of(add, 40, 7)
    marks = {name: rows.schema[name].metadata for name in ("_row-id", "_row-version")}
    assert sorted(tuple(row) for row in rows.collect()) == [
        (0, "x", 40, 7),
        (1, "x", 41, 7),
        (2, "x", 42, 7),
    ]
    moved = rows.where("id > 0").selectExpr("id", "p", "`_row-id`", "null + `_row-version` AS v")
    moved = moved.withColumnRenamed("v", "_row-version")
    for name, mark in marks.items():
        moved = moved.withMetadata(name, mark)
    (again,) = gateway.write(table, moved).actions
    assert set(json.loads(again.stats)["minValues"]) == {"id", "p"}
    found = rows_of(again, 90, 8).collect()
    assert sorted(tuple(row) for row in found) == [(1, "x", 41, 8), (2, "x", 42, 8)]


def test_writer_cuts_files_at_a_number_of_rows(gateway, spark, tmp_path):
    table = table_in(gateway, tmp_path, metadata())
    rows = spark.range(10, numPartitions=1).selectExpr("id", "'x' p")
    assert len(gateway.write(table, rows, max_rows=4).actions) == 3


def test_conditions_come_apart_at_and(gateway):
    assert gateway.conjuncts("a = 1 AND (b > 'x' OR c) AND day = date'2026-01-01'") == [
        "(a = 1)",
        "((b > 'x') OR c)",
        "(day = DATE '2026-01-01')",
    ]


def test_columns_of_create_table_become_a_delta_schema(gateway):
    found = json.loads(
        gateway.columns_of(
            "id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 2), "
            "n INT NOT NULL COMMENT 'x', d INT DEFAULT 7, g INT GENERATED ALWAYS AS (n * 2), "
            "v VARCHAR(2)"
        )
    )
    by_name = {item["name"]: item for item in found["fields"]}
    assert by_name["id"]["metadata"]["delta.identity.start"] == 5
    assert by_name["id"]["metadata"]["delta.identity.step"] == 2
    assert not by_name["n"]["nullable"]
    assert by_name["n"]["metadata"]["comment"] == "x"
    assert by_name["d"]["metadata"]["CURRENT_DEFAULT"] == "7"
    assert by_name["g"]["metadata"]["delta.generationExpression"] == "n * 2"
    assert by_name["v"]["type"] == "string"
    assert by_name["v"]["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] == "varchar(2)"


def test_hadoop_has_its_own_names_for_locations():
    assert hadoop_location("s3://bucket/x") == "s3a://bucket/x"
    assert hadoop_location("file:///x%20y") == "file:///x y"
    assert hadoop_location("/x%20y") == "/x%20y"
