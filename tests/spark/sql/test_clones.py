"""SHALLOW CLONE into a lake: one version, or no table at all."""

from __future__ import annotations

import uuid

import pytest
from pyspark.errors import PySparkException

import deltasql
import deltasql.spark


@pytest.fixture
def name() -> str:
    return f"clones.t{uuid.uuid4().hex[:8]}"


def test_a_clone_is_one_version(spark, db, lake, name):
    spark.sql(f"CREATE TABLE lake.{name} (id INT, p INT) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO lake.{name} VALUES (1, 1), (2, 2)")
    spark.sql(f"CREATE TABLE lake.{name}_new SHALLOW CLONE lake.{name}")
    history = [tuple(item) for item in _history(spark, f"lake.{name}_new")]
    assert history == [(0, "CLONE")]
    assert spark.sql(f"SELECT * FROM lake.{name}_new VERSION AS OF 0").count() == 2
    spark.sql(f"INSERT INTO lake.{name}_new VALUES (3, 3)")
    assert lake.table(f"{name}_new").scan().to_arrow().num_rows == 3
    assert spark.table(f"lake.{name}").count() == 2
    assert lake.check(f"{name}_new").ok
    # The source knows of it: its files stay as long as the clone names them.
    lake.drop_table(name)
    with pytest.raises(deltasql.errors.DeltaSqlError, match="other tables name"):
        lake.purge(name)


@pytest.mark.parametrize("by", ["SQL", "Python"])
def test_no_two_rows_of_a_clone_have_one_id(spark, db, lake, name, by):
    """Rows that an update moved have theirs in the files."""
    spark.sql(
        f"CREATE TABLE lake.{name} (id INT, v INT) "
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    for first in (0, 3, 6):
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 0 FROM range({first}, {first + 3}, 1, 1)")
    spark.sql(f"UPDATE lake.{name} SET v = 1 WHERE id = 1")
    if by == "SQL":
        spark.sql(f"CREATE TABLE lake.{name}_new SHALLOW CLONE lake.{name}")
    else:
        lake.table(name).clone(f"{name}_new")
    spark.sql(f"INSERT INTO lake.{name}_new VALUES (9, 0)")
    spark.sql(f"UPDATE lake.{name}_new SET v = 2 WHERE id = 4")
    ids = spark.sql(f"SELECT _metadata.row_id AS row FROM lake.{name}_new").collect()
    assert len({item.row for item in ids}) == len(ids) == 10


@pytest.mark.parametrize(
    ("columns", "properties"),
    [
        ("id INT, v INT DEFAULT 7", "'delta.feature.allowColumnDefaults' = 'supported'"),
        ("id INT, v INT", "'delta.enableRowTracking' = 'true'"),
        ("id INT, v INT GENERATED ALWAYS AS (id + 6)", "'k' = 'v'"),
        ("id INT, v INT", "'delta.enableDeletionVectors' = 'true'"),
        ("id INT, v INT", "'delta.enableChangeDataFeed' = 'true'"),
    ],
)
def test_a_clone_has_what_its_source_has(spark, db, lake, name, columns, properties):
    spark.sql(f"CREATE TABLE lake.{name} ({columns}) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO lake.{name} (id, v) VALUES (1, 7), (0, 6)")
    spark.sql(f"DELETE FROM lake.{name} WHERE id = 0")
    spark.sql(f"CREATE TABLE lake.{name}_new SHALLOW CLONE lake.{name}")
    has_value = "DEFAULT" in columns or "GENERATED" in columns
    spark.sql(
        f"INSERT INTO lake.{name}_new (id) VALUES (1)"
        if has_value
        else f"INSERT INTO lake.{name}_new VALUES (1, 7)"
    )
    assert [tuple(row) for row in spark.table(f"lake.{name}_new").collect()] == [(1, 7)] * 2
    source, clone = (lake.table(item).snapshot().state for item in (name, f"{name}_new"))
    assert clone.writer_features == source.writer_features
    assert clone.reader_features == source.reader_features
    assert clone.metadata.id != source.metadata.id
    assert lake.check(f"{name}_new").ok


def test_a_clone_that_is_refused_leaves_no_table(spark, db, lake, name, tmp_path):
    word = name.rpartition(".")[2]
    spark.sql(f"CREATE TABLE spark_catalog.default.{word} USING delta AS SELECT 1 AS id")
    url, location = f"sqlite:///{tmp_path / 'other.db'}", (tmp_path / "other").as_uri()
    with deltasql.connect(url, location=location) as other:
        beside = deltasql.spark.attach(spark, other, catalog="beside")
        spark.sql(f"CREATE TABLE beside.{name} AS SELECT 1 AS id")
        for source in (f"spark_catalog.default.{word}", f"beside.{name}"):
            for words in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
                with pytest.raises(PySparkException, match="can't have files in"):
                    spark.sql(f"{words} lake.{name} SHALLOW CLONE {source}")
                assert not spark.catalog.tableExists(f"lake.{name}")
                assert lake.store.table(name) is None
        beside.detach()
    spark.sql(f"DROP TABLE spark_catalog.default.{word}")
    # The name and its place are free.
    spark.sql(f"CREATE TABLE lake.{name} AS SELECT 2 AS id")
    assert spark.table(f"lake.{name}").first().id == 2


def _history(spark, table):
    return spark.sql(f"DESCRIBE HISTORY {table}").select("version", "operation").collect()
