"""Conditions, names and values that are legal and rare: rows stay what they are."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sql

from deltasql.errors import ValidationError

VECTORS = {"delta.enableDeletionVectors": "true"}


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
