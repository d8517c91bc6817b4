"""Transactions of statements: one cut, their own writes, and all of them or none."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.errors import IllegalArgumentException, PySparkException

from deltasql.errors import (
    CommitError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ValidationError,
)
from deltasql.spec.actions import CommitInfo
from tests.spark.sql.conftest import CATALOG

VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


class Pair:
    """Two tables of a lake, in Spark's words and in the lake's."""

    def __init__(self, spark, lake, options: str = "") -> None:
        word = uuid.uuid4().hex[:8]
        self.names = f"tx.a{word}", f"tx.b{word}"
        self.a, self.b = (f"{CATALOG}.{name}" for name in self.names)
        self.spark = spark
        for table in (self.a, self.b):
            spark.sql(f"CREATE TABLE {table} (id BIGINT, v BIGINT) {options}")
            spark.sql(f"INSERT INTO {table} SELECT id, 0 FROM range(1, 4, 1, 1)")
        self.tables = [lake.table(name) for name in self.names]

    def rows(self, table: str) -> list[tuple[int, int]]:
        return sorted(tuple(row)[:2] for row in self.spark.table(table).collect())

    def committed(self) -> list[list[tuple[int, int]]]:
        """What Python reads, outside of whatever is open in Spark."""
        return [
            sorted(
                zip(*table.scan(columns=["id", "v"]).to_arrow().to_pydict().values(), strict=True)
            )
            for table in self.tables
        ]

    def versions(self) -> list[int]:
        return [table.version for table in self.tables]

    def files(self) -> set[Path]:
        return {
            path
            for table in self.tables
            for path in Path(table.location.removeprefix("file://")).rglob("*")
            if path.suffix in (".parquet", ".bin") and "_delta_log" not in path.parts
        }


@pytest.fixture
def pair(spark, db, lake) -> Pair:
    return Pair(spark, lake)


def _info(table) -> CommitInfo:
    """The commitInfo of the newest version."""
    actions = table.changes(table.version)[0].actions
    return next(item for item in actions if isinstance(item, CommitInfo))


ZERO = [(1, 0), (2, 0), (3, 0)]


def test_all_statements_count_together(spark, db, pair):
    a, b = pair.a, pair.b
    with db.transaction() as tx:
        spark.sql(f"INSERT INTO {a} VALUES (4, 4)")
        spark.sql(f"UPDATE {a} SET v = v + 1 WHERE id = 4")
        spark.sql(f"DELETE FROM {a} WHERE id = 1")
        spark.sql(
            f"MERGE INTO {b} t USING {a} s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v + 10 WHEN NOT MATCHED THEN INSERT *"
        )
        more = spark.createDataFrame([(7, 7)], "id BIGINT, v BIGINT")
        more.writeTo(b).append()
        more.write.mode("append").saveAsTable(a)
        more.write.insertInto(a)
        tables = spark._jvm.io.delta.tables.DeltaTable
        tables.forName(spark._jsparkSession, b).delete("id = 1")
        tx.write(more, pair.names[1])
        assert pair.rows(a) == [(2, 0), (3, 0), (4, 5), (7, 7), (7, 7)]
        assert pair.rows(b) == [(2, 10), (3, 10), (4, 5), (7, 7), (7, 7)]
        assert spark.sql(f"SELECT count(*) FROM {a} JOIN {b} USING (id)").collect()[0][0] == 7
        assert pair.committed() == [ZERO, ZERO]
        inside = [pair.rows(a), pair.rows(b)]
    assert pair.committed() == inside == [pair.rows(a), pair.rows(b)]
    assert pair.versions() == [2, 2]
    assert dict(tx.versions) == dict.fromkeys(pair.names, 2)
    infos = [table.changes(2)[0].actions for table in pair.tables]
    assert (
        len({item.txn_id for actions in infos for item in actions if hasattr(item, "txn_id")}) == 1
    )
    told = spark.sql(f"DESCRIBE HISTORY {a}").collect()[0]
    assert told.operation == "TRANSACTION"
    assert told.operationParameters["operations"] == '["WRITE","UPDATE","DELETE","WRITE","WRITE"]'
    assert int(told.operationMetrics["numOutputRows"]) == 3
    assert int(told.operationMetrics["numDeletedRows"]) == 1


def test_a_block_that_raises_leaves_nothing(spark, db, pair):
    before = pair.files()

    def fail() -> None:
        with db.transaction():
            spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
            spark.sql(f"UPDATE {pair.b} SET v = 9")
            assert pair.files() > before
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert pair.versions() == [1, 1]
    assert [pair.rows(pair.a), pair.rows(pair.b)] == pair.committed() == [ZERO, ZERO]
    assert pair.files() == before


def test_a_conflict_on_one_table_commits_nothing(spark, db, pair):
    before = pair.files()

    def lose() -> None:
        with db.transaction():
            spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
            spark.sql(f"UPDATE {pair.b} SET v = v + 1 WHERE id = 2")
            pair.tables[1].overwrite(pa.table({"id": [2], "v": [5]}), where="id = 2")

    with pytest.raises((ConcurrentAppendError, ConcurrentDeleteReadError)):
        lose()
    assert pair.committed() == [ZERO, [(1, 0), (2, 5), (3, 0)]]
    assert len(pair.files()) == len(before) + 2


def test_one_cut(spark, db, pair):
    with db.transaction():
        assert pair.rows(pair.a) == ZERO
        for table in pair.tables:
            table.append(pa.table({"id": [9], "v": [9]}))
        assert [pair.rows(pair.a), pair.rows(pair.b)] == [ZERO, ZERO]
        assert spark.sql(f"DESCRIBE HISTORY {pair.b}").count() == 2
        for version in (2, 3):
            with pytest.raises(PySparkException, match="DELTA_VERSION_NOT"):
                spark.sql(f"SELECT * FROM {pair.b} VERSION AS OF {version}").collect()
        assert spark.sql(f"SELECT * FROM {pair.b} VERSION AS OF 0").count() == 0
        # An append conflicts with nothing, whatever it did not see.
        spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
    assert pair.rows(pair.a) == [*ZERO, (4, 4), (9, 9)]


def test_what_was_read_is_what_conflicts(spark, db, pair):
    """Rows that are read by a condition, not all of them."""

    def add(value: int, *, meanwhile: int) -> None:
        with db.transaction():
            highest = spark.sql(f"SELECT max(v) FROM {pair.a} WHERE id = 2").collect()[0][0]
            spark.sql(f"UPDATE {pair.b} SET v = {highest} + {value} WHERE id = 1")
            spark.sql(f"INSERT INTO {pair.a} VALUES (10, {value})")
            pair.tables[0].overwrite(
                pa.table({"id": [meanwhile], "v": [0]}), where=f"id = {meanwhile}"
            )

    # In files of their own: stats tell them apart.
    pair.tables[0].append(pa.table({"id": [50], "v": [0]}))
    add(1, meanwhile=50)
    with pytest.raises((ConcurrentAppendError, ConcurrentDeleteReadError)):
        add(2, meanwhile=2)
    assert [row for row in pair.committed()[0] if row[0] == 10] == [(10, 1)]


REFUSED = (
    ("CREATE TABLE {a}_new (id INT)", "CREATE TABLE"),
    ("CREATE TABLE {a}_new AS SELECT 1 AS x", "CREATE TABLE"),
    ("CREATE TABLE {a}_new SHALLOW CLONE {a}", "CREATE TABLE"),
    ("CREATE OR REPLACE TABLE {a} (x INT)", "CREATE OR REPLACE TABLE"),
    ("DROP TABLE {a}", "DROP TABLE"),
    ("ALTER TABLE {a} RENAME TO {a}_new", "RENAME"),
    ("ALTER TABLE {a} ADD COLUMNS (w INT)", "ALTER TABLE"),
    ("ALTER TABLE {a} SET TBLPROPERTIES ('x.y' = 'z')", "ALTER TABLE"),
    ("ALTER TABLE {a} ADD CONSTRAINT c CHECK (id > 0)", "ALTER TABLE"),
    ("COMMENT ON TABLE {a} IS 'no'", "ALTER TABLE"),
    ("CREATE NAMESPACE lake.nowhere", "CREATE NAMESPACE"),
    ("DROP NAMESPACE lake.tx CASCADE", "DROP NAMESPACE"),
    ("OPTIMIZE {a}", "OPTIMIZE"),
    ("OPTIMIZE {a} ZORDER BY (id)", "OPTIMIZE"),
    ("REORG TABLE {a} APPLY (PURGE)", "OPTIMIZE|REORG"),
    ("RESTORE TABLE {a} TO VERSION AS OF 0", "RESTORE"),
    ("VACUUM {a}", "VACUUM"),
)


def test_what_is_refused_inside(spark, db, pair):
    spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
    before = pair.files()
    with db.transaction():
        spark.sql(f"INSERT INTO {pair.b} VALUES (4, 4)")
        inside = pair.files()
        for statement, word in REFUSED:
            with pytest.raises(IllegalArgumentException, match=word):
                spark.sql(statement.replace("{a}", pair.a))
        with pytest.raises(ValidationError, match="inside another one"), db.transaction():
            pass
        assert pair.files() == inside
        spark.sql(f"INSERT INTO {pair.b} VALUES (5, 5)")
    assert pair.versions() == [2, 2]
    assert pair.committed()[1] == [*ZERO, (4, 4), (5, 5)]
    assert len(pair.files()) == len(before) + 2


def test_frames_belong_to_where_they_were_made(spark, db, pair):
    outside = spark.table(pair.a)
    with db.transaction():
        spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
        inside = spark.table(pair.a)
        assert inside.count() == 4
        with pytest.raises(IllegalArgumentException, match="before the transaction began"):
            outside.collect()
    assert outside.count() == 4
    with pytest.raises(IllegalArgumentException, match="the transaction has ended"):
        inside.collect()


def test_others_see_nothing_of_it(spark, db, pair):
    def count() -> int:
        return spark.table(pair.a).count()

    spark.sql(f"CACHE TABLE {pair.a}")
    try:
        with ThreadPoolExecutor(1) as other:
            with db.transaction():
                spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
                spark.table(pair.a).cache().count()
                assert (count(), other.submit(count).result()) == (4, 3)
            assert (count(), other.submit(count).result()) == (4, 4)

            def undo() -> None:
                with db.transaction():
                    spark.sql(f"DELETE FROM {pair.a}")
                    assert (count(), other.submit(count).result()) == (0, 4)
                    raise RuntimeError("stop")

            with pytest.raises(RuntimeError, match="stop"):
                undo()
            assert (count(), other.submit(count).result()) == (4, 4)
    finally:
        spark.catalog.clearCache()


def test_threads_of_one_block(spark, db, pair):
    def insert(number: int) -> None:
        spark.sql(f"INSERT INTO {pair.a} VALUES ({number}, 1)")

    with db.transaction():
        threads = [InheritableThread(target=insert, args=(number,)) for number in range(10, 14)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert spark.table(pair.a).where("v = 1").count() == 4
    assert pair.versions() == [2, 1]
    assert len(pair.committed()[0]) == 7


def test_transfers_of_two_threads_lose_nothing(spark, db, pair):
    """Each takes one from a row of the first table and gives it to the second, until it counts."""

    def transfer(_: int) -> None:
        for _ in range(20):
            try:
                with db.transaction():
                    spark.sql(f"UPDATE {pair.a} SET v = v - 1 WHERE id = 1")
                    spark.sql(f"UPDATE {pair.b} SET v = v + 1 WHERE id = 1")
            except CommitError:
                continue
            else:
                return

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(transfer, range(4)))
    assert pair.committed() == [[(1, -4), *ZERO[1:]], [(1, 4), *ZERO[1:]]]
    assert pair.versions() == [5, 5]


def test_vectors_and_overwrites_fold(spark, db, lake):
    pair = Pair(spark, lake, VECTORS)
    with db.transaction():
        spark.sql(f"DELETE FROM {pair.a} WHERE id = 1")
        spark.sql(f"DELETE FROM {pair.a} WHERE id = 2")
        spark.sql(f"UPDATE {pair.a} SET v = 8 WHERE id = 3")
        spark.sql(f"INSERT OVERWRITE {pair.b} VALUES (5, 5)")
        spark.sql(f"INSERT INTO {pair.b} REPLACE WHERE id = 5 VALUES (5, 6)")
        assert pair.rows(pair.a) == [(3, 8)]
    assert pair.committed() == [[(3, 8)], [(5, 6)]]
    assert pair.versions() == [2, 2]
    kept = pair.files()

    def undo() -> None:
        with db.transaction():
            spark.sql(f"INSERT INTO {pair.a} SELECT id, 1 FROM range(20, 25, 1, 1)")
            spark.sql(f"DELETE FROM {pair.a} WHERE id = 20")
            spark.sql(f"DELETE FROM {pair.a} WHERE id = 21")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        undo()
    assert pair.files() == kept


def test_vectors_of_files_without_rows_are_left_to_vacuum(spark, db, lake):
    """Delta writes vectors before it sees that no row of a file is left. Then it removes the file
    and names its vector nowhere, in a transaction that commits as in one that does not.
    """
    pair = Pair(spark, lake, VECTORS)
    kept = pair.files()

    def undo() -> None:
        with db.transaction():
            spark.sql(f"DELETE FROM {pair.a} WHERE id > 0")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        undo()
    left = pair.files() - kept
    assert pair.files() >= kept
    assert {path.name[:15] for path in left} == {"deletion_vector"}
    for path in left:
        os.utime(path, (0, 0))
    assert set(pair.tables[0].vacuum().files) == {path.name for path in left}


def test_a_table_can_be_replaced_by_a_query(spark, db, lake, pair):
    """As `saveAsTable` with overwrite does; under its old name, with its history."""
    with db.transaction():
        spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
        rows = spark.table(pair.a).selectExpr("id", "v", "'x' AS more")
        rows.write.mode("overwrite").saveAsTable(pair.b)
        spark.sql(f"DELETE FROM {pair.b} WHERE id = 1")
        assert spark.table(pair.b).columns == ["id", "v", "more"]
        spark.sql(f"CREATE OR REPLACE TABLE {pair.a} AS SELECT 8L AS id, 8L AS v")
    assert pair.committed() == [[(8, 8)], [*ZERO[1:], (4, 4)]]
    assert pair.versions() == [2, 2]
    assert "deltasql" in str(lake.table(pair.names[1]).snapshot().protocol.writer_features)


def test_the_change_feed_is_complete(spark, db, lake):
    pair = Pair(spark, lake, "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    with db.transaction():
        spark.sql(f"INSERT INTO {pair.a} VALUES (4, 4)")
        spark.sql(f"UPDATE {pair.a} SET v = 1 WHERE id = 2")
        spark.sql(f"DELETE FROM {pair.a} WHERE id = 4")
        before = spark.sql(f"SELECT id, _change_type FROM table_changes('{pair.a}', 0)")
        assert sorted(tuple(row) for row in before.collect()) == [
            (number, "insert") for number in (1, 2, 3)
        ]
    changes = spark.sql(f"SELECT id, v, _change_type FROM table_changes('{pair.a}', 2)")
    assert sorted(tuple(row) for row in changes.collect()) == [
        (2, 0, "update_preimage"), (2, 1, "update_postimage"),
        (4, 4, "delete"), (4, 4, "insert"),
    ]  # fmt: skip


def test_the_change_feed_of_rows_without_ids_is_complete(spark, db, lake):
    """Rows that the transaction wrote itself, and then marked as deleted: Delta reads no file
    with vectors and without row ids, and those come with the commit.
    """
    pair = Pair(
        spark,
        lake,
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
        "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')",
    )
    with db.transaction() as tx:
        spark.sql(f"DELETE FROM {pair.a} WHERE id = 1")
        spark.sql(f"UPDATE {pair.a} SET v = v + 5 WHERE id IN (2, 3)")
        spark.sql(f"DELETE FROM {pair.a} WHERE id = 2")
        read = tx.read(pair.names[0]).collect()
        assert [(row.id, row.v) for row in read] == [(3, 5)]
    assert pair.committed()[0] == [(3, 5)]
    assert _replayed(spark, pair.a, pair.versions()[0]) == [(3, 5)]


def _replayed(spark, table: str, last: int) -> list[tuple[int, int]]:
    """The rows that a table's change feed comes to."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in spark.sql(
        f"SELECT id, v, _change_type FROM table_changes('{table}', 0, {last})"
    ).collect():
        is_new = row._change_type in ("insert", "update_postimage")
        counts[row.id, row.v] += 1 if is_new else -1
    assert set(counts.values()) <= {0, 1}
    return sorted(+counts)


