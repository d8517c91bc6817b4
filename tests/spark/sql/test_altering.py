"""What ALTER TABLE takes from a table, and clones of tables that have lost a column."""

from __future__ import annotations

import uuid

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.spark.sql.conftest import CATALOG


@pytest.fixture
def table(db):
    """Make a table; returns its name in SQL and in the lake."""

    def make(columns: str = "id BIGINT, v STRING", properties: str = "") -> tuple[str, str]:
        name = f"altering.t{uuid.uuid4().hex[:8]}"
        kept = f" TBLPROPERTIES ({properties})" if properties else ""
        db.spark.sql(f"CREATE TABLE {CATALOG}.{name} ({columns}){kept}")
        return f"{CATALOG}.{name}", name

    return make


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_that_is_replaced_keeps_its_column_mapping(spark, lake, table, mode):
    """Unless the statement names another mode, which would leave older versions unreadable."""
    made, name = table("id BIGINT, v STRING", f"'delta.columnMapping.mode' = '{mode}'")
    spark.sql(f"INSERT INTO {made} VALUES (1, 'a')")
    spark.sql(f"CREATE OR REPLACE TABLE {made} AS SELECT 2 AS id, 'x' AS `b c`")
    assert lake.table(name).snapshot().state.column_mapping == mode
    assert [tuple(row) for row in spark.table(made).collect()] == [(2, "x")]
    spark.sql(f"REPLACE TABLE {made} (w INT)")
    spark.sql(f"INSERT INTO {made} VALUES (3)")
    frame = spark.createDataFrame([(4, 5)], "w INT, n INT")
    frame.writeTo(made).createOrReplace()
    assert [tuple(row) for row in spark.table(made).collect()] == [(4, 5)]
    before = [spark.read.option("versionAsOf", version).table(made) for version in (1, 2, 4)]
    rows = [[tuple(row) for row in frame.collect()] for frame in before]
    assert rows == [[(1, "a")], [(2, "x")], [(3,)]]
    with pytest.raises(PySparkException, match=f"can't go from {mode} to none"):
        spark.sql(
            f"CREATE OR REPLACE TABLE {made} (id INT) "
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'none')"
        )


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_clone_of_a_table_that_lost_its_last_column(spark, lake, table, mode):
    source, name = table("id BIGINT, v STRING, w INT", f"'delta.columnMapping.mode' = '{mode}'")
    spark.sql(f"INSERT INTO {source} VALUES (1, 'a', 7)")
    spark.sql(f"ALTER TABLE {source} DROP COLUMN w")
    spark.sql(f"CREATE TABLE {source}_new SHALLOW CLONE {source}")
    # A new column must not get the id of the one that was dropped: its values are in the files.
    spark.sql(f"ALTER TABLE {source}_new ADD COLUMN w INT")
    spark.sql(f"INSERT INTO {source}_new VALUES (2, 'b', 8)")
    found = sorted(tuple(row) for row in spark.table(f"{source}_new").collect())
    assert found == [(1, "a", None), (2, "b", 8)]
    ids = [
        field.metadata["delta.columnMapping.id"]
        for field in lake.table(f"{name}_new").snapshot().state.schema.fields
    ]
    assert ids == [1, 2, 4]
    assert [tuple(row) for row in spark.table(source).collect()] == [(1, "a")]


def test_a_feature_of_writers_is_dropped(spark, lake, table):
    name, known = table()
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT small CHECK (id < 9)")
    version = lake.table(known).version
    with pytest.raises(PySparkException, match="DELTASQL_VALIDATION"):
        spark.sql(f"ALTER TABLE {name} DROP FEATURE checkConstraints")
    assert lake.table(known).version == version
    spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT small")
    spark.sql(f"ALTER TABLE {name} DROP FEATURE checkConstraints")
    features = lake.table(known).snapshot().state.writer_features
    assert "checkConstraints" not in features
    # What all of the lake's tables have stays.
    assert {"deltasql", "inCommitTimestamp"} <= features
    assert lake.table(known).history(limit=1)[0].operation == "DROP FEATURE"
    spark.sql(f"INSERT INTO {name} VALUES (10, 'x')")
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT small CHECK (id < 99)")
    assert "checkConstraints" in lake.table(known).snapshot().state.writer_features
    assert lake.check(known).ok


def test_a_feature_of_readers_waits_for_the_history(spark, lake, table):
    name, known = table(properties="'delta.enableDeletionVectors' = 'true'")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    for words in ("", " TRUNCATE HISTORY"):
        with pytest.raises(PySparkException, match="DELTASQL_VALIDATION"):
            spark.sql(f"ALTER TABLE {name} DROP FEATURE deletionVectors{words}")
    assert "deletionVectors" in lake.table(known).snapshot().state.reader_features
    assert [tuple(row) for row in spark.table(name).collect()] == [(2, "b")]


@pytest.mark.parametrize(
    ("feature", "properties"),
    [("rowTracking", "'delta.enableRowTracking' = 'true'"), ("inCommitTimestamp", "")],
)
def test_other_features_stay_and_nothing_changes(spark, lake, table, feature, properties):
    name, known = table(properties=properties)
    version = lake.table(known).version
    with pytest.raises(PySparkException, match="DELTASQL_"):
        spark.sql(f"ALTER TABLE {name} DROP FEATURE {feature}")
    assert lake.table(known).version == version
    with pytest.raises(Py4JJavaError, match="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"):
        spark.sql(f"ALTER TABLE {name} DROP FEATURE nothing")


def test_times_of_commits_stay(spark, lake, table):
    name, known = table(properties="'mine' = '1'")
    for change in (
        "UNSET TBLPROPERTIES ('delta.enableInCommitTimestamps')",
        "UNSET TBLPROPERTIES ('mine', 'delta.enableInCommitTimestamps')",
        "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",
    ):
        with pytest.raises(PySparkException, match="in-commit timestamps can't be turned off"):
            spark.sql(f"ALTER TABLE {name} {change}")
    assert lake.table(known).version == 0
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('mine')")
    assert "mine" not in lake.table(known).snapshot().properties
