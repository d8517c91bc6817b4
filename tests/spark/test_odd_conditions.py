"""Conditions, names and values that are legal and rare: rows stay what they are."""

from __future__ import annotations

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as sql

from deltasql.errors import SchemaMismatchError, ValidationError
from deltasql.spark.native import enforcement
from tests.spark.cross_check import rows

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def table(spark, db, name):
    """A table of what a query answers, in one file."""

    def make(query: str, **more):
        db.write(spark.sql(query).coalesce(1), name, **more)
        return db.table(name)

    return make


CLAUSES = {
    "matched": lambda merge: merge.whenMatchedUpdate("rand() < 0.5", set={"v": "1"}),
    "not matched": lambda merge: merge.whenNotMatchedInsertAll(sql.rand() < 0.5),
    "not matched by source": lambda merge: merge.whenNotMatchedBySourceDelete("rand() < 0.5"),
}


@pytest.mark.parametrize("side", CLAUSES)
def test_a_random_condition_of_a_clause_is_refused(spark, db, table, side):
    ours = table("SELECT id, 0 AS v FROM range(4)", properties=VECTORS)
    merge = ours.merge(spark.sql("SELECT id, 0 AS v FROM range(2, 6)"), "target.id = source.id")
    with pytest.raises(ValidationError, match="may match other rows each time"):
        CLAUSES[side](merge).execute()
    assert db.read(ours.name).count() == 4


@pytest.mark.parametrize("verb", ["update", "delete"])
def test_a_random_condition_is_refused_beside_a_hidden_column(db, table, verb):
    ours = table("SELECT id, 0 AS v FROM range(4)", properties=VECTORS)
    condition = "_metadata.row_index >= 0 AND rand() < 0.5"
    with pytest.raises(ValidationError, match="may match other rows each time"):
        ours.update(condition, {"v": "1"}) if verb == "update" else ours.delete(condition)
    ours.delete(sql.col("_metadata.row_index") == 0)
    assert rows(db.read(ours.name)) == rows(db.read(ours.name, where="id > 0"))
    assert db.read(ours.name).count() == 3


def test_dynamic_overwrite_knows_the_partition_of_no_number(spark, db, table):
    query = "SELECT double('NaN') AS p, {0} AS v UNION ALL SELECT 1.0D, {0}"
    ours = table(query.format(1), partition_by="p")
    db.write(spark.sql(query.format(2)), ours.name, mode="overwrite", partition_overwrite="dynamic")
    assert sorted(row.v for row in db.read(ours.name).collect()) == [2, 2]


def test_a_column_that_is_named_like_a_number(db, table):
    ours = table("SELECT id AS `1L`, 9 - id AS `1`, id AS `2.5D` FROM range(4)")
    assert db.read(ours.name, where="`1L` = 3").count() == 1
    assert db.read(ours.name, where="`2.5D` = 3").count() == 1
    ours.delete("`1L` <= 1")
    assert sorted(row["1L"] for row in db.read(ours.name).collect()) == [2, 3]


def test_a_struct_that_is_named_like_the_target(spark, db, table):
    ours = table("SELECT id AS x, struct(id + 100 AS x) AS t FROM range(3)").alias("t")
    source = spark.sql("SELECT 101L AS k").alias("s")
    ours.merge(source, "t.t.x = s.k").whenMatchedUpdate(set={"t.x": "-1L"}).execute()
    ours.merge(source, "t.t.x = 102 AND s.k > 0").whenMatchedDelete().execute()
    found = sorted(db.read(ours.name).collect())
    assert found == [Row(x=-1, t=Row(x=101)), Row(x=0, t=Row(x=100))]


def test_writers_side_by_side_fail_on_what_does_not_fit_where_ansi_is_off(spark, db, table):
    ours = table("SELECT 1 AS v")
    bad = spark.sql("SELECT 'no number' AS v")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    seen: list[str] = []

    def watched(*given):
        # What another thread sees, and does, while this one builds its casts.
        seen.append(spark.conf.get("spark.sql.ansi.enabled"))
        spark.conf.set("spark.sql.ansi.enabled", "false")
        return _selected(*given)

    _selected = enforcement._selected
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(enforcement, "_selected", watched)
            with pytest.raises(SchemaMismatchError):
                db.write(bad, ours.name)
        with pytest.raises(SchemaMismatchError):
            ours.update("true", {"v": "'no number'"})
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    assert seen == ["false"]
    assert [row.v for row in db.read(ours.name).collect()] == [1]


@pytest.mark.parametrize("kind", [{}, FEED], ids=["plain", "feed"])
def test_a_field_of_a_struct_that_is_null(spark, db, table, kind):
    kinds = "struct<q: int, r: int, n: struct<a: int, b: int>>"
    ours = table(f"SELECT id, cast(null AS {kinds}) AS ns FROM range(3)", properties=kind)
    ours.update("id = 1", {"ns.q": "5", "ns.n.b": "7"})
    source = spark.sql("SELECT 2L AS id")
    merge = ours.merge(source, "target.id = source.id")
    merge.whenMatchedUpdate(set={"ns.r": "6"}).execute()
    found = {row.id: row.ns for row in db.read(ours.name).collect()}
    assert found == {
        0: None,
        1: Row(q=5, r=None, n=Row(a=None, b=7)),
        2: Row(q=None, r=6, n=None),
    }


def test_a_struct_that_is_called_target(spark, db, table):
    ours = table("SELECT 1L AS id, 1 AS q, struct(1 AS q, 1 AS r) AS target")
    ours.update("id = 1", {"target.q": "2", "target.id": "3L"})
    assert db.read(ours.name).collect() == [Row(id=3, q=1, target=Row(q=2, r=1))]
    merge = ours.merge(spark.sql("SELECT 3L AS id"), "target.id = source.id")
    merge.whenMatchedUpdate(set={"target.q": "4", "target.r": "5"}).execute()
    assert db.read(ours.name).collect() == [Row(id=3, q=4, target=Row(q=2, r=5))]


@pytest.mark.parametrize("kind", [FEED, FEED | VECTORS], ids=["files", "vectors"])
def test_the_feed_tells_the_random_values_that_the_table_has(spark, db, table, kind):
    ours = table("SELECT id, '' AS tok FROM range(4)", properties=kind)
    ours.update("id < 2", {"tok": "uuid()"})
    merge = ours.merge(spark.sql("SELECT id FROM range(3, 6)"), "target.id = source.id")
    merge.whenMatchedUpdate(set={"tok": "uuid()"}).whenNotMatchedInsert(
        values={"id": "source.id", "tok": "uuid()"}
    ).execute()
    there = {row.id: row.tok for row in db.read(ours.name).collect()}
    feed = db.changes(ours.name, 1).where("_change_type IN ('insert', 'update_postimage')")
    told = {row.id: row.tok for row in feed.collect()}
    assert set(told) == {0, 1, 3, 4, 5}
    assert told == {key: value for key, value in there.items() if key != 2}
