"""Made-up operations: the same rows, changes and metrics from Arrow, our Spark and stock Delta."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.row_operations import some
from tests.sizes import FULL
from tests.spark.three_engines import (
    FEED,
    SCHEMA,
    VECTORS,
    Ours,
    OurSpark,
    RefusedError,
    Stock,
    batch,
    every_operation,
    log_at,
    must_agree,
    row,
)

KINDS = {
    "plain": ((), ()),
    "vectors": ((), (VECTORS,)),
    "partitions, feed": (("p",), (FEED,)),
    "partitions, feed, vectors": (("p",), (FEED, VECTORS)),
    "feed, vectors": ((), (FEED, VECTORS)),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("stock")


def _made(db, name, kind, files, lost=None):
    by, properties = KINDS[kind]
    given = dict.fromkeys(properties, "true")
    table = db.lake.create_table(name, data=batch(files[0]), partition_by=by, properties=given)
    for rows in files[1:]:
        table.append(batch(rows))
    if lost is not None:
        # Not the first change of the table: there may be vectors already.
        table.delete(lost.format(t=""))
    return table


@pytest.mark.timeout(3600)
@settings(
    max_examples=200 if FULL else 20,
    # What `make test` checks is the same each time; the full size looks elsewhere each time.
    derandomize=not FULL,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=2),
    some,
    st.lists(every_operation, min_size=1, max_size=3 if FULL else 1),
    st.booleans(),
)
@example(
    kind="partitions, feed, vectors",
    files=[[(None, None, "b"), (4, None, "c")]],
    lost="{t}id % 2 = 0",
    made=[("update", None, {"v": "concat({t}v, 'x')"})],
    broadcasts=False,
)
@example(
    kind="partitions, feed, vectors",
    files=[[(1, 1, "b"), (4, 1, "c"), (5, 0, None)]],
    lost="{t}id % 2 = 0",
    made=[("update", "{t}p = 1", {"v": "concat({t}v, 'x')"})],
    broadcasts=False,
)
@example(
    kind="vectors",
    files=[[(0, 2, "c"), (3, None, "c")]],
    lost=None,
    made=[("update", "{t}id = 3", {"p": "{t}p + 1"})],
    broadcasts=True,
)
@example(
    # No row of the table has a key: stock's count of the source is 0.
    kind="plain",
    files=[[(None, 1, "a")]],
    lost=None,
    made=[
        (
            "merge",
            {
                "on": "t.id = s.id",
                "source": [(1, 1, "b")],
                "matched": [("update all", None, {})],
                "absent": [("insert all", None, {})],
                "lost": [],
            },
        )
    ],
    broadcasts=True,
)
def test_made_up_operations(db, places, kind, files, lost, made, broadcasts):
    word = uuid.uuid4().hex[:12]
    arrow = Ours(_made(db, f"m.{word}", kind, files, lost))
    spark = OurSpark(db, _made(db, f"m.{word}.spark", kind, files, lost))
    stock = Stock(db.spark, places / word, arrow.table)
    starts = [arrow.table.version, spark.table.version, 0]
    # Without, a merge goes the way of one with many matches.
    db.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10MB" if broadcasts else "-1")
    try:
        for operation in made:
            _run(arrow, spark, stock, operation)
    finally:
        db.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    logs = [engine.log() for engine in (arrow, spark, stock)]
    expected = logs[2].rows()
    assert [log.rows() for log in logs[:2]] == [expected, expected]
    if FEED in KINDS[kind][1]:
        feeds = [log.changes(start) for log, start in zip(logs, starts, strict=True)]
        assert feeds[:2] == [feeds[2], feeds[2]]


def _run(arrow, spark, stock, operation) -> None:
    layout = stock.log().layout()
    same = [engine.log().layout() == layout for engine in (arrow, spark)]
    try:
        is_new = stock.run(operation)
    except RefusedError:
        for engine in (arrow, spark):
            with pytest.raises(RefusedError):
                engine.run(operation)
        return
    for engine, same_files in zip((arrow, spark), same, strict=True):
        engine.run(operation)
        if is_new:
            must_agree(engine, stock, operation, same_files=same_files)


# After the last test, stock Delta reads the mirrors of all of them.
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["partitions, feed, vectors"])
def test_created_with_rows(db, places, kind):
    """Version 0 with its rows says the same of them, whoever makes the table."""
    by, properties = KINDS[kind]
    given = dict.fromkeys(properties, "true")
    first = [(1, 0, "a"), (2, 1, None), (None, None, "c")]
    word = uuid.uuid4().hex[:12]
    arrow = Ours(_made(db, f"c.{word}", kind, [first]))
    frame = db.spark.createDataFrame(first, SCHEMA).coalesce(1)
    created = db.write(frame, f"c.{word}.spark", partition_by=by, properties=given)
    spark = Ours(db.lake.table(f"c.{word}.spark"))
    writer = frame.write.format("delta").partitionBy(*by).options(**given)
    writer.save(str(places / word))
    stock = log_at(places / word)
    told = stock.metrics(0)
    for log in (arrow.log(), spark.log()):
        assert log.rows() == stock.rows()
        assert log.changes(-1) == stock.changes(-1)
        assert told.keys() <= log.metrics(0).keys()
        for name in ("numFiles", "numOutputRows"):
            assert log.metrics(0)[name] == told[name]
    assert created == 0
    assert created.metrics == spark.log().metrics(0)
