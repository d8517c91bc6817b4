"""Write modes: what each one writes, removes and rests on, up to the commit.

Executors write the files and the driver gets their actions; nothing here commits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.compute as pc

from deltasql import writing
from deltasql.log import predicate as logic
from deltasql.log.conflict import Reads
from deltasql.log.predicate import And, Comparison, IsNull, Literal, Or, Predicate, bind
from deltasql.log.pruning import is_partition_only
from deltasql.log.state import TableState
from deltasql.snapshot import Snapshot
from deltasql.spark import evolution
from deltasql.spark.enforcement import fit
from deltasql.spark.evolution import Plan
from deltasql.spark.gateway import Gateway
from deltasql.spark.options import WriteOptions
from deltasql.spark.reading import Condition, Reader
from deltasql.spec.actions import Action, AddFile, CdcFile, RemoveFile
from deltasql.spec.partition_values import parse_value
from deltasql.spec.paths import is_absolute
from deltasql.spec.protocol import check_writable
from deltasql.spec.schema import Primitive, StructType, parse_schema
from deltasql.store.file_rows import from_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHANGE_FEED = "delta.enableChangeDataFeed"
# So many partitions in one conflict check that checking the whole table is cheaper.
_MANY_PARTITIONS = 1000
# Bytes that a value takes in a Parquet file, roughly; 20 for what is not listed.
_WIDTHS = {
    "boolean": 1,
    "byte": 1,
    "short": 2,
    "integer": 4,
    "float": 4,
    "date": 4,
    "long": 8,
    "double": 8,
    "timestamp": 8,
    "timestamp_ntz": 8,
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*")


class Writer:
    """Writes rows to tables of a lake through Delta's writer."""

    def __init__(self, gateway: Gateway, reader: Reader) -> None:
        self._gateway = gateway
        self._reader = reader

    def prepare(
        self, location: str, snapshot: Snapshot, frame: DataFrame, options: WriteOptions
    ) -> writing.Write:
        """Write the rows as files, and say what the commit is."""
        check_writable(snapshot.protocol)
        plan = _plan(snapshot.state, frame, options)
        if options.mode != "overwrite":
            return self._append(location, snapshot, plan, frame, options)
        if options.replace_where is not None:
            return self._replace(location, snapshot, plan, frame, options)
        return self._overwrite(location, snapshot, plan, frame, options)

    def files(
        self,
        location: str,
        plan: Plan,
        frame: DataFrame,
        options: WriteOptions,
        *,
        check: str | None = None,
        bytes_a_row: float | None = None,
    ) -> tuple[Plan, list[AddFile | CdcFile]]:
        """New files with the rows, fitted to the table; `check` must hold for each row."""
        from pyspark.sql.types import StructType as SparkStruct

        metadata = plan.metadata
        schema = SparkStruct.fromJson(_json(metadata.schema_string))
        feed = metadata.configuration.get(CHANGE_FEED, "").lower() == "true"
        rows = fit(frame, schema, change_feed=feed)
        table = self._gateway.table(location, metadata, plan.protocol)
        written = self._gateway.write(
            table, rows, check=check, max_rows=_rows_of(options, bytes_a_row, schema)
        )
        return evolution.with_identity(plan, written.identity), list(written.actions)

    # --- the modes ----------------------------------------------------------------------

    def _append(
        self,
        location: str,
        snapshot: Snapshot,
        plan: Plan,
        frame: DataFrame,
        options: WriteOptions,
    ) -> writing.Write:
        width = bytes_a_row(snapshot) if options.target_file_size else None
        plan, files = self.files(location, plan, frame, options, bytes_a_row=width)
        return _write(snapshot, plan, files, mode="Append")

    def _overwrite(
        self,
        location: str,
        snapshot: Snapshot,
        plan: Plan,
        frame: DataFrame,
        options: WriteOptions,
    ) -> writing.Write:
        plan, files = self.files(location, plan, frame, options)
        state = snapshot.state
        if not options.dynamic or not state.partition_columns:
            gone, reads = _adds(snapshot, None), Reads.all()
        else:
            gone, reads = _in_partitions_of(files, snapshot)
        return _write(
            snapshot,
            plan,
            files,
            mode="Overwrite",
            gone=gone,
            reads=reads,
            dynamic=options.dynamic,
        )

    def _replace(
        self,
        location: str,
        snapshot: Snapshot,
        plan: Plan,
        frame: DataFrame,
        options: WriteOptions,
    ) -> writing.Write:
        assert options.replace_where is not None
        condition = self._reader.condition(options.replace_where, snapshot.state)
        # First what was there: a frame may have been read from the table itself.
        gone, kept = self._matched(location, snapshot, condition)
        plan, files = self.files(location, plan, frame, options, check=condition.text)
        if kept is not None:
            plan, survivors = self.files(location, plan, kept, options)
            files += survivors
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
            predicate=condition.text,
        )

    def _matched(
        self, location: str, snapshot: Snapshot, condition: Condition
    ) -> tuple[list[AddFile], DataFrame | None]:
        """The files that hold rows of the condition, and their other rows."""
        state = snapshot.state
        candidates = _adds(snapshot, condition.predicate)
        predicate = condition.predicate
        if condition.is_whole and (
            predicate is None or is_partition_only(predicate, state.partition_columns)
        ):
            return candidates, None
        touched = self.touched(location, state, candidates, condition.text)
        if not touched:
            return [], None
        rows = self._reader.of_adds(location, state, touched)
        return touched, rows.where(f"NOT coalesce(({condition.text}), false)")

    def touched(
        self,
        location: str,
        state: TableState,
        candidates: Sequence[AddFile],
        condition: str | Column,
    ) -> list[AddFile]:
        """Those of the candidates that hold a row of the condition."""
        if not candidates:
            return []
        from pyspark.sql import functions as sql

        rows = self._reader.of_adds(location, state, candidates).where(condition)
        found = rows.select(sql.col("_metadata.file_path").alias("path")).distinct().collect()
        touched = {place_of(row.path) for row in found}
        return [add for add in candidates if place_of(add.path, location) in touched]


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
    gone: Iterable[AddFile] = (),
    reads: Reads | None = None,
    **more: Any,
) -> writing.Write:
    stamp = writing.now_ms()
    removes = [RemoveFile.of(add, deletion_timestamp=stamp) for add in gone]
    params: dict[str, Any] = {"mode": mode, "partitionBy": list(plan.metadata.partition_columns)}
    if more.get("predicate"):
        params["predicate"] = more["predicate"]
    if more.get("dynamic"):
        params["isDynamicPartitionOverwrite"] = True
    actions: list[Action] = [*plan.changes, *removes, *files]
    return writing.Write(
        actions=actions,
        operation="WRITE",
        operation_params=params,
        reads=reads or Reads.nothing(),
        read_version=snapshot.version,
        files=[item for item in files if isinstance(item, AddFile)],
    )


