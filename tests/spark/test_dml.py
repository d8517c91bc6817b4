"""Delete, update and merge: delta-spark's verbs, compared with stock Delta on a plain table."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import functions as sql

import deltasql
from deltasql.errors import SchemaMismatchError, ValidationError
from tests.readers.engines import DeltaRs, DuckDb, lines, place
from tests.sizes import FULL
from tests.spark.cross_check import STOCK_FAILS, rows

# Random operations meet plain tables too, in test_three_engines.
KINDS = {
    "plain": {},
    "both": {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
}
ROWS = "SELECT id, id % 3 AS p, concat('v', id) AS v FROM range(12)"
UPDATES = "SELECT * FROM VALUES (1L, 1L, 'm1'), (7L, 7L, 'm7'), (100L, 1L, 'n') AS t(id, p, v)"


@pytest.fixture(params=KINDS if FULL else ["both"])
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def table(spark, db, name, kind):
    db.write(spark.sql(ROWS).repartition(1), name, partition_by="p", properties=kind)
    return db.table(name)


@pytest.fixture
def pair(spark, db, name, stock, kind, table):
    """Our table and a plain one with the same rows."""
    plain = stock()
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in kind.items())
    properties = f"TBLPROPERTIES ({texts})" if texts else ""
    spark.sql(f"CREATE TABLE {plain} USING delta PARTITIONED BY (p) {properties} AS {ROWS}")
    return table, plain


def same(spark, db, table, plain, kind):
    """The same rows; and with a feed, the same changes since the tables were made."""
    assert rows(db.read(table.name)) == rows(spark.table(plain))
    mirror = db.lake.table(table.name)
    names = ["id", "p", "v"]
    for engine in (DeltaRs(), DuckDb()):
        heard = engine.rows(place(mirror), None)
        assert lines(heard, names) == lines(mirror.scan().to_arrow(), names), engine
    if "delta.enableChangeDataFeed" in kind:
        dropped = ("_commit_version", "_commit_timestamp")
        theirs = spark.sql(f"SELECT * FROM table_changes('{plain}', 1)").drop(*dropped)
        assert rows(db.changes(table.name, 1).drop(*dropped)) == rows(theirs)
        mirrored = (
            spark.read.option("readChangeFeed", "true")
            .option("startingVersion", 0)
            .format("delta")
            .load(db.lake.table(table.name).location)
        )
        assert rows(mirrored) == rows(db.changes(table.name, 0))


def test_delete(spark, db, pair, kind):
    table, plain = pair
    for condition in ("id IN (4, 5) OR v = 'v6'", "p = 0", "id > 10 AND length(v) = 3"):
        table.delete(condition)
        spark.sql(f"DELETE FROM {plain} WHERE {condition}")
    same(spark, db, table, plain, kind)
    table.delete()
    assert db.read(table.name).count() == 0


def test_update(spark, db, pair, kind):
    table, plain = pair
    table.update("id > 6", {"v": "concat(v, '!')", "p": "p + 1"})
    spark.sql(f"UPDATE {plain} SET v = concat(v, '!'), p = p + 1 WHERE id > 6")
    table.update(sql.col("id") == 2, {"target.v": sql.lit("two")})
    spark.sql(f"UPDATE {plain} SET v = 'two' WHERE id = 2")
    table.update(set={"v": "upper(v)"})
    spark.sql(f"UPDATE {plain} SET v = upper(v)")
    same(spark, db, table, plain, kind)


def test_merge(spark, db, pair, kind):
    table, plain = pair
    updates = spark.sql(UPDATES)
    updates.createOrReplaceTempView("updates")
    (
        table.merge(updates, "target.id = source.id")
        .whenMatchedDelete("source.p = 7")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    spark.sql(
        f"MERGE INTO {plain} t USING updates s ON t.id = s.id WHEN MATCHED AND s.p = 7 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    (
        table.alias("t")
        .merge(updates.alias("s"), "t.id = s.id")
        .whenNotMatchedBySourceUpdate("t.id = 2", {"v": "'gone'"})
        .whenNotMatchedBySourceDelete("t.id > 8")
        .execute()
    )
    spark.sql(
        f"MERGE INTO {plain} t USING updates s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND "
        "t.id = 2 THEN UPDATE SET v = 'gone' WHEN NOT MATCHED BY SOURCE AND t.id > 8 THEN DELETE"
    )
    (
        table.merge(spark.table("updates"), "target.id = updates.id AND target.p = 1")
        .whenNotMatchedInsert("updates.id > 5", {"id": "updates.id", "v": "'x'"})
        .execute()
    )
    spark.sql(
        f"MERGE INTO {plain} t USING updates s ON t.id = s.id AND t.p = 1 WHEN NOT MATCHED AND "
        "s.id > 5 THEN INSERT (id, v) VALUES (s.id, 'x')"
    )
    same(spark, db, table, plain, kind)


@pytest.mark.parametrize("kind", [KINDS["both"]])
def test_a_row_that_matches_twice(spark, db, pair, kind):
    table, plain = pair
    doubled = spark.sql("SELECT id, id AS p, 'd' AS v FROM VALUES (1L), (1L), (5L) AS t(id)")
    doubled.createOrReplaceTempView("doubled")
    version = db.lake.table(table.name).version
    with pytest.raises(ValidationError, match="several rows"):
        table.merge(doubled, "target.id = source.id").whenMatchedUpdateAll().execute()
    assert db.lake.table(table.name).version == version
    # To be deleted twice is to be deleted.
    table.merge(doubled, "target.id = source.id").whenMatchedDelete().execute()
    spark.sql(f"MERGE INTO {plain} t USING doubled s ON t.id = s.id WHEN MATCHED THEN DELETE")
    same(spark, db, table, plain, kind)


@pytest.mark.parametrize("kind", [KINDS["plain"]])
@pytest.mark.parametrize(
    "clauses",
    [
        {"WHEN MATCHED AND s.v = 'x' THEN DELETE": ("whenMatchedDelete", "s.v = 'x'")},
        {
            "WHEN MATCHED AND s.v = 'd' THEN DELETE": ("whenMatchedDelete", "s.v = 'd'"),
            "WHEN NOT MATCHED AND s.v = 'x' THEN INSERT *": (
                "whenNotMatchedInsertAll",
                "s.v = 'x'",
            ),
        },
        {
            "WHEN NOT MATCHED BY SOURCE AND t.v = 'x' THEN DELETE": (
                "whenNotMatchedBySourceDelete",
                "t.v = 'x'",
            )
        },
    ],
    ids=["for neither", "for one, and inserts", "for none"],
)
def test_a_row_that_matches_twice_though_no_clause_applies_twice(spark, db, pair, kind, clauses):
    """Stock Delta refuses it, too, whatever the clauses make of it."""
    table, plain = pair
    spark.sql(
        "SELECT id, id AS p, v FROM VALUES (1L, 'd'), (1L, 'e') AS t(id, v)"
    ).createOrReplaceTempView("unlike")
    merge = table.alias("t").merge(spark.table("unlike").alias("s"), "t.id = s.id")
    for verb, condition in clauses.values():
        merge = getattr(merge, verb)(condition)
    with pytest.raises(ValidationError, match="several rows"):
        merge.execute()
    with pytest.raises(Exception, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING"):
        spark.sql(f"MERGE INTO {plain} t USING unlike s ON t.id = s.id {' '.join(clauses)}")
    same(spark, db, table, plain, kind)


def test_a_null_key_that_no_insert_takes(spark, db, table, stock, kind):
    """Stock Delta fails on this one with vectors, so the table to compare with has none."""
    source = "SELECT * FROM VALUES (100L, 1L, 'c'), (null, null, 'a') AS t(id, p, v)"
    (
        table.alias("t")
        .merge(spark.sql(source).alias("s"), "t.id <=> s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll("s.v <=> 'c'")
        .whenNotMatchedBySourceDelete("t.v = 'a'")
        .execute()
    )
    merge = (
        f"MERGE INTO {{}} t USING ({source}) s ON t.id <=> s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.v <=> 'c' THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.v = 'a' THEN DELETE"
    )
    plain, failing = stock(), stock()
    spark.sql(f"CREATE TABLE {plain} USING delta AS {ROWS}")
    spark.sql(merge.format(plain))
    assert rows(db.read(table.name)) == rows(spark.table(plain))
    # When it no longer does, the made-up operations need not leave it out any more.
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE {failing} USING delta {properties} AS {ROWS}")
    with pytest.raises(Exception, match=STOCK_FAILS):
        spark.sql(merge.format(failing))


@pytest.mark.parametrize("kind", [KINDS["plain"], KINDS["both"]][not FULL :])
def test_schema_evolution(spark, db, table, kind):
    source = spark.sql("SELECT 1L AS id, 1L AS p, 'new' AS v, 5 AS extra")
    with pytest.raises(SchemaMismatchError, match="extra"):
        table.merge(source, "target.id = source.id").whenMatchedUpdate(
            set={"extra": "source.extra"}
        ).execute()
    merge = table.merge(source, "target.id = source.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = db.read(table.name).where("id < 3").orderBy("id").collect()
    assert [tuple(row) for row in found] == [
        (0, 0, "v0", None),
        (1, 1, "new", 5),
        (2, 2, "v2", None),
    ]


@pytest.mark.parametrize("kind", [KINDS["plain"]])
def test_only_files_that_can_match_are_touched(spark, db, name, kind):
    frame = spark.range(0, 100, 1, 10).withColumn("p", sql.floor(sql.col("id") / 50))
    db.write(frame, name, partition_by="p")
    before = set(db.lake.table(name).snapshot().files().column("path").to_pylist())
    source = spark.createDataFrame([(55, 1), (57, 1)], "id long, p long")
    table = db.table(name)
    on = "target.p = source.p AND target.id = source.id"
    table.merge(source, on).whenMatchedDelete().execute()
    after = set(db.lake.table(name).snapshot().files().column("path").to_pylist())
    assert len(before - after) == 1
    # Neither the other partition nor files out of range were read: others may change them.
    source = spark.createDataFrame([(61, 1)], "id long, p long")
    merge = table.merge(source, on)
    with db.transaction() as tx:
        tx.table(name).delete("id = 62")
        db.table(name).delete("id = 3")
    assert merge.whenMatchedDelete().execute() == db.lake.table(name).version
    assert db.read(name).count() == 100 - 5


@pytest.mark.parametrize("kind", [KINDS["plain"], KINDS["both"]][not FULL :])
def test_disjoint_partitions_both_win_and_overlapping_ones_conflict(spark, db, table, kind):
    def change(tx, condition):
        tx.table(table.name).update(condition, {"v": "concat(v, '+')"})

    with db.transaction() as tx:
        change(tx, "p = 1 AND id > 3")
        table.update("p = 2 AND id > 3", {"v": "concat(v, '-')"})
    with pytest.raises(deltasql.CommitError), db.transaction() as tx:  # noqa: PT012
        change(tx, "p = 1 AND id > 3")
        table.update("p = 1 AND id > 3", {"v": "concat(v, '*')"})
    found = {row.id: row.v for row in db.read(table.name).collect()}
    assert (found[4], found[5], found[1]) == ("v4+*", "v5-", "v1")


@pytest.mark.parametrize("kind", [KINDS["plain"]])
def test_retries_rerun_on_the_newer_version(spark, db, name, kind):
    db.write(spark.sql("SELECT 1L AS id, 0L AS n"), name)
    failures = []

    def add():
        try:
            for _ in range(2):
                db.table(name).update("id = 1", {"n": "n + 1"}, retries=20)
        except Exception as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert db.read(name).collect()[0].n == 6


@pytest.mark.parametrize("kind", [KINDS["plain"], KINDS["both"]][not FULL :])
def test_what_the_table_computes_and_checks(spark, db, name, kind):
    db.create_table(
        name,
        "id BIGINT NOT NULL, twice BIGINT GENERATED ALWAYS AS (id * 2), s STRING DEFAULT 'none'",
        properties=kind,
    )
    source = spark.sql("SELECT 1L AS id")
    merge = db.table(name).merge(source, "target.id = source.id")
    merge.whenNotMatchedInsert(values={"id": "source.id"}).execute()
    db.table(name).update("id = 1", {"id": "5"})
    assert [tuple(row) for row in db.read(name).collect()] == [(5, 10, "none")]
    with pytest.raises(SchemaMismatchError):
        db.table(name).update("id = 5", {"id": "null"})


@pytest.mark.parametrize("kind", [KINDS["plain"]])
def test_misuse_is_told(spark, db, table, kind):
    source = spark.sql(UPDATES)
    merge = table.merge(source, "target.id = source.id")
    with pytest.raises(ValidationError, match="no clause"):
        merge.execute()
    with pytest.raises(ValidationError, match="never apply"):
        merge.whenMatchedDelete().whenMatchedUpdateAll().execute()
    with pytest.raises(SchemaMismatchError, match="no column"):
        table.update("id = 1", {"nope": "1"})
    with pytest.raises(SchemaMismatchError, match="no column p"):
        table.merge(source.drop("p"), "target.id = source.id").whenMatchedUpdateAll().execute()
    with pytest.raises(ValidationError, match="random"):
        table.delete("rand() < 0.5")
    with pytest.raises(ValidationError, match="random"):
        table.merge(source, "target.id = source.id AND rand() < 1").whenMatchedDelete().execute()
    version = db.lake.table(table.name).version
    assert table.delete("id = 12345") == version, "nothing to do commits nothing"
    assert db.lake.table(table.name).version == version


@pytest.mark.parametrize("as_url", [True, False])
def test_a_folder_is_found_however_it_is_written(spark, tmp_path, name, as_url):
    folder = tmp_path / "odd é b%20c+"
    where = folder.as_uri() if as_url else str(folder)
    with deltasql.connect(f"sqlite:///{tmp_path / 'lake.db'}", location=where) as lake:
        db = deltasql.spark.attach(spark, lake)
        db.write(spark.sql(ROWS).repartition(2), name)
        table = db.table(name)
        assert table.delete("id < 3") == 1
        assert table.update("id = 4", {"v": "'u'"}) == 2
        merge = table.merge(spark.sql(UPDATES), "target.id = source.id")
        assert merge.whenMatchedUpdateAll().execute() == 3
        gone = spark.sql(f"{ROWS} WHERE id = 9")
        assert db.write(gone, name, "overwrite", replace_where="id >= 9") == 4
        found = {row.id: row.v for row in db.read(name).collect()}
        assert lake.table(name).scan().to_arrow().num_rows == len(found)
        assert lake.table(name).mirror.validate().ok
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [folder.name]
    assert found == {3: "v3", 4: "u", 5: "v5", 6: "v6", 7: "m7", 8: "v8", 9: "v9"}


@pytest.mark.parametrize("by", [None, "d"], ids=["plain", "partitioned"])
def test_merge_by_dates_that_python_cannot_hold(spark, db, name, by):
    """Spark's years go far beyond 9999; what the source reaches is told without Python's dates."""
    rows = "SELECT id, date_add(DATE '2026-01-01', CAST(id AS INT)) AS d, 'old' AS v FROM range(4)"
    db.write(spark.sql(rows).repartition(1), name, partition_by=by)
    source = spark.sql(
        "SELECT * FROM VALUES (DATE '2026-01-02', 'new'), (DATE '12026-01-01', 'far'), "
        "(DATE '-0044-03-15', 'ides') AS t(d, v)"
    )
    table = db.table(name)
    table.merge(source, "target.d = source.d").whenMatchedUpdate(set={"v": "source.v"}).execute()
    found = db.read(name).selectExpr("id", "v").collect()
    assert sorted(tuple(row) for row in found) == [(0, "old"), (1, "new"), (2, "old"), (3, "old")]
    far = source.where("v = 'far'")
    table.merge(far, "target.d = source.d").whenMatchedDelete().execute()
    assert db.read(name).count() == 4
    found = db.read(name, where="d < DATE '12026-01-01'") if by is None else db.read(name)
    assert found.count() == 4
