"""Numbers that a table hands out: identity values in merges, and the ids of tracked rows."""

from __future__ import annotations

import pytest

from deltasql.errors import ValidationError
from tests.sizes import FULL
from tests.spark.cross_check import rows

COLUMNS = "n BIGINT GENERATED {} AS IDENTITY (START WITH 10 INCREMENT BY 5), k INT, v STRING"
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize("kind", [{}, FEED | VECTORS] if FULL else [FEED | VECTORS])
def test_a_merge_numbers_what_it_inserts(spark, db, name, kind):
    db.create_table(name, COLUMNS.format("ALWAYS"), properties=kind)
    db.write(spark.sql("SELECT 1 AS k, 'a' AS v"), name)
    for turn in range(2):
        source = spark.sql(f"SELECT cast(id AS int) AS k, 't{turn}' AS v FROM range({4 + turn})")
        merge = db.table(name).merge(source, "target.k = source.k")
        merge = merge.whenNotMatchedInsert("source.k = 3", {"k": "source.k", "v": "'three'"})
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    db.write(spark.sql("SELECT 9 AS k, 'w' AS v"), name)
    found = {row.k: (row.n, row.v) for row in db.read(name).collect()}
    numbers = [number for number, _ in found.values()]
    assert found[1] == (10, "t1")
    assert found[3][1] == "t1"
    assert sorted(found) == [0, 1, 2, 3, 4, 9]
    assert len(set(numbers)) == len(numbers)
    assert all(number >= 10 and number % 5 == 0 for number in numbers)
    assert found[9][0] == max(numbers)
    field = db.lake.table(name).snapshot().state.schema.field("n")
    assert field.metadata["delta.identity.highWaterMark"] == max(numbers)
    if kind:
        told = db.changes(name, 2).where("_change_type = 'insert'").select("k", "n")
        assert {row.k: row.n for row in told.collect()} == {
            k: number for k, (number, _) in found.items() if k != 1
        }


def test_an_insert_only_merge_numbers_too(spark, db, name):
    db.create_table(name, COLUMNS.format("BY DEFAULT"))
    source = spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(k, v)")
    merge = db.table(name).merge(source, "target.k = source.k")
    given = {"n": "cast(7 AS bigint)", "k": "source.k", "v": "source.v"}
    merge = merge.whenNotMatchedInsert("source.k = 1", given)
    merge.whenNotMatchedInsertAll().execute()
    found = {row.k: row.n for row in db.read(name).collect()}
    assert found[1] == 7
    assert found[2] >= 10


def test_a_number_is_not_set(spark, db, name):
    db.create_table(name, COLUMNS.format("ALWAYS"))
    db.write(spark.sql("SELECT 1 AS k, 'a' AS v"), name)
    source = spark.sql("SELECT 5L AS n, 1 AS k, 'b' AS v")
    merge = db.table(name).merge(source, "target.k = source.k")
    with pytest.raises(ValidationError, match="keep their number"):
        merge.whenMatchedUpdateAll().execute()
    with pytest.raises(ValidationError, match="ALWAYS"):
        merge.whenNotMatchedInsertAll().execute()
    with pytest.raises(ValidationError, match="keep their number"):
        db.table(name).update("k = 1", {"n": "2"})


def numbered(frame):
    """The id and the version of each row."""
    found = frame.selectExpr("id", "_metadata.row_id", "_metadata.row_commit_version").collect()
    return {row.id: (row.row_id, row.row_commit_version) for row in found}


@pytest.mark.parametrize("kind", [FEED, VECTORS], ids=["feed", "vectors"])
def test_tracked_rows_keep_their_ids(spark, db, name, kind):
    rows_of = "SELECT id, id % 2 AS p, 'a' AS v FROM range(10)"
    tracked = {"delta.enableRowTracking": "true", **kind}
    db.write(spark.sql(rows_of).repartition(1), name, partition_by="p", properties=tracked)
    table = db.table(name)
    first = numbered(db.read(name))
    assert sorted(number for number, _ in first.values()) == list(range(10))

    table.delete("id = 1")
    assert numbered(db.read(name)) == {key: first[key] for key in first if key != 1}

    version = table.update("id = 2", {"v": "'b'", "p": "5"})
    expected = {key: first[key] for key in first if key != 1}
    expected[2] = (first[2][0], version)
    assert numbered(db.read(name)) == expected

    source = spark.sql(
        "SELECT * FROM VALUES (3L, 1L, 'm'), (4L, 0L, 'x'), (50L, 0L, 'n') t(id, p, v)"
    )
    merge = table.merge(source, "target.id = source.id").whenMatchedDelete("source.v = 'x'")
    version = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = numbered(db.read(name))
    del expected[4]
    expected[3] = (first[3][0], version)
    new = found.pop(50)
    assert found == expected
    assert new[0] > 9
    assert new[1] == version

    # Stock Delta finds the same in the mirror, which shows no column of ours.
    db.lake.mirror.run(once=True)
    stock = spark.read.format("delta").load(db.lake.table(name).location)
    assert numbered(stock) == {**expected, 50: new}
    assert rows(stock) == rows(db.read(name))
    assert stock.columns == ["id", "p", "v"]
    if "delta.enableChangeDataFeed" in kind:
        feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 0)
        mirrored = feed.format("delta").load(db.lake.table(name).location)
        assert rows(mirrored) == rows(db.changes(name, 0))


def test_a_transaction_numbers_its_own_rows_when_it_commits(spark, db, name):
    tracked = {"delta.enableRowTracking": "true"}
    db.write(spark.range(2).repartition(1), name, properties=tracked)
    with db.transaction() as tx:
        tx.write(spark.range(10, 12).repartition(1), name)
        tx.table(name).update("id IN (1, 10)", {"id": "id + 100"})
    version = db.lake.table(name).version
    found = numbered(db.read(name))
    assert found[0] == (0, 0)
    assert found[101] == (1, version)
    assert sorted(found) == [0, 11, 101, 110]
    assert len({number for number, _ in found.values()}) == 4
    assert {found[key][1] for key in (11, 110)} == {version}
