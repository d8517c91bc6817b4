"""Frames and views can't be written to: every writing statement and call of Spark is tried on them.

Each is refused at once, with the way out, or goes elsewhere, as `saveAsTable` does; the table's
folder keeps every byte. Stock Delta's views, beside, take what ours refuse.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import functions as sql

import deltasql.spark
from deltasql.spark.native.guard import WAY_OUT
from tests.spark.cross_check import rows as rows_of

# What never ends is a failure, too; a statement that is refused takes a fraction of a second.
SECONDS = 100
CATALOG = "spark.sql.catalog.spark_catalog"
NEW = "SELECT 100L AS id, 1L AS p"
SOURCE = f"({NEW}) s ON t.id = s.id"

# On ours refused, on a view of stock Delta's carried out.
CHANGES = {
    "insert into": f"INSERT INTO {{v}} {NEW}",
    "insert overwrite": f"INSERT OVERWRITE {{v}} {NEW}",
    "delete": "DELETE FROM {v} WHERE id = 1",
    "update": "UPDATE {v} SET id = 7 WHERE id = 1",
    "merge": f"MERGE INTO {{v}} t USING {SOURCE} WHEN NOT MATCHED THEN INSERT *",
}
# Refused on any view, or on any that is not a table of the catalog.
STATEMENTS = {
    "insert by name": f"INSERT INTO {{v}} BY NAME {NEW}",
    "insert columns": "INSERT INTO {v} (p, id) SELECT 1L, 100L",
    "insert values": "INSERT INTO {v} VALUES (100, 1)",
    "insert table": "INSERT INTO {v} TABLE {v}",
    "insert into partition": "INSERT INTO {v} PARTITION (p = 1) SELECT 100L",
    "insert into dynamic partition": "INSERT INTO {v} PARTITION (p) SELECT 100L, 1L",
    "overwrite partition": "INSERT OVERWRITE {v} PARTITION (p = 1) SELECT 100L",
    "overwrite if not exists": "INSERT OVERWRITE {v} PARTITION (p = 1) IF NOT EXISTS SELECT 100L",
    "overwrite by name": f"INSERT OVERWRITE {{v}} BY NAME {NEW}",
    "overwrite itself": "INSERT OVERWRITE {v} SELECT * FROM {v}",
    "replace where": f"INSERT INTO {{v}} REPLACE WHERE p = 1 {NEW}",
    "from insert": "FROM {v} INSERT INTO {v} SELECT * INSERT OVERWRITE {v} SELECT *",
    "delete all": "DELETE FROM {v}",
    "delete by subquery": "DELETE FROM {v} WHERE id IN (SELECT id FROM range(9))",
    "update all": "UPDATE {v} SET p = 2",
    "merge delete": f"MERGE INTO {{v}} t USING {SOURCE} WHEN MATCHED THEN DELETE",
    "merge by source": f"MERGE INTO {{v}} t USING {SOURCE} WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "merge itself": "MERGE INTO {v} t USING {v} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "truncate": "TRUNCATE TABLE {v}",
    "truncate partition": "TRUNCATE TABLE {v} PARTITION (p = 1)",
    "load data": "LOAD DATA LOCAL INPATH '/nowhere' OVERWRITE INTO TABLE {v}",
    "add column": "ALTER TABLE {v} ADD COLUMNS (x INT)",
    "drop column": "ALTER TABLE {v} DROP COLUMN p",
    "drop partition": "ALTER TABLE {v} DROP PARTITION (p = 1)",
    "set property": "ALTER TABLE {v} SET TBLPROPERTIES ('a' = 'b')",
    "set location": "ALTER TABLE {v} SET LOCATION '/nowhere'",
    "repair": "MSCK REPAIR TABLE {v}",
    "analyze": "ANALYZE TABLE {v} COMPUTE STATISTICS",
    "optimize": "OPTIMIZE {v}",
    "vacuum": "VACUUM {v}",
    "restore": "RESTORE TABLE {v} TO VERSION AS OF 0",
    "convert": "CONVERT TO DELTA {v}",
    "overwrite its folder": "INSERT OVERWRITE DIRECTORY '{at}' USING parquet SELECT * FROM {v}",
}
CALLS: dict[str, Callable[[Any, Any, str], Any]] = {
    "insertInto": lambda _, rows, v: rows.write.insertInto(v),
    "insertInto overwrite": lambda _, rows, v: rows.write.insertInto(v, overwrite=True),
    "mode insertInto": lambda _, rows, v: rows.write.mode("overwrite").insertInto(v),
    "writeTo append": lambda _, rows, v: rows.writeTo(v).append(),
    "writeTo overwrite": lambda _, rows, v: rows.writeTo(v).overwrite(sql.lit(True)),
    "writeTo partitions": lambda _, rows, v: rows.writeTo(v).overwritePartitions(),
    "writeTo replace": lambda _, rows, v: rows.writeTo(v).using("delta").replace(),
    "mergeInto": lambda _, rows, v: (
        rows.alias("s").mergeInto(v, sql.expr("s.id = 1")).whenNotMatched().insertAll().merge()
    ),
    "toTable": lambda spark, _, v: (
        spark.readStream.format("rate").load().writeStream.format("delta").toTable(v)
    ),
    "DeltaTable": lambda spark, _, v: spark._jvm.io.delta.tables.DeltaTable.forName(
        spark._jsparkSession, v
    ).delete(),
}
# Carried out, elsewhere: on the view itself, or on a table of the same name.
HARMLESS: dict[str, Callable[[Any, Any, str], Any]] = {
    "cache": lambda spark, _, v: spark.sql(f"CACHE TABLE {v}"),
    "refresh": lambda spark, _, v: spark.sql(f"REFRESH TABLE {v}"),
    "uncache": lambda spark, _, v: spark.sql(f"UNCACHE TABLE {v}"),
    "save as table": lambda _, rows, v: rows.write.format("delta").saveAsTable(v),
    "overwrite table": lambda _, rows, v: (
        rows.write.format("delta").mode("overwrite").saveAsTable(v)
    ),
    "drop that table": lambda spark, _, v: spark.sql(f"DROP TABLE default.{v}"),
    "another view": lambda spark, _, v: spark.sql(f"ALTER VIEW {v} AS SELECT 1"),
    "drop": lambda spark, _, v: spark.sql(f"DROP TABLE {v}"),
}
SHOWS_WAY_OUT = {*CHANGES, "insert by name", "insert values", "overwrite partition", "delete all"}


def carry_out(call: Callable[[], Any]) -> Exception | None:
    """The error that a call ends with; it must end."""
    ended: list[Exception | None] = []

    def run() -> None:
        try:
            found = call()
            if hasattr(found, "collect"):
                found.collect()
            ended.append(None)
        except (PySparkException, Py4JError) as problem:
            ended.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert ended, "it never returns"
    return ended[0]


@dataclass(frozen=True)
class Target:
    """A table of ours, with views of it in a session."""

    spark: Any
    db: Any
    name: str

    @property
    def location(self) -> str:
        return self.db.lake.table(self.name).location

    def rows(self) -> Any:
        return self.spark.sql(NEW)

    def state(self) -> dict[str, Any]:
        """Every byte of the folder, the version, and the rows."""
        folder = Path(unquote(urlsplit(self.location).path))
        found = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        table = self.db.lake.table(self.name)
        return {**found, "version": table.version, "rows": table.scan().to_arrow().num_rows}

    def must_refuse(self, call: Callable[[], Any]) -> str:
        """What a call is refused with, the table untouched."""
        # A view that is not there would be refused for that.
        if self.name.startswith("views."):
            self.db.register_views("views")
        before = self.state()
        problem = carry_out(call)
        assert self.state() == before
        assert problem is not None, "it was carried out"
        # What Spark can't read would prove nothing.
        assert not isinstance(problem, ParseException), problem
        return str(problem)


def made(spark: Any, db: Any, name: str) -> Target:
    feed = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    first = spark.sql("SELECT id, id % 3 AS p FROM range(6)")
    db.write(first, name, partition_by="p", properties=feed)
    db.table(name).delete("id = 5")
    db.lake.mirror.run(once=True)
    return Target(spark, db, name)


@pytest.fixture(scope="module")
def ours(spark, db) -> Target:
    return made(spark, db, "views.ours")


@pytest.fixture(scope="module")
def ours_elsewhere(spark, lake) -> Target:
    """In a session with Spark's own catalog."""
    session = spark.newSession()
    session.conf.unset(CATALOG)
    return made(session, deltasql.spark.Database(session, lake), "views.elsewhere")


