"""Names, paths and streams through Spark's and Delta's own calls."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException

import deltasql
import deltasql.spark
from deltasql.errors import ValidationError
from tests.spark.sql.conftest import CATALOG


@pytest.fixture
def name(db) -> str:
    """A table of two rows."""
    made = f"api.t{uuid.uuid4().hex[:8]}"
    db.spark.sql(f"CREATE TABLE {CATALOG}.{made} (id BIGINT, v STRING)")
    db.spark.sql(f"INSERT INTO {CATALOG}.{made} SELECT id, 'a' FROM range(1, 3, 1, 1)")
    return made


def _ids(frame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def _numbers(spark, *ids: int):
    return spark.createDataFrame([(number, "w") for number in ids], "id BIGINT, v STRING")


def test_frames_by_name(spark, db, lake, name):
    table = f"{CATALOG}.{name}"
    _numbers(spark, 3).writeTo(table).append()
    _numbers(spark, 4).write.mode("append").saveAsTable(table)
    _numbers(spark, 5).write.insertInto(table)
    assert _ids(spark.table(table)) == [1, 2, 3, 4, 5]
    assert _ids(spark.read.option("versionAsOf", 1).table(table)) == [1, 2]
    wider = spark.createDataFrame([(6, "w", 1)], "id BIGINT, v STRING, extra INT")
    wider.write.mode("append").option("mergeSchema", "true").saveAsTable(table)
    assert spark.table(table).columns == ["id", "v", "extra"]
    assert lake.table(name).version == 5
    assert lake.table(name).scan().to_arrow().num_rows == 6


def test_new_tables_from_frames(spark, db, lake):
    name = f"api.n{uuid.uuid4().hex[:8]}"
    _numbers(spark, 1).writeTo(f"{CATALOG}.{name}").partitionedBy("v").create()
    _numbers(spark, 2).writeTo(f"{CATALOG}.{name}").createOrReplace()
    _numbers(spark, 3).write.mode("overwrite").saveAsTable(f"{CATALOG}.{name}")
    assert _ids(spark.table(f"{CATALOG}.{name}")) == [3]
    assert lake.table(name).version == 2


def test_by_path_it_is_the_same_log(spark, db, lake, name):
    path = lake.table(name).location.removeprefix("file://")
    lake.table(name).mirror.pause()
    try:
        _numbers(spark, 3).write.format("delta").mode("append").save(path)
        spark.sql(f"UPDATE delta.`{path}` SET v = 'p' WHERE id = 1")
        lake.table(name).append(pa.table({"id": [9], "v": ["python"]}))
        # The mirror knows of none of these.
        assert _ids(spark.read.format("delta").load(path)) == [1, 2, 3, 9]
        tables = spark._jvm.io.delta.tables.DeltaTable
        tables.forPath(spark._jsparkSession, path).delete("id = 2")
        tables.forName(spark._jsparkSession, f"{CATALOG}.{name}").delete("id = 3")
    finally:
        lake.table(name).mirror.resume()
    assert _ids(spark.table(f"{CATALOG}.{name}")) == [1, 9]
    assert [entry.operation for entry in lake.table(name).history(limit=2)] == ["DELETE", "DELETE"]


def test_opened_by_path_before_it_was_a_table_of_the_lake(spark, db, lake, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("adopted") / "old")
    _numbers(spark, 1).write.format("delta").save(path)
    assert _ids(spark.read.format("delta").load(path)) == [1]
    name = f"api.a{uuid.uuid4().hex[:8]}"
    lake.adopt(path, name)
    _numbers(spark, 2).write.format("delta").mode("append").save(path)
    assert lake.table(name).history(limit=1)[0].operation == "WRITE"
    assert _ids(spark.table(f"{CATALOG}.{name}")) == [1, 2]


def test_streams_from_and_to_names(spark, db, lake, name, tmp_path):
    target = f"{CATALOG}.{name}_copy"

    def run() -> None:
        rows = spark.readStream.table(f"{CATALOG}.{name}")
        query = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).toTable(target).awaitTermination()

    run()
    spark.sql(f"INSERT INTO {CATALOG}.{name} VALUES (7, 's')")
    run()
    run()
    assert _ids(spark.table(target)) == [1, 2, 7]
    assert len(lake.table(f"{name}_copy").snapshot().txns) == 1


def test_files_are_skipped_in_sql_by_sparks_own_filters(spark, db, lake):
    name = f"api.f{uuid.uuid4().hex[:8]}"
    spark.range(0, 100, 1, 10).write.saveAsTable(f"{CATALOG}.{name}")
    table = spark.table(f"{CATALOG}.{name}")
    assert len(table.inputFiles()) == 10
    assert _files_read(table.where("id = 55")) == 1
    few = spark.createDataFrame([(7,)], "id BIGINT")
    assert _files_read(table.join(few, "id").where("id < 15")) == 2


def _files_read(frame) -> int:
    """How many files the scan of a frame opens."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    scans = [plan]
    found = 0
    while scans:
        item = scans.pop()
        if item.nodeName().startswith("Scan parquet"):
            found += int(item.metrics().apply("numFiles").value())
        children = item.children()
        scans += [children.apply(number) for number in range(children.size())]
    return found


