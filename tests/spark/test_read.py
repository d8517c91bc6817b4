"""Reading: both routes find at every version, time and condition what stock Delta finds in a
plain table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException

from deltasql.errors import TableNotFoundError, VersionNotFoundError
from tests.readers.tables import CASES
from tests.spark.routes import NAMES_NATIVE, Found, Native, Source, new_name, new_plain

FIRST = "SELECT id, id % 3 AS p, cast(id AS string) AS s FROM range(12)"
MORE = "SELECT id + 100 AS id, 1L AS p, 'new' AS s FROM range(2)"
COLUMNS = "id BIGINT, p BIGINT, s STRING"
STEPS = [
    (FIRST, {}),
    (f"SELECT id + 10 AS id, p, s FROM ({FIRST})", {}),
    (MORE, {"mode": "overwrite"}),
    ("SELECT 7L id, 1L p, '1\\n' s UNION ALL SELECT 8L, 0L, null", {}),
    (FIRST, {}),
]
FILTERS = [
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
]


@pytest.fixture(scope="module")
def versions(spark, db, plain, route, known):
    """A table in several versions, ours and a plain one, partitioned by p."""

    def ask() -> str:
        name = new_plain(spark, COLUMNS, by="p")
        for sql, options in STEPS:
            plain.write(spark.sql(sql), name, **options)
        return name

    name = new_name()
    db.create_table(name, COLUMNS, ["p"])
    for sql, options in STEPS:
        route.write(spark.sql(sql), name, **options)
    return name, known("versions", ask)


@pytest.mark.parametrize("version", range(1 + len(STEPS)))
def test_versions_and_times(spark, db, plain, route, known, versions, version):
    ours, theirs = versions
    expected = known(
        ("version", version), lambda: Found.of(plain.read(theirs, versionAsOf=version))
    )
    history = known("history", lambda: spark.sql(f"DESCRIBE HISTORY {theirs}").collect())
    (when,) = [str(row.timestamp) for row in history if row.version == version]
    by_time = known(("time", version), lambda: Found.of(plain.read(theirs, timestampAsOf=when)))
    assert by_time == expected
    assert Found.of(route.read(ours, versionAsOf=version)) == expected
    moment = db.lake.table(ours).snapshot(version).timestamp.isoformat()
    assert Found.of(route.read(ours, timestampAsOf=moment)) == expected


@pytest.mark.parametrize("where", FILTERS)
def test_filters(plain, route, known, versions, where):
    ours, theirs = versions
    expected = known(("where", where), lambda: Found.of(plain.read(theirs, where)))
    assert Found.of(route.read(ours, where)) == expected


@pytest.fixture(scope="module")
def parted(spark, db):
    """Two writes into three partitions."""
    name = new_name()
    for sql, options in STEPS[:2]:
        db.write(spark.sql(sql), name, partition_by="p", **options)
    return name


def test_files_are_skipped_in_sql_before_spark_plans(db, lake, parted):
    every = db.read(parted).inputFiles()
    by_partition = db.read(parted, where="p = 1").inputFiles()
    by_stats = db.read(parted, where="id > 15").inputFiles()
    assert len(every) == lake.table(parted).snapshot().files().num_rows
    assert 0 < len(by_partition) < len(every)
    assert 0 < len(by_stats) < len(every)
    assert not db.read(parted, where="id > 1000").inputFiles()


def test_pushed_filters_skip_files(spark, parted):
    frame = spark.read.format("deltasql").load(parted).where("id > 1000")
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
    """What only other writers make: stock Delta reads them in the mirror."""
    case = CASES[about]
    table = lake.create_table(
        name, case.example.schema, partition_by=case.by, properties=dict(case.properties)
    )
    case.fill(table)
    lake.mirror.run(once=True)
    for options in ({}, {"versionAsOf": 1}):
        expected = Found.of(Source(spark, "delta").read(table.location, **options))
        for route in (Native(db), Source(spark)):
            assert Found.of(route.read(name, **options)) == expected, route


def test_widened_types(spark, db, lake, name):
    properties = {"delta.enableTypeWidening": "true"}
    db.create_table(name, "i INT, a ARRAY<SMALLINT>, s STRUCT<d: DATE>", properties=properties)
    db.write(spark.sql("SELECT 1 i, array(1S) a, named_struct('d', date'2026-01-01') s"), name)
    noon = "named_struct('d', timestamp_ntz'2026-01-01 12:00:00')"
    wide = f"SELECT 5000000000 i, array(70000) a, {noon} s"
    db.write(spark.sql(wide), name, merge_schema=True)
    lake.mirror.run(once=True)
    stock = Source(spark, "delta").read(lake.table(name).location)
    assert stock.schema.simpleString() == "struct<i:bigint,a:array<int>,s:struct<d:timestamp_ntz>>"
    for route in (Native(db), Source(spark)):
        assert Found.of(route.read(name)) == Found.of(stock), route


def test_variant_is_native_only(spark, db, name):
    db.write(spark.sql("SELECT 1 id, parse_json('{\"a\": [1]}') v"), name)
    (row,) = db.read(name).selectExpr("v:a[0]::int AS a").collect()
    assert row.a == 1
    with pytest.raises(PySparkException, match=NAMES_NATIVE):
        Source(spark).read(name).collect()
    with pytest.raises(PySparkException, match=NAMES_NATIVE):
        Source(spark).write(spark.sql("SELECT 1 id"), name)


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


def test_absent_tables_and_versions_say_so(spark, db, parted):
    with pytest.raises(TableNotFoundError, match="no table"):
        db.read("no.such")
    with pytest.raises(VersionNotFoundError, match="0"):
        db.read(parted, version=99)
    with pytest.raises(PySparkException, match="no version 99"):
        spark.read.format("deltasql").option("versionAsOf", 99).load(parted)


def test_hand_over_escapes_odd_paths(db):
    import pyarrow as pa

    from deltasql.spark.native.file_transfer import handed_over
    from deltasql.spec.actions import AddFile, DeletionVector
    from deltasql.store.file_rows import to_table

    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="ab", size_in_bytes=1, cardinality=2
    )
    adds = [
        AddFile(
            path='a"b\\c',
            size=1,
            modification_time=2,
            partition_values={"p": 'x"'},
            clustering_provider='p"',
        ),
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
    assert [item.get("clusteringProvider") for item in found[:2]] == ['p"', None]
    with handed_over(iter([pa.RecordBatch.from_pylist([], schema=table.schema)])) as file:
        assert json.loads(file.read_text()) == []
    assert not file.exists()
