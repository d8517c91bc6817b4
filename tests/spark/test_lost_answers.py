"""The data source commits in a process of Spark's: there the network itself loses the answer.

The connection is cut during the COMMIT: the server commits, and nobody hears of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import deltasql
import deltasql.spark
from tests.faults.held_commits import commit_held
from tests.faults.matrix.outcomes import state_of
from tests.faults.matrix.verbs import Place
from tests.sizes import each_value


@contextmanager
def answers_lost(url: str, proxy, *, stays_away: bool) -> Iterator[threading.Event]:
    """Cut every connection of the proxy during a commit; says whether it did."""
    try:
        afterwards = (lambda: None) if stays_away else proxy.enable
        with commit_held(url, proxy.disable, afterwards) as cut:
            yield cut
    finally:
        proxy.enable()


@pytest.fixture
def place(postgres_server, postgres_dbname, postgres_proxy, tmp_path, spark):
    url = postgres_server.url(postgres_dbname, port=postgres_proxy.port)
    settings = {"sql.timeout": "2s", "mirror.mode": "off"}
    with deltasql.connect(url, location=tmp_path.as_uri(), settings=settings) as lake:
        place = Place(lake, "s")
        place.prepare()
        deltasql.spark.attach(spark, lake)
        yield place


def _batch(spark, place: Place, tmp_path, short: str, mode: str) -> None:
    frame = spark.createDataFrame([(3, "x")], "id BIGINT, p STRING")
    frame.write.format("deltasql").mode(mode).save(place.name(short))


def _stream(spark, place: Place, tmp_path, short: str, mode: str) -> None:
    source = str(tmp_path / "incoming")
    spark.createDataFrame([(3, "x")], "id BIGINT, p STRING").write.parquet(source)
    stream = spark.readStream.schema("id BIGINT, p STRING").parquet(source).writeStream
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = stream.trigger(availableNow=True).format("deltasql").start(place.name(short))
    query.awaitTermination()


VERBS = {
    "append": (_batch, "a", "append", {"a": (1, 2, 3)}),
    "overwrite": (_batch, "a", "overwrite", {"a": (3,)}),
    "create": (_batch, "new", "append", {"new": (3,)}),
    "stream": (_stream, "a", "append", {"a": (1, 2, 3)}),
}


@pytest.mark.parametrize(("verb", "stays_away"), each_value(tuple(VERBS), (False, True)))
def test_answer_is_lost(
    spark, place, tmp_path, postgres_server, postgres_dbname, postgres_proxy, verb, stays_away
):
    write, short, mode, after = VERBS[verb]
    direct = postgres_server.url(postgres_dbname)
    failure = None
    with answers_lost(direct, postgres_proxy, stays_away=stays_away) as cut:
        try:
            write(spark, place, tmp_path, short, mode)
        except Exception as error:  # noqa: BLE001 - Spark wraps what the commit said
            failure = error
    assert cut.is_set()
    with deltasql.connect(direct, location=tmp_path.as_uri()) as lake:
        found = state_of(lake, place.names)
    assert found == place.state(**after)
    if stays_away:
        assert failure is not None
        # A stream's own error names its query only.
        assert verb == "stream" or "CommitStateUnknownError" in str(failure)
    else:
        assert failure is None