def test_locations_follow_the_rules_of_the_lake(spark, db, lake, tmp_path):
    word = uuid.uuid4().hex[:8]
    place = tmp_path / "place"
    spark.sql(f"CREATE TABLE {CATALOG}.deep.er.l{word} (id INT) LOCATION '{place}'")
    spark.sql(f"INSERT INTO {CATALOG}.deep.er.l{word} VALUES (1)")
    assert lake.table(f"deep.er.l{word}").location == str(place)
    with pytest.raises(IllegalArgumentException, match="lies within") as caught:
        spark.sql(f"CREATE TABLE {CATALOG}.deep.m{word} (id INT) LOCATION '{place}/in'")
    assert caught.value.getCondition() == "DELTASQL_LOCATION_TAKEN"
    namespaces = spark.sql(f"SHOW NAMESPACES IN {CATALOG}.deep").collect()
    assert [row[0] for row in namespaces] == ["deep.er"]
    spark.sql(f"DROP TABLE {CATALOG}.deep.er.l{word} PURGE")
    assert not list(place.rglob("*.parquet"))


def test_what_would_break_a_lake_is_refused(spark, db, name):
    with pytest.raises(IllegalArgumentException, match="can't be turned off"):
        spark.sql(
            f"ALTER TABLE {CATALOG}.{name} "
            "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')"
        )
    # Delta's would not see who writes, what is held, and what clones need.
    for statement in (f"VACUUM {CATALOG}.{name}", f"VACUUM {CATALOG}.{name} LITE DRY RUN"):
        with pytest.raises(IllegalArgumentException, match="deltasql vacuum"):
            spark.sql(statement)
    with pytest.raises(IllegalArgumentException, match="deltasql vacuum"):
        spark._jvm.io.delta.tables.DeltaTable.forPath(
            spark._jsparkSession, db.lake.table(name).location
        ).vacuum()
    # The session's own default, too, which `saveAsTable` names by itself.
    for provider in ("csv", spark.conf.get("spark.sql.sources.default")):
        with pytest.raises(IllegalArgumentException, match="Delta tables only"):
            spark.sql(f"CREATE TABLE {CATALOG}.{name}x (id INT) USING {provider}")
    spark.sql("CREATE TABLE spark_catalog.default.other_format (id INT) USING parquet")
    try:
        like = f"CREATE TABLE {CATALOG}.{name}x LIKE spark_catalog.default.other_format"
        with pytest.raises(IllegalArgumentException, match="Add USING delta"):
            spark.sql(like)
        spark.sql(f"{like} USING delta")
    finally:
        spark.sql("DROP TABLE spark_catalog.default.other_format")


def test_namespaces(spark, db):
    space = f"n{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE {CATALOG}.{space} COMMENT 'here'")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{space}")
    described = spark.sql(f"DESCRIBE NAMESPACE {CATALOG}.{space}").collect()
    assert ("Comment", "here") in [tuple(row) for row in described]
    spark.sql(f"CREATE TABLE {CATALOG}.{space}.t (id INT)")
    spark.sql(f"USE {CATALOG}.{space}")
    try:
        assert [row.tableName for row in spark.sql("SHOW TABLES").collect()] == ["t"]
        assert spark.sql("SELECT * FROM t").count() == 0
    finally:
        spark.sql("USE spark_catalog.default")
    spark.sql(f"DROP NAMESPACE {CATALOG}.{space} CASCADE")
    assert not spark.catalog.databaseExists(f"{CATALOG}.{space}")


def test_a_closed_lake_is_asked_nothing(spark, db, name, tmp_path):
    with deltasql.connect("sqlite:///" + str(tmp_path / "b.db"), location=str(tmp_path)) as other:
        deltasql.spark.attach(spark, other, catalog="brief")
        spark.sql("CREATE TABLE brief.s.t (id INT)")
    assert _ids(spark.table(f"{CATALOG}.{name}")) == [1, 2]
    spark.range(3).write.format("delta").save(str(tmp_path / "stock"))
    assert spark.read.format("delta").load(str(tmp_path / "stock")).count() == 3
    with pytest.raises(IllegalArgumentException, match="no lake is attached"):
        spark.sql("SELECT * FROM brief.s.t")


def test_rename(spark, db, lake, name):
    spark.sql(f"ALTER TABLE {CATALOG}.{name} RENAME TO {CATALOG}.{name}_new")
    assert _ids(spark.table(f"{CATALOG}.{name}_new")) == [1, 2]
    assert not spark.catalog.tableExists(f"{CATALOG}.{name}")


def test_executors_compact(spark, db, lake):
    # Delta's OPTIMIZE, and our commit.
    spark.sql("CREATE TABLE lake.opt.t (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    for number in range(4):
        spark.sql(f"INSERT INTO lake.opt.t VALUES ({number}, 'a'), ({number + 10}, 'b')")
    table = lake.table("opt.t")
    before = table.version
    report = db.table("opt.t").optimize(engine="spark").where("p = 'a'").executeCompaction()
    assert report.versions == (before + 1,)
    assert (report.metrics["numRemovedFiles"], report.metrics["numAddedFiles"]) == (4, 1)
    assert report.metrics["numAddedBytes"] == report.metrics["maxFileSize"] > 0
    report = db.table("opt.t").optimize(engine="spark").executeZOrderBy("id")
    assert report.version == table.version == before + 2
    assert table.history(1)[0].operation_params["zOrderBy"] == '["id"]'
    assert table.snapshot().files().num_rows == 2
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [*range(4), *range(10, 14)]
    assert db.table("opt.t").optimize(engine="spark").executeCompaction().versions == ()


def test_an_optimize_that_makes_no_sense_is_refused(spark, db, lake):
    spark.sql("CREATE TABLE lake.opt.u (id BIGINT) USING delta")
    for wrong in ({"engine": "flink"}, {"engine": "spark", "target_size": "1 MB"}):
        with pytest.raises(ValidationError):
            db.table("opt.u").optimize(**wrong).executeCompaction()
