"""Write modes: what each one writes, removes and reads, up to the commit.

Executors write the files and the driver gets their actions; nothing here commits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltasql.commit.discarding import Abandon, Discarder
from deltasql.errors import ValidationError
from deltasql.lake import writing
from deltasql.lake.dml.metrics import write_metrics
from deltasql.lake.snapshot import Snapshot
from deltasql.log.conflict import Reads
from deltasql.log.predicates import predicate as logic
from deltasql.log.predicates.predicate import (
    And,
    Comparison,
    IsNull,
    Literal,
    Or,
    Predicate,
    bind,
)
from deltasql.log.pruning.stats_keys import load_stats, record_count
from deltasql.log.removal import (
    Removable,
    Sorted,
    WholeFile,
    every_row,
    removes,
    rewritten,
    sort_by_match,
)
from deltasql.log.state import TableState
from deltasql.spark.native import evolution
from deltasql.spark.native.enforcement import fit
from deltasql.spark.native.evolution import Plan
from deltasql.spark.native.file_size import rows_per_file
from deltasql.spark.native.gateway import Gateway
from deltasql.spark.native.options import WriteOptions
from deltasql.spark.native.paths import picked, place_of
from deltasql.spark.native.reading import Condition, Reader
from deltasql.spark.native.replacement import Replacement
from deltasql.spec.actions import Action, AddFile, CdcFile, Metadata
from deltasql.spec.partition_values import UnrepresentableValueError, parse_value
from deltasql.spec.properties import CHANGE_FEED, is_true
from deltasql.spec.protocol import check_writable
from deltasql.spec.schema import Primitive, StructType, parse_schema
from deltasql.store.file_rows import from_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType as SparkStruct

# With this many partitions in one conflict check, checking the whole table is cheaper.
_MANY_PARTITIONS = 1000


@dataclass(frozen=True, slots=True)
class Touched:
    """Files that contain rows of a condition, and how many such rows."""

    files: Sequence[AddFile] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One write: where it goes, the table before (if it exists) and after it, and how."""

    location: str
    snapshot: Snapshot | None
    plan: Plan
    options: WriteOptions
    # What to delete if the write fails halfway.
    written: list[AddFile | CdcFile] = field(default_factory=list)

    @property
    def like(self) -> Snapshot | None:
        """The table as it is, if its rows have the same form as these."""
        replaced = any(isinstance(action, Metadata) for action in self.plan.changes)
        return None if replaced else self.snapshot


