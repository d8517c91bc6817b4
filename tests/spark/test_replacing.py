"""Rows replaced and deleted by a condition: only those of it, and the feed says which."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltasql.errors import ValidationError
from tests.spark.cross_check import rows

FEED = {"delta.enableChangeDataFeed": "true"}
BEFORE = "SELECT id, id % 2 AS p, concat('v', id) AS v FROM range(8)"


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def changes(frame):
    return rows(frame.drop("_commit_version", "_commit_timestamp"))


def test_comparing_two_columns_takes_only_rows_that_match(spark, db, name):
    pairs = "SELECT * FROM VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2) AS t(id, a, b)"
    db.write(spark.sql(pairs), name, partition_by=("a", "b"))
    db.table(name).delete("a = b AND id < 4")
    assert ids(db.read(name)) == [2, 3, 4]
    db.write(spark.sql("SELECT 7 id, 9 a, 9 b"), name, "overwrite", replace_where="a = b")
    assert ids(db.read(name)) == [2, 3, 7]
    with db.transaction() as tx:
        tx.table(name).delete("NOT a <> b")
    assert ids(db.read(name)) == [2, 3]


def test_a_partition_beyond_the_years_of_python_stays(spark, db, name):
    far = "SELECT 1 AS id, date'2026-01-01' AS day UNION ALL SELECT 2, make_date(12026, 1, 1)"
    db.write(spark.sql(far), name, partition_by="day")
    try:
        db.table(name).delete("day = date'2026-01-01'")
        assert ids(db.read(name)) == [2]
        new = spark.sql("SELECT 3 AS id, date'2026-01-02' AS day")
        db.write(new, name, "overwrite", replace_where="day < date'2027-01-01'")
        db.write(new, name, "overwrite", partition_overwrite="dynamic")
        assert ids(db.read(name)) == [2, 3]
        far = spark.sql("SELECT 4 AS id, make_date(12026, 1, 1) AS day")
        db.write(far, name, "overwrite", partition_overwrite="dynamic")
        assert ids(db.read(name)) == [3, 4]
        db.table(name).delete("day > date'2027-01-01'")
        assert ids(db.read(name)) == [3]
    finally:
        # Other readers, the judges of this module, can't hold such dates.
        db.lake.drop_table(name)


def test_the_feed_of_replace_where_is_that_of_stock_delta(spark, db, name, stock):
    plain = stock()
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in FEED.items())
    spark.sql(
        f"CREATE TABLE {plain} USING delta PARTITIONED BY (p) TBLPROPERTIES ({texts}) AS {BEFORE}"
    )
    db.write(spark.sql(BEFORE).coalesce(1), name, partition_by="p", properties=FEED)
    steps = [
        # Of files that keep rows; some of them whole; and of nothing but whole ones.
        ("id = 2", "SELECT 2L AS id, 0L AS p, 'new' AS v"),
        ("p = 1 OR id = 4", "SELECT id + 10 AS id, 1L AS p, 'odd' AS v FROM range(2)"),
        ("p = 1", "SELECT 50L AS id, 1L AS p, 'all' AS v"),
        ("id = 0", "SELECT 0L AS id, 0L AS p, 'none' AS v LIMIT 0"),
        ("v = 'nowhere'", "SELECT 60L AS id, 1L AS p, 'nowhere' AS v"),
    ]
    for where, new in steps:
        frame = spark.sql(new)
        db.write(frame, name, "overwrite", replace_where=where)
        writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", where)
        writer.saveAsTable(plain)
    assert rows(db.read(name)) == rows(spark.table(plain))
    theirs = spark.sql(f"SELECT * FROM table_changes('{plain}', 1)")
    assert changes(db.changes(name, 1)) == changes(theirs)
    # Stock Delta finds the same in the mirror.
    reader = spark.read.option("readChangeFeed", "true").option("startingVersion", 1)
    mirrored = reader.format("delta").load(db.lake.table(name).location)
    assert rows(mirrored) == rows(db.changes(name, 1))


def test_the_feed_in_a_transaction(spark, db, name):
    db.write(spark.sql(BEFORE).coalesce(1), name, properties=FEED)
    with db.transaction() as tx:
        tx.write(spark.sql("SELECT 20L AS id, 0L AS p, 'a' AS v"), name)
        new = spark.sql("SELECT 2L AS id, 0L AS p, 'n' AS v")
        tx.write(new, name, "overwrite", replace_where="id = 2")
    assert ids(db.read(name)) == [0, 1, 2, 3, 4, 5, 6, 7, 20]
    assert changes(db.changes(name, 1)) == [
        "(2, 0, 'n', 'insert')",
        "(2, 0, 'v2', 'delete')",
        "(20, 0, 'a', 'insert')",
    ]


def test_rows_that_stay_keep_what_the_table_numbered(spark, db, name):
    columns = "id BIGINT GENERATED ALWAYS AS IDENTITY, n INT, twice INT GENERATED ALWAYS AS (n * 2)"
    db.create_table(name, columns, properties=FEED)
    db.write(spark.sql("SELECT * FROM VALUES (1), (2), (3) AS t(n)").coalesce(1), name)
    before = {row.n: row.id for row in db.read(name).collect()}
    new = spark.sql("SELECT 2 AS n")
    version = db.write(new, name, "overwrite", replace_where="n = 2")
    after = {row.n: row.id for row in db.read(name).collect()}
    assert (after[1], after[3]) == (before[1], before[3])
    assert after[2] > max(before.values())
    assert changes(db.changes(name, version)) == sorted(
        [f"({before[2]}, 2, 4, 'delete')", f"({after[2]}, 2, 4, 'insert')"]
    )


def test_schema_may_grow_while_rows_are_replaced(spark, db, name):
    db.write(spark.sql(BEFORE).coalesce(1), name, properties=FEED)
    wide = spark.sql("SELECT 2L AS id, 0L AS p, 'n' AS v, 5 AS more")
    version = db.write(wide, name, "overwrite", replace_where="id = 2", merge_schema=True)
    assert changes(db.changes(name, version)) == [
        "(2, 0, 'n', 5, 'insert')",
        "(2, 0, 'v2', None, 'delete')",
    ]
    assert db.read(name).where("more IS NULL").count() == 7


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_changes_that_arrow_wrote_are_read_by_spark(spark, db, name, mode):
    properties = FEED | {"delta.columnMapping.mode": mode}
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = db.lake.create_table(name, schema, partition_by=["p"], properties=properties)
    table.append(pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}))
    version = table.overwrite(pa.table({"id": [2], "p": ["c"]}), where="id = 2")
    expected = ["(2, 'a', 'delete')", "(2, 'c', 'insert')"]
    assert changes(db.changes(name, version)) == expected
    reader = spark.read.option("readChangeFeed", "true").option("startingVersion", version)
    assert changes(reader.format("delta").load(table.location)) == expected


def test_an_update_that_sets_nothing_is_refused(spark, db, name):
    db.write(spark.sql(BEFORE), name, properties=FEED)
    for nothing in (None, {}):
        with pytest.raises(ValidationError, match="sets no column"):
            db.table(name).update("id = 1", nothing)
        with pytest.raises(ValidationError, match="sets no column"):
            db.table(name).update(set=nothing)
        with pytest.raises(ValidationError, match="sets no column"), db.transaction() as tx:
            tx.table(name).update("id = 1", nothing)
    with pytest.raises(ValidationError, match="sets nothing"):
        db.table(name).merge(spark.sql(BEFORE), "target.id = source.id").whenMatchedUpdate()
    assert db.lake.table(name).version == 0
