"""Spark's delete, update and merge beside optimize: none is sent back, rows and feed are right."""

from __future__ import annotations

import pytest

from deltasql.errors import CommitError
from deltasql.spark.dml import merge_run, row_changes
from tests.readers.engines import DeltaRs, DuckDb, lines, place
from tests.sizes import FULL

KINDS = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    "both": {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
}


@pytest.fixture(params=KINDS if FULL else ["plain", "both"])
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def table(spark, db, name, kind):
    for start in (0, 4, 8):
        frame = spark.sql(
            f"SELECT id, id % 3 AS p, concat('v', id) AS v FROM range({start}, {start + 4})"
        )
        db.write(frame.repartition(1), name, properties=kind if not start else None, mode="append")
    return db.table(name)


def during(monkeypatch, owner, verb, act):
    """Do something after an operation has written its files, before it commits."""
    real, todo = getattr(owner, verb), [act]

    def operate(*args):
        found = real(*args)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(owner, verb, operate)


def found(db, table):
    mirror = db.lake.table(table.name)
    ours = mirror.scan().to_arrow()
    for engine in (DeltaRs(), DuckDb()):
        assert lines(engine.rows(place(mirror), None), ["id", "v"]) == lines(ours, ["id", "v"])
    told = dict(zip(ours.column("id").to_pylist(), ours.column("v").to_pylist(), strict=True))
    assert len(told) == ours.num_rows
    assert {row[0]: row[1] for row in db.read(table.name).select("id", "v").collect()} == told
    return told


def test_none_is_sent_back(spark, db, table, kind, monkeypatch):
    compact = lambda: table.optimize().executeCompaction()  # noqa: E731
    expected = {number: f"v{number}" for number in range(12)}

    during(monkeypatch, row_changes, "delete", compact)
    table.delete("id = 3 OR id = 8")
    del expected[3], expected[8]
    assert found(db, table) == expected

    db.write(spark.sql("SELECT 20L AS id, 0L AS p, 'v20' AS v"), table.name, mode="append")
    expected[20] = "v20"
    during(monkeypatch, row_changes, "update", compact)
    table.update("id = 4 OR id = 20", {"v": "'new'"})
    expected |= {4: "new", 20: "new"}
    assert found(db, table) == expected

    db.write(spark.sql("SELECT 21L AS id, 0L AS p, 'v21' AS v"), table.name, mode="append")
    during(monkeypatch, merge_run, "run", compact)
    source = spark.sql("SELECT * FROM VALUES (5L, 2L, 'm5'), (30L, 0L, 'm30') AS t(id, p, v)")
    (
        table.merge(source.alias("s"), "s.id = target.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    expected |= {5: "m5", 21: "v21", 30: "m30"}
    assert found(db, table) == expected
    operations = [entry.operation for entry in db.lake.table(table.name).history()]
    assert operations.count("OPTIMIZE") == 3
    if "delta.enableChangeDataFeed" in kind:
        changes = db.changes(table.name, 3).select("id", "_change_type").collect()
        told = sorted((row[0], row[1]) for row in changes if row[1] != "update_preimage")
        assert told == [
            (3, "delete"), (4, "update_postimage"), (5, "update_postimage"), (8, "delete"),
            (20, "insert"), (20, "update_postimage"), (21, "insert"), (30, "insert"),
        ]  # fmt: skip


def test_rows_keep_their_ids_for_spark(spark, db, name):
    kind = KINDS["vectors"]
    db.write(spark.range(0, 4, 1, 1), name, properties=kind)
    db.write(spark.range(4, 8, 1, 1), name, mode="append")
    db.table(name).delete("id = 1")
    db.table(name).update("id = 6", {"id": "66"})

    def ids():
        frame = spark.read.format("delta").load(db.lake.table(name).location)
        names = ("id", "_metadata.row_id", "_metadata.row_commit_version")
        return sorted(tuple(row) for row in frame.select(*names).collect())

    before = ids()
    assert len(before) == 7
    assert db.table(name).optimize().executeCompaction().metrics["numAddedFiles"] == 1
    assert ids() == before
    db.table(name).optimize().executeZOrderBy("id")
    assert ids() == before


def test_two_in_one_file(spark, db, name, monkeypatch):
    kind = KINDS["both"]
    db.write(spark.range(6).repartition(1), name, properties=kind)
    table, other = db.table(name), db.table(name)
    during(monkeypatch, row_changes, "delete", lambda: other.delete("id = 1"))
    table.delete("id = 4")
    during(monkeypatch, row_changes, "update", lambda: other.update("id = 2", {"id": "22"}))
    table.update("id = 5", {"id": "55"})
    assert sorted(row[0] for row in db.read(name).collect()) == [0, 3, 22, 55]
    changes = db.changes(name, 1).select("id", "_change_type").collect()
    assert sorted(tuple(row) for row in changes) == [
        (1, "delete"), (2, "update_preimage"), (4, "delete"), (5, "update_preimage"),
        (22, "update_postimage"), (55, "update_postimage"),
    ]  # fmt: skip
    during(monkeypatch, row_changes, "delete", lambda: other.delete("id = 3"))
    with pytest.raises(CommitError):
        table.delete("id <= 3")