class Writer:
    """Writes rows to tables of a lake through Delta's writer."""

    def __init__(self, gateway: Gateway, reader: Reader, discarder: Discarder) -> None:
        self._gateway = gateway
        self._reader = reader
        self._discarder = discarder

    def prepare(
        self,
        location: str,
        snapshot: Snapshot,
        frame: DataFrame,
        options: WriteOptions,
        *,
        abandon: Abandon,
    ) -> writing.Write:
        """Write the rows as files, and describe the commit; a failure deletes them."""
        check_writable(snapshot.protocol)
        job = Job(location, snapshot, _plan(snapshot.state, frame, options), options)
        try:
            return self._write(job, snapshot, frame)
        except BaseException:
            abandon([file.path for file in job.written])
            raise

    def _write(self, job: Job, snapshot: Snapshot, frame: DataFrame) -> writing.Write:
        options = job.options
        if options.mode != "overwrite":
            return self._append(job, snapshot, frame)
        if options.replace_where is not None:
            return self._replace(job, snapshot, frame, options.replace_where)
        return self._overwrite(job, snapshot, frame)

    def files(
        self, job: Job, frame: DataFrame, *, check: str | None = None
    ) -> tuple[Plan, list[AddFile | CdcFile]]:
        """New files with the rows, fitted to the table; `check` must hold for each row."""
        metadata = job.plan.metadata
        rows = fit(frame, _spark_schema(metadata), change_feed=_has_feed(metadata))
        table = self._gateway.table(job.location, metadata, job.plan.protocol)
        most = rows_per_file(
            job.options.target_file_size, job.like, partial(self._sample, job, rows)
        )
        written = self._gateway.write(table, rows, check=check, max_rows=most)
        job.written.extend(written.actions)
        return evolution.with_identity(job.plan, written.identity), list(written.actions)

    def _sample(self, job: Job, rows: DataFrame, count: int) -> tuple[int, int]:
        """Write some of the rows to measure their size; the files are deleted."""
        # In one file: small ones would mostly measure their footers.
        whole = replace(job.plan.metadata, partition_columns=())
        table = self._gateway.table(job.location, whole, job.plan.protocol)
        written = self._gateway.write(table, rows.limit(count).coalesce(1)).actions
        adds = [item for item in written if isinstance(item, AddFile)]
        paths = [add.path for add in adds]
        after = -1 if job.snapshot is None else job.snapshot.version
        self._discarder.discard(job.location, paths, after=after)
        rows_there = sum(record_count(load_stats(add.stats)) or 0 for add in adds)
        return sum(add.size for add in adds), rows_there

    # --- the modes ----------------------------------------------------------------------

    def _append(self, job: Job, snapshot: Snapshot, frame: DataFrame) -> writing.Write:
        plan, files = self.files(job, frame)
        return _write(snapshot, plan, files, mode="Append")

    def _overwrite(self, job: Job, snapshot: Snapshot, frame: DataFrame) -> writing.Write:
        plan, files = self.files(job, frame)
        dynamic = job.options.dynamic
        if not dynamic or not snapshot.state.partition_columns:
            gone, reads = every_row(_adds(snapshot, None)), Reads.all()
        else:
            gone, reads = _in_partitions_of(files, snapshot)
        return _write(
            snapshot, plan, files, mode="Overwrite", gone=gone, reads=reads, dynamic=dynamic
        )

    def _replace(self, job: Job, snapshot: Snapshot, frame: DataFrame, where: str) -> writing.Write:
        condition = self._reader.condition(where, snapshot.state)
        # First what was there: the frame may have been read from the table itself.
        found = self._found(snapshot, condition)
        met = self.touched(job.location, snapshot.state, found.partial, condition.text)
        touched = list(met.files)
        plan, files = self.files(job, frame, check=condition.text)
        rest: Sequence[AddFile | CdcFile] = ()
        if touched:
            new = [item for item in files if isinstance(item, AddFile)]
            after = replace(job, plan=plan)
            rest = self._remainder(after, snapshot, condition, Sorted(found.whole, touched), new)
            files += rest
        gone: list[Removable] = [*found.whole, *rewritten(touched)]
        keys = frozenset((add.path, add.dv_id) for add in gone)
        reads = Reads.all()
        if condition.predicate is not None:
            reads = Reads.where(condition.predicate, files=keys)
        return _write(
            snapshot,
            plan,
            files,
            mode="Overwrite",
            gone=gone,
            reads=reads,
            kept=[item for item in rest if isinstance(item, AddFile)],
            predicate=condition.text,
        )

    def _found(self, snapshot: Snapshot, condition: Condition) -> Sorted:
        sure = condition.predicate if condition.is_whole else None
        adds, state = _adds(snapshot, condition.predicate), snapshot.state

        return sort_by_match(adds, sure, state.schema, state.partition_columns)

    def _remainder(
        self,
        job: Job,
        snapshot: Snapshot,
        condition: Condition,
        found: Sorted,
        new: Sequence[AddFile],
    ) -> Sequence[AddFile | CdcFile]:
        """Files with the rows that a condition leaves of others, and with all changes.

        Changes are written if the table has a feed: otherwise the rows that stay, which are in new
        files, too, could not be told from the new ones.
        """
        state = snapshot.state
        metadata, protocol = job.plan.metadata, job.plan.protocol
        parts = Replacement(
            condition.text,
            schema=_spark_schema(metadata),
            old=partial(self._reader.of_adds, job.location, state),
            new=partial(
                self._reader.of_adds,
                job.location,
                replace(state, metadata=metadata, protocol=protocol),
            ),
        )
        fed = _has_feed(metadata)
        rows = parts.changes(found, new) if fed else parts.rest(found.partial)
        table = self._gateway.table(job.location, metadata, protocol)

        def sample(count: int) -> tuple[int, int]:
            return self._sample(job, parts.rest(found.partial), count)

        most = rows_per_file(job.options.target_file_size, job.like, sample)
        written = self._gateway.write(table, rows, max_rows=most).actions
        job.written.extend(written)
        return written

    def touched(
        self,
        location: str,
        state: TableState,
        candidates: Sequence[AddFile],
        condition: str | Column,
    ) -> Touched:
        """The candidates that contain a row of the condition."""
        if not candidates:
            return Touched()
        from pyspark.sql import functions as sql

        rows = self._reader.of_adds(location, state, candidates).where(condition)
        paths = rows.select(sql.col("_metadata.file_path").alias("path"))
        found = paths.groupBy("path").count().collect()
        places = {place_of(path) for path, _ in found}
        return Touched(picked(candidates, location, places), sum(count for _, count in found))


