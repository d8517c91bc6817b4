"""Logs of millions of files: adopted, validated and checkpointed with the executors' help.

The executors read the log's files and hash its rows; they never open the database. The driver is
the only one that does, and holds a few chunks of rows at a time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from deltasql.adoption.cross_check import CrossCheck
from deltasql.adoption.loading.first_checkpoint import Base, LoadAdds, LoadedAdds
from deltasql.adoption.loading.foreign_log import LogPlan
from deltasql.adoption.loading.outside import PathRules
from deltasql.adoption.loading.parts import Parts
from deltasql.adoption.loading.stretches import (
    AddsWork,
    PathsWork,
    SumsWork,
    stretches,
    take_stretches,
    take_sums,
)
from deltasql.delta_log.listing import FoundCheckpoint
from deltasql.delta_log.names import LOG
from deltasql.delta_log.reading import sidecars_of
from deltasql.log.file_sums import FileSums
from deltasql.log.state import TableState
from deltasql.mirror.checkpoints.soundness import other_sums
from deltasql.mirror.validation.by_sums import read_from_checkpoint
from deltasql.mirror.validation.second_reader import FilesDigest, digest_of_stream
from deltasql.objectstore import ObjectStore
from deltasql.spark.jobs import in_order
from deltasql.spark.native.gateway import hadoop_location
from deltasql.store.checking.summing import (
    NOTHING,
    PathSum,
    RowSums,
    packed,
    sum_of_paths,
    sums_of_rows,
)
from deltasql.store.interface import LogStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasql.lake.catalog import Lake

# Rows that are sent to an executor at a time.
_ROWS: Final = 50_000
# The same of rows that are only paths and sizes.
_PATHS: Final = 200_000
_PATTERN: Final = "{}[]*?\\,"


class SparkAdds:
    """Loads the adds of the checkpoint that a log begins with; see `LoadAdds`."""

    def __init__(self, spark: SparkSession, lake: Lake, allowed: Iterable[str]) -> None:
        self._spark = spark
        self._lake = lake
        self._allowed = tuple(allowed)

    def __call__(self, table_id: int) -> LoadAdds:
        """How the files of a staged table are loaded."""
        return partial(self._load, table_id)

    def _load(
        self, table_id: int, base: Base, state: TableState, parts: Parts, paths: PathRules
    ) -> LoadedAdds:
        work = AddsWork(
            location=base.location,
            storage=dict(self._lake.storage),
            version=base.version,
            stats_columns=state.stats_columns,
            allowed=self._allowed,
            table_id=table_id,
            chunk=self._lake.store.add_chunk,
        )
        cut = stretches(self._lake.objects(base.location), base.files)
        made = in_order(self._spark, work, cut, f"adopting {base.location}")
        return take_stretches(base, state, parts, paths, made)


class SparkSummer:
    """Makes the sums that validation and checkpoints ask for; see `Summer`."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake

    def live_sums(self, log: LogStore, table_id: int, version: int) -> FileSums:
        """As `soundness.live_sums`."""
        files = self.rows(log, table_id, version).files
        return files.with_others_of(other_sums(log, table_id, version))

    def rows(self, log: LogStore, table_id: int, version: int) -> RowSums:
        """The sums over the rows of a version's live files."""
        found = NOTHING
        batches = log.live_keys(table_id, version)
        for answer in self._ask(sums_of_rows, packed(batches, _ROWS), "summing up rows"):
            found = found.plus(answer)
        return found

    def checkpoint(
        self, objects: ObjectStore, found: FoundCheckpoint, *, without: Set[bytes]
    ) -> FileSums:
        """The sums over a checkpoint's files in Parquet."""
        work = SumsWork(
            location=objects.location, storage=dict(self._lake.storage), without=frozenset(without)
        )
        cut = stretches(objects, _parquet_files(objects, found))
        doing = f"reading the checkpoint of {objects.location}"
        return take_sums(in_order(self._spark, work, cut, doing))

    def paths(self, batches: Iterable[pa.RecordBatch]) -> PathSum:
        """The sum over batches of path and size."""
        found = PathSum()
        for answer in self._ask(sum_of_paths, packed(batches, _PATHS), "summing up paths"):
            found = found.plus(answer)
        return found

    def digest(self, batches: Iterable[pa.RecordBatch]) -> FilesDigest:
        """As `second_reader.digest_of`."""
        found = FilesDigest()
        for answer in self._ask(digest_of_stream, packed(batches, _PATHS), "comparing files"):
            found = found.plus(answer)
        return found

    def _ask(
        self, work: Callable[[bytes], bytes], items: Iterable[bytes], doing: str
    ) -> Iterator[Any]:
        for answer in in_order(self._spark, work, items, doing):
            yield pickle.loads(answer)  # noqa: S301 - our own


def _parquet_files(objects: ObjectStore, found: FoundCheckpoint) -> Iterator[str]:
    """The files in Parquet of a checkpoint, sidecars included."""
    for name in found.names:
        if name.endswith(".parquet"):
            yield name
        yield from sidecars_of(objects, name)


def spark_check(
    spark: SparkSession, lake: Lake, log: LogStore, objects: ObjectStore, options: Mapping[str, str]
) -> CrossCheck:
    """The proof of an adoption, with Spark's reader of Parquet where there are many files."""
    return CrossCheck(
        log,
        objects,
        options,
        SparkSummer(spark, lake).digest,
        partial(_read_by_spark, spark, objects),
    )


def _read_by_spark(
    spark: SparkSession, objects: ObjectStore, plan: LogPlan, version: int
) -> FilesDigest | None:
    """The files of a version, from the newest checkpoint; None if none is in Parquet, or if Spark
    would take its place for a pattern.
    """
    start = read_from_checkpoint(objects, plan.listing, version)
    root = hadoop_location(objects.location).rstrip("/")
    if start is None or set(root) & set(_PATTERN):
        return None
    names = [f"{root}/{LOG}{name}" for name in _parquet_files(objects, start.found)]
    frame = spark.read.parquet(*names).where("add IS NOT NULL").select("add.*")
    wanted = [name for name in ("path", "size", "deletionVector") if name in frame.columns]
    work = PathsWork(touched=frozenset(start.touched))
    parts = frame.select(*wanted).mapInArrow(work.hashed, "digest binary").collect()
    found = FilesDigest()
    found.take((add.path, add.size) for add in start.replay.files.values())
    for part in parts:
        found = found.plus(pickle.loads(bytes(part.digest)))  # noqa: S301 - our own
    return found