@pytest.mark.parametrize("about", [*CHANGES, *STATEMENTS])
def test_statements_on_views_are_refused(ours, about):
    text = {**CHANGES, **STATEMENTS}[about].format(v="ours", at=ours.location)
    said = ours.must_refuse(lambda: ours.spark.sql(text))
    assert WAY_OUT in said or about not in SHOWS_WAY_OUT, said


@pytest.mark.parametrize("about", CALLS)
def test_calls_on_views_are_refused(ours, about):
    ours.must_refuse(lambda: CALLS[about](ours.spark, ours.rows(), "ours"))


@pytest.mark.parametrize("about", [*CHANGES, "overwrite partition", "insertInto overwrite"])
def test_under_the_catalog_of_spark_too(ours_elsewhere, about):
    spark, view = ours_elsewhere.spark, "elsewhere"
    if about in CALLS:
        said = ours_elsewhere.must_refuse(lambda: CALLS[about](spark, ours_elsewhere.rows(), view))
    else:
        text = {**CHANGES, **STATEMENTS}[about].format(v=view)
        said = ours_elsewhere.must_refuse(lambda: spark.sql(text))
    assert WAY_OUT in said


VIEWS: dict[str, Callable[[Target], Any]] = {
    "a frame": lambda t: t.db.read(t.name),
    "an alias": lambda t: t.db.read(t.name).alias("x"),
    "a version": lambda t: t.db.read(t.name, version=0),
    "a condition": lambda t: t.db.read(t.name, where="p = 1"),
    "a filter": lambda t: t.db.read(t.name).where("p = 1"),
    "columns": lambda t: t.db.read(t.name).select("id", "p"),
    "a join": lambda t: t.db.read(t.name).join(t.db.read(t.name), ["id", "p"]),
    "changes": lambda t: t.db.changes(t.name, 0).select("id", "p"),
    "cached": lambda t: t.db.read(t.name).cache(),
    "of a view": lambda t: (t.db.register_views("views"), t.spark.table("ours").select("*"))[1],
}
WHOLE = {"a frame", "an alias", "a version", "cached"}


