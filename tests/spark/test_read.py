"""Reading: every option and type, by both routes, as stock Delta reads the same rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException

from deltasql.errors import TableNotFoundError, VersionNotFoundError
from tests.readers.tables import CASES
from tests.spark.judge import rows

TYPES = {
    "string": "'é\"\\n'",
    "bigint": "9223372036854775807",
    "int": "-1",
    "smallint": "cast(1 as smallint)",
    "tinyint": "cast(-128 as tinyint)",
    "float": "cast(0.1 as float)",
    "double": "cast('NaN' as double)",
    "boolean": "true",
    "binary": "X'00FF'",
    "date": "date'1969-07-20'",
    "timestamp": "timestamp'2026-02-28 01:02:03.456789'",
    "timestamp_ntz": "timestamp_ntz'1900-02-28 01:02:03.456789'",
    "decimal(38,10)": "cast('1.0000000001' as decimal(38,10))",
    "array<int>": "array(1, null)",
    "map<string,struct<a:bigint>>": "map('k', named_struct('a', 1L))",
    "struct<a:array<struct<b:string>>,c:int>": (
        "named_struct('a', array(named_struct('b', 'x')), 'c', 1)"
    ),
}


def read(spark, db, route, name, **options):
    """The same read by either route."""
    if route == "native":
        names = {"versionAsOf": "version", "timestampAsOf": "timestamp"}
        return db.read(name, **{names.get(key, key): value for key, value in options.items()})
    where = options.pop("where", None)
    frame = spark.read.format("deltasql").options(**options).load(name)
    return frame if where is None else frame.where(where)


@pytest.fixture(scope="module")
def typed(spark, db, lake):
    columns = ", ".join(f"{expr} AS c{n}" for n, expr in enumerate(TYPES.values()))
    nulls = ", ".join(f"cast(null as {kind}) AS c{n}" for n, kind in enumerate(TYPES))
    db.write(spark.sql(f"SELECT {columns} UNION ALL SELECT {nulls}"), "read.typed")
    lake.mirror.run(once=True)
    return "read.typed"


@pytest.fixture(scope="module")
def versions(spark, db, lake):
    name = "read.versions"
    frame = spark.range(10).selectExpr("id", "id % 2 AS p", "cast(id AS string) AS s")
    db.write(frame, name, partition_by="p")
    db.write(frame.selectExpr("id + 10 AS id", "p", "s"), name)
    db.write(
        frame.where("id > 7"), name, mode="overwrite", replace_where="p = 1 AND id > 7 OR p = 0"
    )
    lake.mirror.run(once=True)
    return name


@pytest.mark.parametrize("route", ["native", "source"])
def test_every_type_reads_as_in_stock_delta(spark, db, lake, typed, route):
    ours = read(spark, db, route, typed)
    theirs = spark.read.format("delta").load(lake.table(typed).location)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize("route", ["native", "source"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_and_times_read_as_in_stock_delta(spark, db, lake, versions, route, version):
    table = lake.table(versions)
    stock = spark.read.format("delta").option("versionAsOf", version).load(table.location)
    assert rows(read(spark, db, route, versions, versionAsOf=version)) == rows(stock)
    moment = table.snapshot(version).timestamp.isoformat()
    assert rows(read(spark, db, route, versions, timestampAsOf=moment)) == rows(stock)


@pytest.mark.parametrize("route", ["native", "source"])
@pytest.mark.parametrize(
    "where",
    [
        "p = 1",
        "p = 0 AND id > 12",
        "id IN (1, 3L, 15) OR s = '7'",
        "s LIKE '1%'",
        "s IS NULL",
        "NOT p <=> 1",
        "length(s) = 1 AND id BETWEEN 2 AND 4",
        "id > 3 + 4",
        's = "7"',
        "s = 'a\\nb'",
        "false",
    ],
)
def test_filters_read_as_in_stock_delta(spark, db, lake, versions, route, where):
    stock = spark.read.format("delta").load(lake.table(versions).location).where(where)
    assert rows(read(spark, db, route, versions, where=where)) == rows(stock)


def test_files_are_skipped_in_sql_before_spark_plans(db, lake, versions):
    table = lake.table(versions)
    every = db.read(versions, version=1).inputFiles()
    by_partition = db.read(versions, version=1, where="p = 1").inputFiles()
    by_stats = db.read(versions, version=1, where="id >= 10").inputFiles()
    assert len(every) == table.snapshot(1).files().num_rows
    assert 0 < len(by_partition) < len(every)
    assert 0 < len(by_stats) < len(every)
    assert not db.read(versions, version=1, where="id > 1000").inputFiles()


def test_pushed_filters_skip_files(spark, db, versions, tmp_path):
    frame = spark.read.format("deltasql").load(versions).where("id > 1000")
    # No file is left, so that there is one task, which has nothing to do.
    assert frame.rdd.getNumPartitions() <= 1
    assert frame.count() == 0


@pytest.mark.parametrize(
    "about",
    [
        "nested",
        "vectors",
        "mapped by name",
        "mapped by id",
        "mapped, by every type",
        "by every type",
        "by odd texts",
        "all removed",
    ],
)
def test_tables_of_the_readers_matrix(spark, db, lake, name, about):
    case = CASES[about]
    table = lake.create_table(
        name, case.example.schema, partition_by=case.by, properties=dict(case.properties)
    )
    case.fill(table)
    lake.mirror.run(once=True)
    for version in (None, 1):
        options = {} if version is None else {"versionAsOf": version}
        stock = spark.read.format("delta").options(**options).load(table.location)
        for route in ("native", "source"):
            ours = read(spark, db, route, name, **options)
            assert rows(ours) == rows(stock), route
            assert ours.schema == stock.schema, route


def test_widened_types(spark, db, lake, name):
    properties = {"delta.enableTypeWidening": "true"}
    db.create_table(name, "i INT, a ARRAY<SMALLINT>, s STRUCT<d: DATE>", properties=properties)
    db.write(spark.sql("SELECT 1 i, array(1S) a, named_struct('d', date'2026-01-01') s"), name)
    noon = "named_struct('d', timestamp_ntz'2026-01-01 12:00:00')"
    wide = f"SELECT 5000000000 i, array(70000) a, {noon} s"
    db.write(spark.sql(wide), name, merge_schema=True)
    lake.mirror.run(once=True)
    stock = spark.read.format("delta").load(lake.table(name).location)
    assert stock.schema.simpleString() == "struct<i:bigint,a:array<int>,s:struct<d:timestamp_ntz>>"
    for route in ("native", "source"):
        ours = read(spark, db, route, name)
        assert ours.schema == stock.schema, route
        assert rows(ours) == rows(stock), route


def test_variant_is_native_only(spark, db, lake, name):
    db.write(spark.sql("SELECT 1 id, parse_json('{\"a\": [1]}') v"), name)
    (row,) = db.read(name).selectExpr("v:a[0]::int AS a").collect()
    assert row.a == 1
    with pytest.raises(PySparkException, match="native route"):
        spark.read.format("deltasql").load(name).collect()


@pytest.mark.parametrize("state", ["off", "empty", "broken"])
def test_snapshot_comes_from_sql_whatever_the_mirror_is(spark, db, lake, name, state):
    db.write(spark.range(3), name)
    table = lake.table(name)
    lake.mirror.run(once=True)
    table.mirror.pause()
    log = Path(urlsplit(table.location).path) / "_delta_log"
    if state != "off":
        shutil.rmtree(log)
    if state == "broken":
        log.mkdir()
        (log / f"{0:020}.json").write_text("not json\n")
        (log / "_last_checkpoint").write_text("{")
    db.write(spark.range(3, 5), name)
    db.write(spark.range(7, 8), name, mode="overwrite", replace_where="id < 2 or id = 7")
    expected = [2, 3, 4, 7]
    assert sorted(row.id for row in db.read(name).collect()) == expected
    found = spark.read.format("deltasql").load(name)
    found.selectExpr("id + 100 AS id").write.format("deltasql").mode("append").save(name)
    assert db.read(name).count() == 8


def test_reads_inside_a_snapshot_see_one_cut(spark, db, name):
    other = f"{name}_other"
    db.write(spark.range(1), name)
    db.write(spark.range(1), other)
    with db.snapshot():
        assert db.read(name).count() == 1
        db.write(spark.range(5), name)
        db.write(spark.range(5), other)
        assert db.read(name).count() == db.read(other).count() == 1
        db.write(spark.range(1), f"{name}_late")
        with pytest.raises(TableNotFoundError, match="after the snapshot"):
            db.read(f"{name}_late")
        assert db.read(name, version=1).count() == 6
    assert db.read(name).count() == db.read(other).count() == 6


def test_views_join(spark, db):
    db.write(spark.range(4).selectExpr("id", "id * 2 AS v"), "shop.orders")
    db.write(spark.range(2).selectExpr("id", "'x' AS n"), "shop.eu.people")
    assert db.register_views("shop") == ["eu_people", "orders"]
    found = spark.sql("SELECT sum(v) AS s FROM orders JOIN eu_people USING (id)").collect()
    assert found[0].s == 2


def test_absent_tables_and_versions_say_so(spark, db, versions):
    with pytest.raises(TableNotFoundError, match="no table"):
        db.read("no.such")
    with pytest.raises(VersionNotFoundError, match="0"):
        db.read(versions, version=99)
    with pytest.raises(PySparkException, match="no version 99"):
        spark.read.format("deltasql").option("versionAsOf", 99).load(versions)


def test_hand_over_escapes_odd_paths(db):
    import pyarrow as pa

    from deltasql.spark.handover import handed_over
    from deltasql.spec.actions import AddFile, DeletionVector
    from deltasql.store.file_rows import to_table

    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="ab", size_in_bytes=1, cardinality=2
    )
    adds = [
        AddFile(path='a"b\\c', size=1, modification_time=2, partition_values={"p": 'x"'}),
        AddFile(path="plain", size=3, modification_time=4, deletion_vector=vector, base_row_id=7),
    ]
    table = to_table(adds)
    with handed_over(
        [*table.to_batches(), *table.slice(0, 0).to_batches(), *table.to_batches()]
    ) as file:
        found = json.loads(file.read_text())
    assert [item["path"] for item in found] == ['a"b\\c', "plain"] * 2
    assert found[0]["partitionValues"] == {"p": 'x"'}
    assert found[1]["deletionVector"]["cardinality"] == 2
    assert found[1]["baseRowId"] == 7
    with handed_over(iter([pa.RecordBatch.from_pylist([], schema=table.schema)])) as file:
        assert json.loads(file.read_text()) == []
    assert not file.exists()
