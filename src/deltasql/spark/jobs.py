"""Work for executors, one Spark job for each item, answered in the items' order.

The executors run functions of our package and open no database. Only a few answers are in the
driver's memory at once, and the executors work ahead while the driver writes.
"""

from __future__ import annotations

import pickle
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from deltasql.errors import ConfigError, DeltaSqlError, MirrorError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
# A driver with more cores at hand can't write faster.
_MOST_AT_ONCE: Final = 8


def in_order(
    spark: SparkSession, work: Callable[[Item], bytes], items: Iterable[Item], doing: str
) -> Iterator[bytes]:
    """What `work` answers for each item; `doing` is how Spark's UI names the jobs.

    A single item is not worth a job: the driver does it.
    """
    items = iter(items)
    start = list(islice(items, 2))
    if len(start) < 2:
        yield from map(work, start)
        return
    yield from _in_jobs(spark, work, chain(start, items), doing)


def _in_jobs(
    spark: SparkSession, work: Callable[[Item], bytes], items: Iterable[Item], doing: str
) -> Iterator[bytes]:
    at_once = max(1, min(_MOST_AT_ONCE, int(spark.sparkContext.defaultParallelism)))
    tag = f"deltasql-{uuid.uuid4().hex}"

    def ask(item: Item) -> bytes:
        spark.addTag(tag)
        spark.sparkContext.setJobDescription(doing)
        try:
            return _answer(spark, work, item)
        except DeltaSqlError:
            raise
        except Exception as error:  # Py4J and Spark have no common root
            raise _failed(error, doing) from error

    with ThreadPoolExecutor(at_once, thread_name_prefix="deltasql-jobs") as pool:
        waiting: deque[Future[bytes]] = deque()
        try:
            for item in items:
                # One more than run at once: a core is never idle until the driver looks.
                if len(waiting) > at_once:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(ask, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            if waiting:
                spark.interruptTag(tag)


def _answer(spark: SparkSession, work: Callable[[Item], bytes], item: Item) -> bytes:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            items = map(pickle.loads, batch.column(0).to_pylist())  # our own
            made = [work(found) for found in items]
            yield pa.RecordBatch.from_arrays([pa.array(made, pa.large_binary())], ["item"])

    # As data: what a function refers to would be broadcast, and kept.
    given = pa.table({"item": pa.array([pickle.dumps(item)], pa.large_binary())})
    frame = spark.createDataFrame(given).coalesce(1).mapInArrow(run, "item binary")
    return bytes(frame.toArrow().column(0)[0].as_py())


def _failed(error: Exception, doing: str) -> DeltaSqlError:
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in said:
        if line.startswith(("ModuleNotFoundError", "ImportError")):
            return ConfigError(
                f"Spark's executors can't run deltasql ({doing})",
                cause=line,
                remedy="install the same deltasql in the Python of the executors "
                "(spark.pyspark.python), or call the same on the lake: it needs no executors",
            )
    return MirrorError(
        f"Spark failed ({doing})",
        cause=(said or [type(error).__name__])[0][:500],
        remedy="look at the log of the executors, then try again",
    )
