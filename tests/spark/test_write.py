"""Writing: every mode does to our table what stock Delta does to a plain one."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException

from deltasql.errors import SchemaMismatchError, ValidationError
from tests.spark.cross_check import rows

FIRST = "SELECT id, id % 3 AS p, cast(id AS string) AS s FROM range(12)"
MORE = "SELECT id + 100 AS id, 1L AS p, 'new' AS s FROM range(2)"


def both(spark, db, name, stock, sql, *, mode="append", by=(), **options):
    """Write the same rows to ours and to a plain Delta table, and compare what is there then."""
    frame = spark.sql(sql)
    named = {
        "replace_where": "replaceWhere",
        "merge_schema": "mergeSchema",
        "overwrite_schema": "overwriteSchema",
        "partition_overwrite": "partitionOverwriteMode",
    }
    writer = frame.write.format("delta").mode(mode)
    if by:
        writer = writer.partitionBy(*by)
    for key, value in options.items():
        writer = writer.option(named[key], str(value).lower() if value is True else value)
    writer.saveAsTable(stock)
    db.write(frame, name, mode=mode, partition_by=by, **options)
    compare(spark, db, name, stock)


def compare(spark, db, name, stock):
    ours, theirs = db.read(name), spark.table(stock)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    partitions = spark.sql(f"DESCRIBE DETAIL {stock}").collect()[0].partitionColumns
    assert list(db.lake.table(name).snapshot().metadata.partition_columns) == list(partitions)


@pytest.fixture
def pair(spark, db, name, stock):
    """Our table and a plain one, made from the same rows, partitioned by p."""
    plain = stock()
    both(spark, db, name, plain, FIRST, by=("p",))
    return name, plain


def test_dynamic_overwrite_with_nulls_and_odd_values(spark, db, name, stock):
    plain = stock()
    odd = "(1, 'a b', date'2026-01-01'), (2, null, null), (3, 'x/%', date'2026-01-02')"
    first = f"SELECT col1 i, col2 p, col3 d FROM VALUES {odd}"
    both(spark, db, name, plain, first, by=("p", "d"))
    nulls = "cast(null AS string) p, cast(null AS date) d"
    again = f"SELECT 7 i, {nulls} UNION ALL SELECT 8, 'x/%', date'2026-01-02'"
    both(spark, db, name, plain, again, mode="overwrite", partition_overwrite="dynamic")
    both(
        spark, db, name, plain, f"{again} LIMIT 0", mode="overwrite", partition_overwrite="dynamic"
    )


def test_schema_grows(spark, db, pair):
    wider = "SELECT 50L id, 2L p, 1.5D AS extra, named_struct('a', 1) AS st"
    both(spark, db, *pair, wider, merge_schema=True)
    deeper = "SELECT 51L id, 2L p, named_struct('a', 1, 'b', 'x') AS st, array(1) AS arr"
    both(spark, db, *pair, deeper, merge_schema=True)


def test_schema_is_replaced(spark, db, pair):
    both(spark, db, *pair, "SELECT 'x' AS id, 1 AS other", mode="overwrite", overwrite_schema=True)
    both(
        spark, db, *pair, "SELECT 1 AS a, 2 AS b",
        mode="overwrite", overwrite_schema=True, by=("b",),
    )  # fmt: skip


def test_column_mapping_survives_new_columns(spark, db, lake, name):
    db.create_table(name, "id INT, `b c` STRING", properties={"delta.columnMapping.mode": "name"})
    db.write(spark.sql("SELECT 1 id, 'x' `b c`"), name)
    db.write(spark.sql("SELECT 2 id, 'y' `b c`, 3 `d e`"), name, merge_schema=True)
    assert rows(db.read(name)) == ["(1, 'x', None)", "(2, 'y', 3)"]
    db.write(spark.sql("SELECT 4 `d e`"), name, mode="overwrite", overwrite_schema=True)
    assert rows(db.read(name)) == ["(4,)"]


def test_casts_fail_on_what_does_not_fit_also_where_ansi_is_off(spark, db, name):
    db.create_table(name, "a INT")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(SchemaMismatchError):
            db.write(spark.sql("SELECT 'x' AS a"), name)
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


RULES = (
    "id BIGINT GENERATED ALWAYS AS IDENTITY, n INT NOT NULL, d INT DEFAULT 7, "
    "g INT GENERATED ALWAYS AS (n * 2), p STRING"
)


@pytest.fixture(scope="module")
def ruled(db):
    db.create_table("write.ruled", RULES, ["p"], {"delta.constraints.positive": "n > 0"})
    return "write.ruled"


@pytest.mark.parametrize(
    ("sql", "about"),
    [
        ("SELECT -1 n, 'x' p", "positive"),
        ("SELECT cast(null AS int) n, 'x' p", "positive|NOT NULL"),
        ("SELECT 1 d, 'x' p", "NOT NULL"),
        ("SELECT 3 n, 7 g, 'x' p", "Generated Column"),
        ("SELECT 9 id, 3 n, 'x' p", "IDENTITY"),
        ("SELECT 3 n, 'x' p, 1 stranger", "stranger"),
        ("SELECT 3 n, 3 N2, 4 n2, 'x' p", "two columns"),
    ],
)
def test_rules_are_enforced_and_nothing_is_committed(spark, db, ruled, sql, about):
    before = db.lake.table(ruled).version
    with pytest.raises(SchemaMismatchError, match=about):
        db.write(spark.sql(sql), ruled)
    assert db.lake.table(ruled).version == before


def test_defaults_generated_and_identity_columns_are_filled(spark, db, ruled):
    db.write(spark.sql("SELECT 3 n, 'x' p"), ruled)
    db.write(spark.sql("SELECT 4 n, 'y' p, 1 d, 8 g"), ruled)
    assert rows(db.read(ruled)) == ["(1, 3, 7, 6, 'x')", "(2, 4, 1, 8, 'y')"]
    (low,) = [
        field.metadata["delta.identity.highWaterMark"]
        for field in db.lake.table(ruled).snapshot().state.schema.fields
        if field.name == "id"
    ]
    assert low == 2


def test_reserved_columns_of_the_change_feed_are_refused(spark, db, name):
    db.create_table(name, "a INT", properties={"delta.enableChangeDataFeed": "true"})
    with pytest.raises(SchemaMismatchError, match="change data feed"):
        db.write(spark.sql("SELECT 1 a, 'insert' _change_type"), name, merge_schema=True)


def test_rows_outside_of_replace_where_are_refused(spark, db, pair):
    with pytest.raises(SchemaMismatchError, match="replace_where"):
        db.write(spark.sql(MORE), pair[0], mode="overwrite", replace_where="p = 2")
    compare(spark, db, *pair)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "sideways"},
        {"mode": "append", "replace_where": "p = 1"},
        {"mode": "overwrite", "replace_where": "p = 1", "partition_overwrite": "dynamic"},
        {"mode": "overwrite", "partition_overwrite": "some"},
        {"no_such_option": 1},
    ],
    ids=str,
)
def test_options_that_contradict_each_other(spark, db, name, options):
    with pytest.raises(ValidationError):
        db.write(spark.sql(MORE), name, **options)
    assert name not in [table.name for table in db.lake.tables()]


def test_partitioning_by_binary_is_refused(spark, db, name):
    with pytest.raises(ValidationError, match="binary"):
        db.write(spark.sql("SELECT 1 a, X'00' b"), name, partition_by="b")


def test_a_write_happens_once_for_an_application(spark, db, name):
    first = db.write(spark.range(2), name, app_id="etl", app_version=1)
    again = db.write(spark.range(2), name, app_id="etl", app_version=1)
    assert (first, again) == (0, 0)
    assert db.write(spark.range(2), name, app_id="etl", app_version=2) == 1
    assert db.read(name).count() == 4


# How far from the size asked for a file may be that is full, and one that stock Delta packed.
NEAR = 1.25


def far(sizes: list[int], target: int) -> float:
    """The factor between the target and the size that is farthest from it."""
    return max(max(size / target, target / size) for size in sizes)


def test_files_have_stats_and_the_size_asked_for(spark, db, name, stock):
    target, tasks = 1 << 20, 2
    frame = spark.range(120_000, numPartitions=tasks).selectExpr("id", "uuid() AS u", "id % 2 p")
    # Sampled, as the table is new; by the table's own files; and into partitions.
    writes = [{}, {}, {"mode": "overwrite"}, {"partition_by": "p", "overwrite_schema": True}]
    for options in writes:
        mode = "overwrite" if options else "append"
        db.write(frame, name, **{"mode": mode, **options, "target_file_size": target})
        files = db.lake.table(name).snapshot().files()
        newest = files.filter(pc.equal(files.column("version"), db.lake.table(name).version))
        assert newest.num_rows > 3
        # The last file of a task has what is left.
        last = tasks * (2 if "partition_by" in options else 1)
        full = sorted(newest.column("size").to_pylist())[last:]
        assert full
        assert far(full, target) < NEAR, options
        assert sum(newest.column("num_records").to_pylist()) == 120_000
        assert all('"minValues"' in stats for stats in newest.column("stats").to_pylist())
    # Stock Delta's nearest setting packs whole tasks, and never parts one.
    spark.conf.set("spark.databricks.delta.optimizeWrite.binSize", "1")
    plain = stock()
    frame.write.format("delta").option("optimizeWrite", "true").saveAsTable(plain)
    packed = spark.sql(f"SELECT DISTINCT _metadata.file_size AS size FROM {plain}").collect()
    assert far([row.size for row in packed], target) > NEAR
    spark.conf.unset("spark.databricks.delta.optimizeWrite.binSize")


def test_small_files_do_not_tell_what_a_row_takes(spark, db, name):
    for _ in range(3):
        db.write(spark.sql("SELECT 1L AS id, uuid() AS u"), name)
    frame = spark.range(60_000, numPartitions=1).selectExpr("id", "uuid() AS u")
    db.write(frame, name, target_file_size=1 << 20)
    sizes = sorted(db.lake.table(name).snapshot().files().column("size").to_pylist())
    assert far(sizes[4:], 1 << 20) < NEAR


def test_tasks_that_fail_and_run_again_write_each_row_once(spark, db, name):
    from pyspark import TaskContext
    from pyspark.sql.functions import udf

    @udf("bigint")
    def flaky(value):
        context = TaskContext.get()
        if context.attemptNumber() == 0 and value % 10 == 9:
            raise RuntimeError("this attempt fails on purpose")
        return value

    frame = spark.range(40, numPartitions=2).select(flaky("id").alias("id"))
    db.write(frame, name)
    assert sorted(row.id for row in db.read(name).collect()) == list(range(40))
    frame.write.format("deltasql").mode("append").save(name)
    assert db.read(name).count() == 80


def test_a_job_that_fails_commits_nothing(spark, db, name):
    db.write(spark.range(3), name)
    bad = spark.range(10).selectExpr("if(id = 9, raise_error('no'), id) AS id")
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="no"):
            db.write(bad, name, mode=mode)
        with pytest.raises(PySparkException, match="no"):
            bad.write.format("deltasql").mode(mode).save(name)
    assert db.lake.table(name).version == 0
    assert db.read(name).count() == 3
    with pytest.raises(Exception, match="no"):
        db.write(bad, f"{name}_new")
    assert f"{name}_new" not in [table.name for table in db.lake.tables()]


def test_a_table_may_be_overwritten_with_its_own_rows(spark, db, name):
    db.write(spark.range(5), name)
    db.write(db.read(name).where("id > 2"), name, mode="overwrite")
    assert rows(db.read(name)) == ["(3,)", "(4,)"]


def test_a_transaction_is_seen_whole_or_not_at_all(spark, db, name):
    other = f"{name}_other"
    db.write(spark.range(3), name)
    db.write(spark.range(3), other)
    with db.transaction() as tx:
        tx.write(tx.read(name, where="id > 0").selectExpr("id + 10 AS id"), other)
        tx.write(spark.range(7, 8), name, mode="overwrite")
        assert rows(tx.read(name)) == ["(7,)"]
        assert rows(db.read(name)) == rows(spark.range(3))
    assert tx.versions == {name: 1, other: 1}
    assert rows(db.read(other)) == ["(0,)", "(1,)", "(11,)", "(12,)", "(2,)"]

    def half_way() -> None:
        with db.transaction() as tx:
            tx.write(spark.range(1), name)
            tx.write(spark.sql("SELECT 1 stranger"), other)

    with pytest.raises(SchemaMismatchError):
        half_way()
    assert db.lake.table(name).version == 1


def test_many_partitions_at_once(spark, db, name, monkeypatch):
    monkeypatch.setattr("deltasql.spark.native.modes._MANY_PARTITIONS", 2)
    db.write(spark.range(8).selectExpr("id", "id % 4 AS p"), name, partition_by="p")
    fresh = spark.range(3).selectExpr("id + 100 AS id", "id AS p")
    db.write(fresh, name, mode="overwrite", partition_overwrite="dynamic")
    assert rows(db.read(name)) == ["(100, 0)", "(101, 1)", "(102, 2)", "(3, 3)", "(7, 3)"]