def test_row_ids_columns_and_identities(spark, db, lake):
    name = f"{CATALOG}.tx.t{uuid.uuid4().hex[:8]}"
    spark.sql(
        f"CREATE TABLE {name} (n BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT) "
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {name} (id) SELECT id FROM range(0, 2, 1, 1)")
    ids = "SELECT id, _metadata.row_id AS row FROM {t} ORDER BY id".replace("{t}", name)
    before = {row.id: row.row for row in spark.sql(ids).collect()}
    with db.transaction():
        spark.sql(f"INSERT INTO {name} (id) SELECT id FROM range(10, 12, 1, 1)")
        spark.sql(f"UPDATE {name} SET id = id + 100 WHERE id = 1")
        with pytest.raises(IllegalArgumentException, match="they get their ids when it commits"):
            spark.sql(f"UPDATE {name} SET id = id + 100 WHERE id = 10")
        spark.sql(f"INSERT INTO {name} (id) VALUES (20)")
        wider = spark.createDataFrame([(30, "x")], "id BIGINT, extra STRING")
        wider.write.mode("append").option("mergeSchema", "true").saveAsTable(name)
        assert spark.table(name).columns == ["n", "id", "extra"]
    found = spark.sql(ids).collect()
    assert [row.id for row in found] == [0, 10, 11, 20, 30, 101]
    rows = {row.id: row.row for row in found}
    assert (rows[0], rows[101]) == (before[0], before[1])
    assert len(set(rows.values())) == 6
    assert len({row.n for row in spark.table(name).collect()}) == 6


def test_a_batch_of_a_stream_is_a_block_and_a_stream_is_not_in_one(spark, db, pair, tmp_path):
    def both(frame, number: int) -> None:
        frame.createOrReplaceTempView("batch")
        with db.transaction():
            frame.sparkSession.sql(f"INSERT INTO {pair.b} SELECT id, 77 FROM batch")
            frame.sparkSession.sql(f"UPDATE {pair.b} SET v = v + 1 WHERE v = 77")

    query = spark.readStream.table(pair.a).writeStream.foreachBatch(both)
    query.option("checkpointLocation", str(tmp_path / "one")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert pair.versions() == [1, 2]
    assert pair.committed()[1] == sorted([*ZERO, (1, 78), (2, 78), (3, 78)])

    def start() -> None:
        rows = spark.readStream.table(pair.a).writeStream.format("delta")
        rows.option("checkpointLocation", str(tmp_path / "two")).trigger(availableNow=True).toTable(
            pair.b
        ).awaitTermination()

    with db.transaction(), pytest.raises(PySparkException, match="can't be part of a transaction"):
        start()
    assert pair.versions() == [1, 2]