def _plan(state: TableState, frame: DataFrame, options: WriteOptions) -> Plan:
    incoming = parse_schema(frame.schema.json(), source="the rows' schema")
    if options.overwrite_schema:
        return evolution.replaced(state, incoming, options.partition_by)
    evolution.check_partitioning(state, options.partition_by)
    if options.merge_schema:
        return evolution.merged(state, incoming)
    return evolution.unchanged(state)


def _write(
    snapshot: Snapshot,
    plan: Plan,
    files: Sequence[AddFile | CdcFile],
    *,
    mode: str,
    gone: Iterable[Removable] = (),
    reads: Reads | None = None,
    kept: Sequence[AddFile] | None = None,
    **more: Any,
) -> writing.Write:
    gone = list(gone)
    removed = removes(gone, deletion_timestamp=writing.now_ms())
    params: dict[str, Any] = {"mode": mode, "partitionBy": list(plan.metadata.partition_columns)}
    if more.get("predicate"):
        params["predicate"] = more["predicate"]
    if more.get("dynamic"):
        params["isDynamicPartitionOverwrite"] = True
    actions: list[Action] = [*plan.changes, *removed, *files]
    return writing.Write(
        actions=actions,
        operation="WRITE",
        operation_params=params,
        reads=reads or Reads.nothing(),
        read_version=snapshot.version,
        files=files,
        metrics=write_metrics(files, gone if mode == "Overwrite" else None, kept),
    )


def _adds(snapshot: Snapshot, predicate: Predicate | None) -> list[AddFile]:
    return [add for batch in snapshot.batches(predicate) for add in from_batch(batch)]


def _in_partitions_of(
    files: Sequence[AddFile | CdcFile], snapshot: Snapshot
) -> tuple[list[WholeFile], Reads]:
    """The table's files in the partitions of new ones, and what that lookup has read."""
    state = snapshot.state
    wanted = {_partition(item, state) for item in files}
    if not wanted:
        return [], Reads.nothing()
    predicate = _any_of(files, state) if len(wanted) <= _MANY_PARTITIONS else None
    gone = [add for add in _adds(snapshot, predicate) if _partition(add, state) in wanted]
    return every_row(gone), Reads.all() if predicate is None else Reads.where(predicate)


def _any_of(files: Sequence[AddFile | CdcFile], state: TableState) -> Predicate | None:
    """The partitions of files as a predicate; None if one can't be expressed."""
    names = dict(zip(state.partition_types, state.partition_columns, strict=True))
    texts = {tuple(sorted(item.partition_values.items())) for item in files}
    parts = [And(tuple(_equal(names[key], text) for key, text in value)) for value in texts]
    try:
        return bind(Or(tuple(parts)), state.schema)
    except ValidationError:
        return None


def _partition(item: AddFile | CdcFile, state: TableState) -> tuple[Any, ...]:
    """A file's partition by its values: writers format them differently."""
    return tuple(
        _value(item.partition_values.get(key), kind) if isinstance(kind, Primitive) else None
        for key, kind in state.partition_types.items()
    )


def _value(text: str | None, kind: Primitive) -> Any:
    """The value of a text; if Python can't represent it, the text itself identifies it."""
    try:
        value = parse_value(text, kind)
    except UnrepresentableValueError:
        return (kind.name, text)
    # In Python no NaN equals another; in Spark they are all one partition.
    return (kind.name, "NaN") if _is_nan(value) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _equal(name: str, text: str | None) -> Predicate:
    column = logic.Column((name,))
    return IsNull(column) if text is None else Comparison("=", column, Literal(text))


def schema_of(frame: DataFrame) -> StructType:
    """The rows' schema as Delta writes it."""
    return parse_schema(frame.schema.json(), source="the rows' schema")


def _spark_schema(metadata: Metadata) -> SparkStruct:
    from pyspark.sql.types import StructType as SparkStruct

    return SparkStruct.fromJson(json.loads(metadata.schema_string))


def _has_feed(metadata: Metadata) -> bool:
    return is_true(metadata.configuration, CHANGE_FEED)
