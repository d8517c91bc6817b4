"""What Python's API calls by its own names works under them on `db.table(name)`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from deltasql.errors import ValidationError
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo

FEED = {"delta.enableChangeDataFeed": "true"}


def told(table, version: int):
    (change,) = table.changes(version, version)
    return next(
        codec.wire_fields(action) for action in change.actions if isinstance(action, CommitInfo)
    )


def test_verbs_under_the_words_of_python(spark, db, name):
    db.write(spark.createDataFrame([(1, "a"), (2, "b")], "id long, v string"), name)
    table, lake_table = db.table(name), db.lake.table(name)
    said = {"userName": "ada", "run": 7}
    table.update("id = 1", updates={"v": "'x'"}, commit_metadata=said, max_commit_retries=2)
    table.delete(where="id = 2", commit_metadata=said)
    source = spark.createDataFrame([(1, "y", 5), (3, "z", 6)], "id long, v string, n int")
    (
        table.merge(
            source, on="t.id = s.id", source_alias="s", target_alias="t",
            merge_schema=True, retries=1, commit_metadata=said, app_id="job", app_version=1,
        )
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )  # fmt: skip
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "y", 5), (3, "z", 6)]
    for version in (1, 2, 3):
        assert (told(lake_table, version)["userName"], told(lake_table, version)["run"]) == (
            "ada",
            7,
        )
    assert lake_table.snapshot().txns == {"job": 1}
    with db.transaction(commit_metadata=said) as tx:
        tx.table(name).update("id = 1", updates={"n": "n + 1"})
        merge = tx.table(name).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update(set={"v": "s.v"}).execute()
    assert told(lake_table, 4)["userName"] == "ada"
    assert table.optimize(zorder_by="id").version == lake_table.version


def test_writes_under_the_words_of_python(spark, db, name):
    rows = spark.createDataFrame([(1, "a")], "id long, v string")
    db.write(rows, name, description="what was sold", commit_metadata={"run": 7})
    db.write(rows, name, schema_mode="merge", commit_metadata={"run": 8, "userName": "ada"})
    table = db.lake.table(name)
    assert table.snapshot().metadata.description == "what was sold"
    assert [told(table, version)["run"] for version in (0, 1)] == [7, 8]
    assert told(table, 1)["userName"] == "ada"
    with db.transaction() as tx:
        with pytest.raises(ValidationError, match="no commit_metadata of its own"):
            tx.write(rows, name, commit_metadata={"run": 9})
        tx.write(rows, name)
    with pytest.raises(ValidationError, match="there is no option writer"):
        db.write(rows, name, writer=None)


def test_a_feed_around_another_schema(spark, db, name):
    """Files that had the column as a partition came out with nulls in it."""
    first = spark.createDataFrame([(1, "a")], "id long, v string")
    db.write(first, name, partition_by=["v"], properties=FEED)
    db.write(first, name, mode="overwrite", overwrite_schema=True)
    since = db.lake.table(name).snapshot().timestamp + timedelta(milliseconds=1)
    with pytest.raises(ValidationError, match="no schema in common"):
        db.changes(name, 0)
    (row,) = db.changes(name, to_version=0).collect()
    assert (row["id"], row["v"], row["_change_type"]) == (1, "a", "insert")
    db.write(first, name)
    (row,) = db.changes(name, from_timestamp=since).where("_commit_version = 2").collect()
    assert row["v"] == "a"
