"""Spark frames over several tables: all or nothing, from one cut, with the application's rows."""

from __future__ import annotations

import pytest

import deltasql
import deltasql.spark
from deltasql.errors import ConcurrentAppendError, TableNotFoundError, ValidationError
from tests.spark.cross_check import rows


@pytest.fixture
def two(spark, db, name):
    a, b = f"{name}a", f"{name}b"
    feed = {"delta.enableChangeDataFeed": "true"}
    db.write(spark.sql("SELECT id, 10 AS n FROM range(4)"), a, properties=feed)
    db.write(spark.sql("SELECT id, 10 AS n FROM range(4)"), b)
    return a, b


def one(spark, number, n=0):
    return spark.sql(f"SELECT {number}L AS id, {n} AS n")


def data_files(db, *names):
    from pathlib import Path
    from urllib.parse import urlsplit

    return sorted(
        str(path)
        for name in names
        for path in Path(urlsplit(db.lake.table(name).location).path).rglob("*")
        if path.suffix in (".parquet", ".bin") and "_delta_log" not in path.parts
    )


def test_it_sees_its_own_writes_and_nobody_elses(spark, db, two):
    a, b = two
    with db.transaction() as tx:
        tx.write(one(spark, 100), a)
        tx.table(a).update("id = 100", {"n": "7"})
        tx.table(b).merge(tx.read(a), "target.id = source.id").whenMatchedUpdate(
            set={"n": "source.n + 1"}
        ).whenNotMatchedInsertAll().execute()
        db.write(one(spark, 200), a)
        assert rows(tx.read(a, where="id >= 100")) == ["(100, 7)"]
        assert rows(tx.read(b, where="id = 100")) == ["(100, 7)"]
        assert db.read(b).count() == 4
    assert sorted(row.id for row in db.read(a).collect()) == [0, 1, 2, 3, 100, 200]
    assert sorted(row.n for row in db.read(b).collect()) == [7, 11, 11, 11, 11]
    assert tx.versions == {a: db.lake.table(a).version, b: db.lake.table(b).version}


def test_the_feed_of_several_operations_is_whole(spark, db, two):
    a, _ = two
    with db.transaction() as tx:
        tx.write(spark.sql("SELECT id + 50 AS id, 1 AS n FROM range(2)"), a)
        tx.table(a).delete("id = 50")
        tx.table(a).update("id = 51", {"n": "2"})
    changes = db.changes(a, 1).drop("_commit_version", "_commit_timestamp")
    assert rows(changes) == [
        "(50, 1, 'delete')",
        "(50, 1, 'insert')",
        "(51, 1, 'insert')",
        "(51, 1, 'update_preimage')",
        "(51, 2, 'update_postimage')",
    ]
    stock = spark.read.option("readChangeFeed", "true").option("startingVersion", 0)
    assert rows(stock.format("delta").load(db.lake.table(a).location)) == rows(db.changes(a, 0))


def test_a_conflict_on_any_table_leaves_nothing(spark, db, two):
    a, b = two
    with pytest.raises(deltasql.CommitError), db.transaction() as tx:  # noqa: PT012
        tx.write(one(spark, 100), a)
        tx.table(a).update("id = 0", {"n": "1"})
        tx.table(b).update("id = 1", {"n": "1"})
        db.table(b).update("id = 1", {"n": "2"})
        files = set(data_files(db, a, b))
    live = {add.path for name in (a, b) for add in db.lake.table(name).snapshot().adds()}
    assert {row.n for row in db.read(a).collect()} == {10}
    left = set(data_files(db, a, b))
    assert left < files
    assert len([path for path in left if path.rpartition("/")[2] in live]) == len(live)
    assert len(left) == len(live) + 1, "what is left was replaced by the other writer"


def test_having_found_no_row_is_part_of_the_check(spark, db, two):
    _, b = two
    with pytest.raises(ConcurrentAppendError), db.transaction() as tx:  # noqa: PT012
        tx.table(b).delete("id = 77")
        tx.write(one(spark, 77), b)
        with db.lake.transaction() as other:
            other.table(b).delete("id = 77")
            other.table(b).append([{"id": 77, "n": 0}])
    assert rows(db.read(b, where="id = 77")) == ["(77, 0)"]


def test_the_applications_rows_join(spark, postgres_url, tmp_path):
    with deltasql.connect(postgres_url, location=tmp_path.as_uri()) as lake:
        db = deltasql.spark.attach(spark, lake, name="joined")
        db.write(one(spark, 1), "a")
        with db.transaction() as tx:
            tx.sql_execute("CREATE TABLE outbox (id int PRIMARY KEY)")
        for _ in range(2):
            with db.transaction(app_id="job", app_version=1) as tx:
                tx.write(one(spark, 2), "a")
                tx.table("a").delete("id = 1")
                tx.sql_execute("INSERT INTO outbox VALUES (%s)", [5])
        with pytest.raises(deltasql.DeltaSqlError), db.transaction() as tx:  # noqa: PT012
            tx.write(one(spark, 3), "a")
            tx.sql_execute("INSERT INTO outbox VALUES (5)")
        with db.transaction() as tx:
            found = tx.sql_execute("SELECT id FROM outbox")
        assert found.rows == [(5,)]
        assert rows(db.read("a")) == ["(2, 0)"]


def test_misuse_is_told(spark, db, two):
    a, _ = two
    with pytest.raises(TableNotFoundError, match="nope"), db.transaction() as tx:
        tx.write(one(spark, 1), "nope")
    with pytest.raises(ValidationError, match="mode"), db.transaction() as tx:
        tx.write(one(spark, 1), a, mode="ignore")
    with pytest.raises(ValidationError, match="retried"), db.transaction() as tx:
        tx.table(a).merge(one(spark, 1), "target.id = source.id").whenMatchedDelete().execute(3)
