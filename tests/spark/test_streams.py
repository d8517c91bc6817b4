"""Streams in and out: every option, exactly once, and what stops them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sql
from pyspark.sql.streaming.datasource import ReadAllAvailable

from deltasql.errors import ValidationError
from deltasql.spark.datasource.source import registered
from deltasql.spark.sessions import profiles
from tests.spark.cross_check import rows

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    """Run a stream over what is there, from its checkpoint."""

    def start(frame, sink, checkpoint="checkpoint", **options):
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / checkpoint))
        writer = writer.options(**options).trigger(availableNow=True)
        if callable(sink):
            query = writer.foreachBatch(sink).start()
        else:
            query = writer.format("deltasql").start(sink)
        query.awaitTermination()

    return start


@pytest.fixture
def source(spark, db, name):
    """A table of two versions, with a change feed."""
    feed = {"delta.enableChangeDataFeed": "true"}
    db.write(spark.range(0, 6, 1, 2).withColumn("v", sql.lit("a")), name, properties=feed)
    db.write(spark.range(10, 12, 1, 1).withColumn("v", sql.lit("b")), name)
    return name


def ids(db, name):
    return sorted(row.id for row in db.read(name).collect())


def test_a_stream_goes_on_where_it_was(spark, db, source, run):
    out = f"{source}out"
    run(db.stream(source), db.sink(out))
    assert ids(db, out) == [0, 1, 2, 3, 4, 5, 10, 11]
    db.write(spark.range(20, 21).withColumn("v", sql.lit("c")), source)
    batches = []

    def sink(frame, batch):
        batches.append(batch)
        # Spark may send a batch twice; it counts once.
        for _ in range(2):
            db.sink(out)(frame, batch)

    run(db.stream(source), sink)
    assert batches == [1]
    assert ids(db, out) == [0, 1, 2, 3, 4, 5, 10, 11, 20]


def test_where_it_starts_and_how_much_it_takes(spark, db, source, run):
    sizes = []

    def count(frame, _):
        # Spark begins with an empty batch where there is nothing yet.
        sizes.extend(filter(None, [frame.count()]))

    run(db.stream(source, max_files_per_trigger=1), count, "one")
    assert sizes == [3, 3, 2]
    sizes.clear()
    run(db.stream(source, starting_version=1), count, "version")
    run(db.stream(source, starting_version="latest"), count, "latest")
    assert sizes == [2]
    sizes.clear()
    moment = db.lake.table(source).history()[0].timestamp.isoformat()
    run(db.stream(source, starting_timestamp=moment), count, "time")
    assert sizes == [2]
    with pytest.raises(Exception, match="give one of them"):
        db.stream(source, starting_version=1, starting_timestamp=moment).writeStream.foreachBatch(
            count
        ).start().processAllAvailable()


def test_another_table_of_the_same_name_is_not_the_one_that_was_read(
    spark, db, source, run, tmp_path
):
    seen = []

    def sink(frame, _):
        seen.extend(row.id for row in frame.collect())

    run(db.stream(source), sink)
    # A checkpoint from before offsets named their table.
    for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        path.write_text(re.sub(r',\s*"table":\s*"[^"]*"', "", path.read_text()))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    db.write(spark.range(20, 21).withColumn("v", sql.lit("c")), source)
    run(db.stream(source), sink)
    assert sorted(seen) == [0, 1, 2, 3, 4, 5, 10, 11, 20]
    db.lake.drop_table(source)
    for first in (100, 200, 300, 400):
        db.write(spark.range(first, first + 1).withColumn("v", sql.lit("d")), source)
    with pytest.raises(StreamingQueryException, match="not the table that the stream has read"):
        run(db.stream(source), sink)


def test_a_table_that_is_replaced_while_it_is_read(spark, db, source):
    """Asked as Spark asks: a running query could see the moment in between, with no table."""
    profile = {} if db.profile is None else {"lake": db.profile}
    opened = registered(str(profiles.kept_file()))({"path": source, **profile})
    reader = opened.streamReader(opened.schema())
    try:
        begin = reader.initialOffset()
        end = reader.latestOffset(begin, ReadAllAvailable())
        assert reader.partitions(begin, end)
        db.lake.drop_table(source)
        db.write(spark.range(100, 101).withColumn("v", sql.lit("d")), source)
        with pytest.raises(ValidationError, match="not the table that the stream has read"):
            reader.latestOffset(end, ReadAllAvailable())
        with pytest.raises(ValidationError, match="not the table that the stream has read"):
            reader.prepareForTriggerAvailableNow()
    finally:
        reader.stop()


def test_what_a_stream_has_not_read_stays(spark, db, source):
    """Asked as Spark asks: nobody can say how far a running query is."""
    profile = {} if db.profile is None else {"lake": db.profile}
    opened = registered(str(profiles.kept_file()))({"path": source, **profile})
    reader = opened.streamReader(opened.schema())
    table = db.lake.table(source)

    def vacuumed():
        return table.vacuum(0, dry_run=False, enforce_retention_duration=False).dead

    try:
        begin = reader.initialOffset()
        end = reader.latestOffset(begin, ReadAllAvailable())
        for number in range(2):
            table.overwrite(pa.table({"id": [number], "v": ["z"]}))
        assert vacuumed() == 0
        found = [
            value
            for part in reader.partitions(begin, end)
            for batch in reader.read(part)
            for value in batch.column("id").to_pylist()
        ]
        assert sorted(found) == [0, 1, 2, 3, 4, 5, 10, 11]
        (pin,) = (pin for pin in db.lake.pins() if pin.table == source)
        assert (pin.version, pin.reason) == (1, "stream")
        reader.commit(end)
        reader.commit({**end, "version": table.version + 1})
        assert [pin.version for pin in db.lake.pins() if pin.table == source] == [table.version]
    finally:
        reader.stop()
    assert not [pin for pin in db.lake.pins() if pin.table == source]
    assert vacuumed() == 4


def test_rows_that_go_stop_it_unless_told(spark, db, source, run):
    db.table(source).delete("id = 0")
    run(db.stream(source, starting_version=1, skip_change_commits=True), db.sink(f"{source}s"))
    assert ids(db, f"{source}s") == [10, 11]
    with pytest.raises(StreamingQueryException, match="skip_change_commits"):
        run(db.stream(source, starting_version=1), db.sink(f"{source}x"), "stops")
    db.table(source).delete()
    with pytest.raises(StreamingQueryException, match="deleted rows"):
        run(db.stream(source, starting_version=3), db.sink(f"{source}x"), "deletes")
    run(db.stream(source, starting_version=3, ignore_deletes=True), db.sink(f"{source}x"), "ok")


def test_the_change_feed_as_a_stream(spark, db, source, run):
    db.table(source).update("id < 3", {"v": "'u'"})
    db.table(source).delete("id = 10")
    stream = db.stream(source, starting_version=0, change_feed=True)
    run(stream, db.sink(f"{source}feed"))
    assert rows(db.read(f"{source}feed")) == rows(db.changes(source, 0))


def test_a_new_schema_stops_it_and_a_restart_goes_on(spark, db, source, tmp_path):
    out = f"{source}out"

    def start():
        frame = db.stream(source, starting_version=1)
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.foreachBatch(db.sink(out, merge_schema=True)).start()

    query = start()
    query.processAllAvailable()
    wider = spark.range(30, 31).select("id", sql.lit("c").alias("v"), sql.lit(1).alias("w"))
    db.write(wider, source, merge_schema=True)
    with pytest.raises(StreamingQueryException, match="changed at version 2"):
        query.processAllAvailable()
    query = start()
    query.processAllAvailable()
    query.stop()
    assert rows(db.read(out)) == ["(10, 'b', None)", "(11, 'b', None)", "(30, 'c', 1)"]


def test_several_tables_a_batch(spark, db, source, run):
    a, b = f"{source}a", f"{source}b"
    sums = {a: None, b: lambda frame: frame.groupBy("v").agg(sql.sum("id").alias("id"))}
    run(db.stream(source, max_files_per_trigger=1), db.sink(sums), "several")
    assert db.read(a).count() == 8
    assert db.read(a).agg(sql.sum("id")).collect() == db.read(b).agg(sql.sum("id")).collect()
    assert db.lake.table(a).snapshot().txns == db.lake.table(b).snapshot().txns

    def upsert(tx, frame, batch):
        on = "target.id = source.id"
        tx.table(a).merge(frame, on).whenMatchedUpdate(set={"v": "'m'"}).execute()
        tx.write(frame.selectExpr("v", f"{batch}L AS id"), b)

    # The function's work happens once, however often Spark asks for it.
    def twice(frame, batch):
        db.sink(upsert)(frame, batch)
        db.sink(upsert)(frame, batch)

    before = db.read(b).count()
    run(db.stream(source), twice, "function")
    assert {row.v for row in db.read(a).collect()} == {"m"}
    assert db.read(b).count() == before + 8


def test_the_sink_of_the_data_source(spark, db, source, run, tmp_path):
    out = f"{source}out"
    frame = spark.readStream.format("deltasql").option("maxFilesPerTrigger", 1).load(source)
    run(frame, out, "source")
    app = json.loads((tmp_path / "source" / "metadata").read_text())["id"]
    assert db.lake.table(out).snapshot().txns == {app: 2}
    assert ids(db, out) == [0, 1, 2, 3, 4, 5, 10, 11]
    # A checkpoint that lost its last commit sends the batch again.
    (tmp_path / "source" / "commits" / "2").unlink()
    (tmp_path / "source" / "commits" / ".2.crc").unlink(missing_ok=True)
    run(frame, out, "source")
    assert ids(db, out) == [0, 1, 2, 3, 4, 5, 10, 11]


def test_a_sink_must_know_its_stream(spark, db, name):
    frame = spark.range(1)
    with pytest.raises(ValidationError, match="app_id"):
        db.sink(name)(frame, 0)
    for _ in range(2):
        db.sink(name, app_id="mine")(frame, 0)
    assert db.read(name).count() == 1
