"""What Spark SQL says does not depend on the mirror: it may be broken, or late by many versions."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from deltasql.spec.actions import Txn

_FEED = (
    "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
)
# Versions 1 to 6, after the creation.
_STATEMENTS = (
    "INSERT INTO {t} VALUES (0, 'x'), (1, 'x'), (2, 'x')",
    "UPDATE {t} SET v = 'u' WHERE id = 1",
    "DELETE FROM {t} WHERE id = 2",
    (
        "MERGE INTO {t} t USING (SELECT 5L AS id, 'm' AS v) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "OPTIMIZE {t}",
    "ALTER TABLE {t} ADD COLUMN w INT",
)


@pytest.fixture
def table(db, lake):
    """A table by its names in the lake and in SQL."""
    name = f"behind.t{uuid.uuid4().hex[:8]}"
    db.spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, v STRING) USING delta {_FEED}")
    return lake.table(name), f"lake.{name}"


def _rows(spark, query):
    return sorted(tuple(row) for row in spark.sql(query).collect())


def _check(spark, name, *, first):
    """The statements give what they must, from the version before them on."""
    for statement in _STATEMENTS:
        spark.sql(statement.replace("{t}", name))
    assert _rows(spark, f"SELECT * FROM {name}") == [(0, "x", None), (1, "u", None), (5, "m", None)]
    assert _rows(spark, f"SELECT * FROM {name} VERSION AS OF {first + 2}") == [
        (0, "x"), (1, "u"), (2, "x"),
    ]  # fmt: skip
    told = f"SELECT _change_type FROM table_changes('{name}', {first + 2}, {first + 4})"
    assert [row[0] for row in _rows(spark, told)] == [
        "delete", "insert", "update_postimage", "update_preimage",
    ]  # fmt: skip
    assert len(_rows(spark, f"DESCRIBE HISTORY {name}")) == first + 7
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {first + 1}")
    assert _rows(spark, f"SELECT id FROM {name}") == [(0,), (1,), (2,)]


def test_a_broken_mirror(spark, db, lake, table):
    found, name = table
    log = Path(found.location.removeprefix("file://")) / "_delta_log"
    shutil.rmtree(log)
    # Nothing can be written where the folder was.
    log.write_text("not a folder")
    _check(spark, name, first=0)
    with db.transaction():
        spark.sql(f"INSERT INTO {name} VALUES (7, 'y')")
        spark.sql(f"DELETE FROM {name} WHERE id = 0")
    assert _rows(spark, f"SELECT id FROM {name}") == [(1,), (2,), (7,)]
    log.unlink()
    assert found.mirror.repair().ok
    assert found.mirror.validate().ok


def test_a_mirror_that_is_a_thousand_versions_late(spark, db, lake, table):
    found, name = table
    found.mirror.pause()
    try:
        for number in range(1000):
            found.commit([Txn(app_id="late", version=number)])
        _check(spark, name, first=1000)
        assert _rows(spark, f"SELECT id FROM {name} VERSION AS OF 500") == []
    finally:
        found.mirror.resume()
    lake.mirror.run(once=True)
    assert found.mirror.validate().ok