@pytest.mark.parametrize("about", VIEWS)
def test_views_of_frames_are_refused(ours, about):
    frame = VIEWS[about](ours)
    frame.createOrReplaceTempView("own")
    for change in CHANGES.values():
        said = ours.must_refuse(lambda text=change: ours.spark.sql(text.format(v="own")))
        assert WAY_OUT in said or ("INSERT" in said and about not in WHOLE), said
    rows = ours.rows()
    ours.must_refuse(lambda: rows.write.insertInto("own", overwrite=True))
    frame.unpersist()


def test_global_views_and_views_in_sql_are_refused(ours):
    ours.db.read(ours.name).createOrReplaceGlobalTempView("everywhere")
    ours.db.register_views("views")
    ours.spark.sql("CREATE OR REPLACE TEMPORARY VIEW told AS SELECT * FROM ours")
    for view in ("global_temp.everywhere", "told"):
        for change in CHANGES.values():
            ours.must_refuse(lambda v=view, text=change: ours.spark.sql(text.format(v=v)))


def test_frames_of_a_transaction_are_refused(ours):
    with ours.db.transaction() as tx:
        tx.read(ours.name).createOrReplaceTempView("inside")
        for change in CHANGES.values():
            said = ours.must_refuse(lambda text=change: ours.spark.sql(text.format(v="inside")))
            assert WAY_OUT in said


