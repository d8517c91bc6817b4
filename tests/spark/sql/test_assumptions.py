"""What is assumed about Delta's classes: one test each, run with every Delta that is supported."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException

import deltasql
import deltasql.spark
from deltasql.errors import ConfigError
from deltasql.spark.catalog import attaching
from tests.spark.sql.conftest import CATALOG

DELTA = "org.apache.spark.sql.delta"
CONNECTOR = "org.apache.spark.sql.connector"
OURS = "io.deltasql.spark"
# Our class, Delta's, and the methods that must replace Delta's, with as many parameters.
SEAMS = [
    ("SqlDeltaLog", f"{DELTA}.DeltaLog", {
        ("createSnapshotAtInit", 1), ("updateInternal", 2), ("getSnapshotAt", 5),
        ("getUpdatedLogSegment", 3), ("startTransaction", 2), ("store", 0), ("history", 0),
        ("checkpoint", 2), ("checkpointAndCleanUpDeltaLog", 2), ("doLogCleanup", 2),
        ("createLogDirectoriesIfNotExists", 0), ("compositeId", 0), ("withNewTransaction", 3),
    }),
    ("SqlSnapshot", f"{DELTA}.Snapshot", {
        ("filesForScan", 2), ("stateReconstruction", 0), ("numOfFiles", 0), ("sizeInBytes", 0),
        ("numOfFilesIfKnown", 0), ("sizeInBytesIfKnown", 0), ("setTransactions", 0),
        ("setTransactionsIfKnown", 0), ("domainMetadata", 0), ("domainMetadatasIfKnown", 0),
        ("getTableCommitCoordinatorForWrites", 0), ("path", 0),
    }),
    ("SqlTransaction", f"{DELTA}.OptimisticTransaction", {
        ("doCommitRetryIteratively", 3), ("commitLarge", 6), ("split", 1), ("commitImpl", 4),
    }),
    ("SqlHistory", f"{DELTA}.DeltaHistoryManager", {
        ("getHistory", 3), ("getActiveCommitAtTime", 5), ("getEarliestRecreatableCommit", 0),
        ("checkVersionExists", 4),
    }),
    ("LakeCatalog", f"{DELTA}.catalog.DeltaCatalogV1", {
        ("loadTable", 1), ("tableExists", 1), ("createTable", 4), ("stageCreate", 4),
        ("stageReplace", 4), ("stageCreateOrReplace", 4), ("initialize", 2), ("name", 0),
        ("loadCatalogTable", 2),
    }),
    ("LakeCatalog", f"{CONNECTOR}.catalog.ProcedureCatalog", {
        ("loadProcedure", 1), ("listProcedures", 1),
    }),
    ("LakeProcedure", f"{CONNECTOR}.catalog.procedures.BoundProcedure", {
        ("name", 0), ("description", 0), ("parameters", 0), ("call", 1), ("isDeterministic", 0),
    }),
]  # fmt: skip


@pytest.fixture(scope="module")
def attached(spark, lake):
    database = deltasql.spark.attach(spark, lake, catalog=CATALOG)
    yield database
    database.detach()


def _class(spark, name):
    return spark._jvm.org.apache.spark.util.Utils.classForName(name, True, False)


def _methods(kind) -> set[tuple[str, str]]:
    """Name and parameter types of all public methods, inherited ones too."""
    return {
        (item.getName(), " ".join(str(part.getName()) for part in item.getParameterTypes()))
        for item in kind.getMethods()
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"), SEAMS, ids=[" as ".join(item[:2]) for item in SEAMS]
)
def test_our_methods_replace_deltas(spark, attached, ours, theirs, expected):
    """A method of another shape would be a new one, which Delta never calls."""
    known = _methods(_class(spark, theirs))
    declared = {
        (item.getName(), " ".join(str(part.getName()) for part in item.getParameterTypes()))
        for item in _class(spark, f"{OURS}.{ours}").getDeclaredMethods()
    }
    replaced = {(name, len(types.split())) for name, types in declared & known}
    assert expected <= replaced


def test_every_log_comes_from_the_cache(spark, attached):
    conf = spark._jsparkSession.sessionState().conf()
    module = getattr(getattr(spark._jvm.org.apache.spark.sql.delta, "DeltaLog$"), "MODULE$")
    assert module.getOrCreateCache(conf).getClass().getName() == f"{OURS}.LogCache"


@pytest.mark.parametrize(
    "name",
    [
        "io.delta.tables.DeltaTableBuilder",
        "org.apache.spark.sql.classic.DataStreamWriter",
        "org.apache.spark.sql.classic.DataFrameWriter",
    ],
)
def test_callers_have_the_names_we_know_them_by(spark, name):
    assert _class(spark, name).getName() == name


def test_auto_compaction_takes_what_it_goes_by(spark):
    known = _methods(_class(spark, f"{DELTA}.OptimisticTransaction"))
    assert {
        ("collectAutoOptimizeStatsAndFinalize", "scala.collection.immutable.Seq java.lang.String"),
        ("partitionsAddedToOpt_$eq", "scala.Option"),
    } <= known


def test_releases_that_were_not_tested_are_refused_by_name(spark, lake, monkeypatch):
    monkeypatch.setattr(attaching, "TESTED_DELTA", ("1.0.0",))
    with pytest.raises(ConfigError, match=r"it has Delta 4\.[34]\.\d.*tested with 1\.0\.0"):
        deltasql.spark.attach(spark, lake, catalog=CATALOG)


def test_the_main_statements(spark, attached, lake):
    name = f"seams.t{uuid.uuid4().hex[:8]}"
    table = f"{CATALOG}.{name}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v STRING) "
              "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")  # fmt: skip
    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(0, 6, 1, 1)")
    spark.sql(f"DELETE FROM {table} WHERE id = 5")
    spark.sql(f"UPDATE {table} SET v = 'u' WHERE id = 4")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 3 AS id, 'm' AS v UNION ALL SELECT 9, 'n') s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = {tuple(row) for row in spark.table(table).where("id > 2").collect()}
    assert rows == {(3, "m"), (4, "u"), (9, "n")}
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    spark.sql(f"OPTIMIZE {table}")
    assert spark.table(table).count() == 6
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF 2").count() == 5
    told = [row.operation for row in spark.sql(f"DESCRIBE HISTORY {table}").collect()]
    assert told[-5:] == ["MERGE", "UPDATE", "DELETE", "WRITE", "CREATE TABLE"]
    assert lake.table(name).scan().to_arrow().num_rows == 6
    assert lake.table(name).mirror.validate().ok
    # Both are known by where Delta asks.
    (newest,) = lake.table(name).history(limit=1)
    changed = spark.sql(f"DESCRIBE DETAIL {table}").first().lastModified
    assert changed.timestamp() == newest.timestamp.timestamp()
    spark.sql(f"CREATE TABLE {table}_new SHALLOW CLONE {table}")
    assert lake.table(f"{name}_new").version == 0
    assert spark.table(f"{table}_new").count() == 6


def test_transactions_and_procedures(spark, attached, lake):
    """What Delta must not write inside of a transaction is known by where Delta does it."""
    names = [f"seams.{letter}{uuid.uuid4().hex[:8]}" for letter in "ab"]
    tables = [f"{CATALOG}.{name}" for name in names]
    for table in tables:
        spark.sql(f"CREATE TABLE {table} (id BIGINT)")
        spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, 4, 1, 2)")
    before = [set(_files(lake, name)) for name in names]
    spark.sql(f"CALL {CATALOG}.system.begin()")
    for statement in (
        "OPTIMIZE {t}", "REORG TABLE {t} APPLY (PURGE)", "RESTORE TABLE {t} TO VERSION AS OF 0",
        "ALTER TABLE {t} ADD COLUMNS (w INT)", "DROP TABLE {t}", "CREATE TABLE {t}_n (id INT)",
    ):  # fmt: skip
        with pytest.raises(IllegalArgumentException, match="can't be part of a transaction"):
            spark.sql(statement.replace("{t}", tables[0]))
    assert [set(_files(lake, name)) for name in names] == before
    spark.sql(f"DELETE FROM {tables[0]} WHERE id = 1")
    spark.sql(
        f"MERGE INTO {tables[1]} t USING {tables[0]} s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    assert [spark.table(table).count() for table in tables] == [3, 1]
    rows = spark.sql(f"CALL {CATALOG}.system.commit()").collect()
    assert {tuple(row) for row in rows} == {(name, 2) for name in names}
    assert [spark.table(table).count() for table in tables] == [3, 1]
    (told, *_) = spark.sql(f"CALL {CATALOG}.system.history('{names[1]}', limit => 1)").collect()
    assert (told.version, told.operation) == (2, "MERGE")
    assert spark.sql(f"SHOW PROCEDURES IN {CATALOG}.system").count() > 10


def _files(lake, name: str) -> list[Path]:
    return list(Path(lake.table(name).location.removeprefix("file://")).glob("*.parquet"))
