"""Spark's writes when the answer to their commit is lost, or our own code fails after it."""

from __future__ import annotations

from itertools import product

import pytest

from deltasql.errors import CommitStateUnknownError
from tests.faults.outcomes import Faults

BEFORE = "SELECT id, 'old' AS v FROM range(3)"
NEW = "SELECT 9L AS id, 'new' AS v"


def _merge(spark, db, name):
    source = spark.sql("SELECT * FROM VALUES (2L, 'new'), (9L, 'new') AS s(id, v)")
    merged = db.table(name).merge(source, "target.id = source.id")
    merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _transact(spark, db, name):
    with db.transaction() as tx:
        tx.write(spark.sql(NEW), name)
        tx.table(name).delete("id = 0")


# What each does to the rows 0, 1, 2, and the ids that are there then.
VERBS = {
    "append": (lambda s, db, n: db.write(s.sql(NEW), n), [0, 1, 2, 9]),
    "overwrite": (lambda s, db, n: db.write(s.sql(NEW), n, "overwrite"), [9]),
    "replace_where": (
        lambda s, db, n: db.write(s.sql("SELECT 1L AS id, 'new' AS v"), n, "overwrite",
                                  replace_where="id >= 1"),
        [0, 1],
    ),
    "merge_schema": (
        lambda s, db, n: db.write(s.sql(NEW + ", 1 AS w"), n, merge_schema=True), [0, 1, 2, 9]
    ),
    "overwrite_schema": (
        lambda s, db, n: db.write(s.sql("SELECT 9L AS id"), n, "overwrite", overwrite_schema=True),
        [9],
    ),
    "sink": (lambda s, db, n: db.sink(n, app_id="app")(s.sql(NEW), 1), [0, 1, 2, 9]),
    "delete": (lambda _, db, n: db.table(n).delete("id = 0"), [1, 2]),
    "update": (lambda _, db, n: db.table(n).update("id = 0", {"id": "9"}), [1, 2, 9]),
    "merge": (_merge, [0, 1, 2, 9]),
    "transaction": (_transact, [1, 2, 9]),
}  # fmt: skip


def _ids(db, name):
    return sorted(row.id for row in db.read(name).select("id").collect())


@pytest.mark.parametrize(
    ("verb", "point"),
    # Only commits with metadata do anything afterwards but mirror.
    [*product(VERBS, ["lost"]), ("merge_schema", "after"), ("overwrite_schema", "after")],
)
def test_a_write_whose_commit_is_in(spark, db, name, verb, point):
    run, expected = VERBS[verb]
    db.write(spark.sql(BEFORE), name)
    faults = Faults(db.lake, point)
    faults.arm()
    try:
        run(spark, db, name)
    finally:
        faults.heal()
    assert faults.was_committed
    assert (db.lake.table(name).version, _ids(db, name)) == (1, expected)


@pytest.mark.parametrize("point", ["lost", "after", "lost for good"])
def test_a_table_created_from_rows(spark, db, name, point, monkeypatch):
    monkeypatch.setattr(db.lake.commits, "_timeout", 1.0)
    faults = Faults(db.lake, point)
    faults.arm()
    try:
        if point == "lost for good":
            with pytest.raises(CommitStateUnknownError):
                db.write(spark.sql(BEFORE), name)
        else:
            assert db.write(spark.sql(BEFORE), name) == 0
    finally:
        faults.heal()
    assert _ids(db, name) == [0, 1, 2]