def test_batches_of_a_stream_are_refused(ours, tmp_path):
    said = []

    def batch(frame, _):
        frame.createOrReplaceTempView("batch")
        for change in CHANGES.values():
            text = change.format(v="batch")
            said.append(ours.must_refuse(lambda t=text: frame.sparkSession.sql(t)))

    stream = ours.db.stream(ours.name, skip_change_commits=True).writeStream
    stream = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    stream.foreachBatch(batch).start().awaitTermination()
    assert len(said) >= len(CHANGES)


@pytest.mark.parametrize(
    "setting",
    [
        ("spark.sql.legacy.storeAnalyzedPlanForView", "true"),
        ("spark.sql.storeAssignmentPolicy", "LEGACY"),
        ("spark.sql.sources.partitionOverwriteMode", "dynamic"),
    ],
    ids=lambda setting: setting[0].rpartition(".")[2],
)
def test_whatever_the_session_is_set_to(ours, setting):
    ours.spark.conf.set(*setting)
    try:
        ours.db.register_views("views")
        ours.spark.sql("CREATE OR REPLACE TEMPORARY VIEW told AS SELECT * FROM ours")
        for view in ("ours", "told"):
            for change in CHANGES.values():
                ours.must_refuse(lambda v=view, text=change: ours.spark.sql(text.format(v=v)))
        assert ours.spark.table("told").count() == 5
    finally:
        ours.spark.conf.unset(setting[0])


def test_what_writes_elsewhere_leaves_the_table_alone(ours):
    ours.db.read(ours.name).createOrReplaceTempView("alike")
    before = ours.state()
    for about, call in HARMLESS.items():
        problem = carry_out(lambda c=call: c(ours.spark, ours.rows(), "alike"))
        assert problem is None, (about, problem)
        assert ours.state() == before, about


def test_delta_by_the_path_of_a_table_is_refused(ours):
    """By the fence: Delta may have written a file by then, which nothing refers to."""
    before, spark, at = ours.state(), ours.spark, ours.location
    writer = ours.rows().write.format("delta")
    for call in (
        lambda: writer.mode("append").save(at),
        lambda: writer.mode("overwrite").save(at),
        lambda: spark.sql(f"INSERT INTO delta.`{at}` {NEW}"),
        lambda: spark.sql(f"DELETE FROM delta.`{at}`"),
    ):
        problem = carry_out(call)
        assert "feature(s) that are unsupported" in str(problem)
        assert ours.state().items() >= before.items()


@pytest.mark.parametrize("about", CHANGES)
def test_views_of_stock_delta_take_what_ours_refuse(spark, stock, about):
    """So that a statement which is refused is not just a wrong one."""
    table = stock("id BIGINT, p BIGINT")
    spark.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range(6)")
    spark.table(table).createOrReplaceTempView("theirs")
    before = rows_of(spark.table(table))
    assert carry_out(lambda: spark.sql(CHANGES[about].format(v="theirs"))) is None
    # Inserts go past its log, into the folder.
    assert about.startswith("insert") or rows_of(spark.table(table)) != before


def test_views_of_the_data_source_commit_or_are_refused(spark, db, lake, name):
    db.write(spark.sql("SELECT id, id % 3 AS p FROM range(6)"), name)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW plain USING deltasql OPTIONS (table '{name}')")
    target = Target(spark, db, name)
    for about, change in CHANGES.items():
        version = lake.table(name).version
        text = change.format(v="plain")
        if about == "insert into":
            assert carry_out(lambda t=text: spark.sql(t)) is None
            assert lake.table(name).version == version + 1
            assert db.read(name).where("id = 100").count() == 1
        elif about == "insert overwrite":
            assert carry_out(lambda t=text: spark.sql(t)) is None
            assert lake.table(name).version == version + 1
            assert rows_of(db.read(name)) == ["(100, 1)"]
        else:
            target.must_refuse(lambda t=text: spark.sql(t))