def _rows_of(options: WriteOptions, bytes_a_row: float | None, schema: Any) -> int | None:
    """How many rows make a file of the size asked for: by the table's own files, if any."""
    if options.target_file_size is None:
        return None
    width = bytes_a_row or sum(_WIDTHS.get(item.dataType.typeName(), 20) for item in schema.fields)
    return max(1, int(options.target_file_size / max(width, 1.0)))


def bytes_a_row(snapshot: Snapshot) -> float | None:
    """What a row of the table takes in its files, by the first of them; None when unknown."""
    batch = next(iter(snapshot.batches()), None)
    if batch is None or not batch.num_rows:
        return None
    rows = pc.sum(batch.column("num_records")).as_py()
    return pc.sum(batch.column("size")).as_py() / rows if rows else None


def _adds(snapshot: Snapshot, predicate: Predicate | None) -> list[AddFile]:
    return [add for batch in snapshot.batches(predicate) for add in from_batch(batch)]


def _in_partitions_of(
    files: Sequence[AddFile | CdcFile], snapshot: Snapshot
) -> tuple[list[AddFile], Reads]:
    """The table's files in the partitions of new ones, and what looking at them has read."""
    state = snapshot.state
    wanted = {_partition(item, state) for item in files}
    if not wanted:
        return [], Reads.nothing()
    predicate = None
    if len(wanted) <= _MANY_PARTITIONS:
        names = dict(zip(state.partition_types, state.partition_columns, strict=True))
        texts = {tuple(sorted(item.partition_values.items())) for item in files}
        parts = [And(tuple(_equal(names[key], text) for key, text in value)) for value in texts]
        predicate = bind(Or(tuple(parts)), state.schema)
    gone = [add for add in _adds(snapshot, predicate) if _partition(add, state) in wanted]
    return gone, Reads.all() if predicate is None else Reads.where(predicate)


def _partition(item: AddFile | CdcFile, state: TableState) -> tuple[Any, ...]:
    """A file's partition by its values: writers differ in how they put them as text."""
    return tuple(
        parse_value(item.partition_values.get(key), kind) if isinstance(kind, Primitive) else None
        for key, kind in state.partition_types.items()
    )


def _equal(name: str, text: str | None) -> Predicate:
    column = logic.Column((name,))
    return IsNull(column) if text is None else Comparison("=", column, Literal(text))


def place_of(path: str, location: str = "") -> str:
    """Where a file lies, however its path is written: in the log, or in `_metadata.file_path`."""
    whole = path if is_absolute(path) else f"{location.rstrip('/')}/{path}"
    return unquote(_SCHEME.sub("", whole))


def schema_of(frame: DataFrame) -> StructType:
    """The rows' schema as Delta writes it."""
    return parse_schema(frame.schema.json(), source="the rows' schema")


def _json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