# --- what must not change ----------------------------------------------------------------


def test_plans_are_those_of_the_bare_scan(ours):
    guarded = ours.db.read(ours.name)
    plan = guarded.where("p = 1 AND id > 0").select("id")._jdf.queryExecution()
    optimized = plan.optimizedPlan()
    (scan,) = [line for line in plan.executedPlan().toString().splitlines() if "FileScan" in line]
    assert "PartitionFilters: [isnotnull(p" in scan
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,0)]" in scan
    assert "ReadSchema: struct<id:bigint>" in scan
    for gone in ("WithCTE", "Aggregate", WAY_OUT):
        assert gone not in optimized.toString()
    whole = guarded._jdf.queryExecution().optimizedPlan()
    assert whole.nodeName() == "LogicalRelation"
    live = ours.db.lake.table(ours.name).snapshot().files()
    assert whole.stats().sizeInBytes() == sum(live.column("size").to_pylist())


def test_frames_read_as_ever(spark, ours):
    ours.db.register_views("views")
    frame = ours.db.read(ours.name)
    files = {row[0] for row in frame.select("_metadata.file_path").collect()}
    assert files == {row[0] for row in frame.select(sql.input_file_name()).collect()}
    assert files == set(frame.inputFiles())
    assert frame.select("*", "_metadata.row_index").count() == 5
    assert frame.join(frame, "id").count() == 5
    assert frame.alias("a").join(frame.alias("b"), sql.expr("a.id = b.p")).count() == 5
    assert frame.union(frame).distinct().count() == 5
    assert frame.hint("broadcast").join(frame.cache(), "id").count() == 5
    frame.unpersist()
    correlated = "(SELECT max(p) FROM ours i WHERE i.id = o.id)"
    queries = [
        "SELECT * FROM ours o WHERE EXISTS (SELECT 1 FROM ours i WHERE i.id = o.id)",
        "SELECT * FROM ours WHERE id NOT IN (SELECT id + 100 FROM ours)",
        f"SELECT {correlated} FROM ours o",
        f"SELECT * FROM ours o, LATERAL {correlated}",
        "WITH w AS (SELECT * FROM ours) SELECT a.* FROM w a JOIN w b USING (id)",
        "SELECT /*+ BROADCAST(ours) */ * FROM ours",
    ]
    for query in queries:
        assert spark.sql(query).count() == 5, query


def test_rows_of_ours_go_into_tables_of_others(spark, ours, stock):
    table = stock("id BIGINT, p BIGINT")
    ours.db.register_views("views")
    spark.sql(f"INSERT INTO {table} SELECT * FROM ours")
    spark.sql(f"MERGE INTO {table} t USING ours s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert spark.table(table).count() == 0
    ours.db.read(ours.name).write.format("delta").mode("append").saveAsTable(table)
    assert spark.table(table).count() == 5
    spark.sql(f"CREATE TABLE {table}_as USING delta AS SELECT * FROM ours")
    assert spark.table(f"{table}_as").count() == 5
    spark.sql(f"DROP TABLE {table}_as")


def test_streams_join_frames(spark, ours, tmp_path):
    (tmp_path / "in").mkdir()
    spark.range(9).write.parquet(str(tmp_path / "in" / "a"))
    stream = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "in" / "*"))
    found: list[int] = []
    writer = stream.join(ours.db.read(ours.name), "id").writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.foreachBatch(lambda rows, _: found.append(rows.count())).start().awaitTermination()
    assert sum(found) == 5
